import assert from "node:assert/strict";
import { test } from "node:test";
import {
  clip,
  columnDecimals,
  formatAmount,
  formatBytes,
  formatClock,
  formatMoment,
  formatSeconds,
  formatShare,
  formatShort,
  formatTick,
  groupLabel,
  nameOf,
  numberOf,
  positionOf,
  shortWindow,
  textOf,
} from "../src/logic/values";

test("numbers have separators and keep significant decimals", () => {
  assert.equal(formatAmount(1234567), "1,234,567");
  assert.equal(formatAmount(2363516.16), "2,363,516.16");
  assert.equal(formatAmount(-0.5), "−0.5");
  assert.equal(formatAmount(0.1 + 0.2), "0.3");
  assert.equal(formatAmount(1e21), "1.0000e21");
  assert.equal(formatAmount(1e-9), "1.0000e−9");
  assert.equal(formatAmount(null), "–");
});

test("values that a browser cannot represent stay unchanged", () => {
  assert.equal(formatAmount("1152921504606846981"), "1,152,921,504,606,846,981");
  assert.equal(formatAmount("-9007199254740993"), "−9,007,199,254,740,993");
  assert.equal(formatAmount("Infinity"), "∞");
  assert.equal(formatAmount("-Infinity"), "−∞");
  assert.equal(numberOf("-Infinity"), -Infinity);
  assert.ok(Number.isNaN(numberOf("NaN")));
  assert.ok(Number.isNaN(numberOf(null)));
});

test("a column has one number of decimals", () => {
  assert.equal(columnDecimals([1, 2.5, 3.25]), 2);
  assert.equal(columnDecimals([1, 2, "Infinity", null, 1e-12]), 0);
  assert.equal(formatAmount(1, columnDecimals([1, 2.5])), "1.0");
});

test("short forms", () => {
  assert.equal(formatShort(1234), "1,234");
  assert.equal(formatShort(123456), "123,456");
  assert.equal(formatShort(1234567), "1.23 M");
  assert.equal(formatShort(0.125), "0.13");
  assert.equal(formatShort(-1234567), "−1.23 M");
  assert.equal(formatShort("Infinity"), "∞");
  assert.equal(formatShort("-Infinity"), "−∞");
  assert.equal(formatShort(-1e-300), "−1.00e−300");
  assert.equal(formatShort(1.5e300), "1.50e300");
  assert.equal(formatShort(999e12), "999 T");
  assert.equal(formatShort(0), "0");
  assert.equal(formatBytes(999), "999 B");
  assert.equal(formatBytes(250_000), "250 KB");
  assert.equal(formatBytes(1_234_567), "1.23 MB");
  assert.equal(formatSeconds(0.25), "250 ms");
  assert.equal(formatSeconds(90), "90.0 s");
  assert.equal(formatSeconds(-3600), "−60 min");
  assert.equal(formatSeconds(undefined), "–");
  assert.equal(shortWindow("10 minutes, every 1 minute"), "10 min, every 1 min");
});

test("moments are shown in UTC", () => {
  assert.equal(formatClock("2024-01-01T09:30:00+00:00"), "09:30:00");
  assert.equal(formatClock("2024-01-01T09:30:00.250000+00:00"), "09:30:00.25");
  assert.equal(formatMoment("2024-01-02T14:05:00+00:00"), "2 Jan 2024, 14:05:00");
  assert.equal(formatMoment(12000), "12,000");
  assert.equal(formatClock(null), "–");
  assert.equal(positionOf("2024-01-01T00:00:10+00:00") - positionOf("2024-01-01T00:00:00+00:00"), 10);
  assert.equal(positionOf("42"), 42);
  assert.equal(formatTick(1704101400, 60), "09:30");
  assert.equal(formatTick(1704101400, 5), "09:30:00");
  assert.equal(formatTick(1704101400, 86_400), "1 Jan");
});

test("cells are clipped without splitting a character", () => {
  assert.equal(clip("x".repeat(10_240)).length, 160);
  assert.equal(clip("short"), "short");
  assert.equal(clip("ab😀cd", 4), "ab…");
  assert.equal(textOf({ a: [1, null] }), '{"a":[1,null]}');
  assert.equal(textOf(null), "–");
  assert.equal(groupLabel(["RAVI", 3, null]), "RAVI · 3 · –");
  assert.equal(groupLabel(["", " "]), "(empty) · (empty)");
  assert.equal(nameOf({ id: "" }), "(empty)");
  assert.equal(nameOf({ id: 7, label: "" }), "7");
});

test("a rounded share is neither certain nor impossible", () => {
  assert.equal(formatShare(1), "100.0 %");
  assert.equal(formatShare(0), "0.0 %");
  assert.equal(formatShare(1e-300), "< 0.1 %");
  assert.equal(formatShare(0.99999), "> 99.9 %");
  assert.equal(formatShare(0.0005), "0.1 %");
  assert.equal(formatShare(0.9994), "99.9 %");
  assert.equal(formatShare("NaN"), "–");
});
