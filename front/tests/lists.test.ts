import assert from "node:assert/strict";
import { test } from "node:test";
import { reveal, step, visible } from "../src/logic/virtual";

test("only visible rows are drawn, whatever the length", () => {
  for (const count of [0, 1, 9, 10, 11, 1000, 100_000]) {
    for (const top of [-50, 0, 17, 360, 35_999, 1e7]) {
      const span = visible(count, 36, top, 360, 6);
      assert.ok(span.last - span.first <= 10 + 2 * 6 + 1, `${count} ${top}`);
      assert.equal(span.before + (span.last - span.first) * 36 + span.after, count * 36);
      assert.ok(count === 0 || span.last > span.first);
    }
  }
});

test("all visible rows are drawn", () => {
  const span = visible(1000, 36, 5000, 360, 0);
  assert.ok(span.first * 36 <= 5000 && span.last * 36 >= 5360);
});

test("the list scrolls only if the row is not visible", () => {
  assert.equal(reveal(0, 36, 100, 360), 0);
  assert.equal(reveal(5, 36, 100, 360), 100);
  assert.equal(reveal(50, 36, 100, 360), 51 * 36 - 360);
});

test("keys move within the list", () => {
  assert.equal(step("ArrowDown", 0, 3, 10), 1);
  assert.equal(step("ArrowDown", 2, 3, 10), 2);
  assert.equal(step("PageUp", 2, 300, 10), 0);
  assert.equal(step("End", 0, 300, 10), 299);
  assert.equal(step("x", 0, 3, 10), null);
  assert.equal(step("ArrowDown", 0, 0, 10), null);
});
