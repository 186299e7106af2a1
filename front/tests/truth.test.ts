/** What charts and bars must not suggest: lines across gaps, and long bars for bad scores. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { laterWindow } from "../src/logic/inbox";
import { barOf, scaleOf } from "../src/logic/moves";
import { bumpTrace, nearest, sparkPath, ticksOf, withGaps } from "../src/logic/shapes";
import { formatAxis } from "../src/logic/values";
import type { Query } from "../src/types";

const sizes = (scores: number[], isAscending = false) => scores.map((score) => barOf(score, scaleOf(scores, isAscending)).size);

test("the best of negative scores has the longest bar", () => {
  const [best, middle, worst] = sizes([-1, -50, -100]) as [number, number, number];
  assert.ok(best > middle && middle > worst && worst > 0);
  assert.equal(best, 1);
  assert.deepEqual(sizes([-5, -5]), [1, 1]);
});

test("where the lowest is best, and for mixed signs, bars start at zero", () => {
  assert.deepEqual(sizes([-100, -50], true), [1, 0.5]);
  const scale = scaleOf([30, -10]);
  assert.deepEqual([barOf(30, scale), barOf(-10, scale)], [{ from: 0.25, size: 0.75 }, { from: 0, size: 0.25 }]);
  assert.equal(barOf("-Infinity", scaleOf([-1, -2])).size, 0);
});

test("bars of the largest numbers keep their proportions", () => {
  const largest = Number.MAX_VALUE;
  const scale = scaleOf([largest, -largest, "Infinity", "-Infinity"]);
  assert.deepEqual([largest, 0, -largest].map((score) => barOf(score, scale)), [{ from: 0.5, size: 0.5 }, { from: 0.5, size: 0 }, { from: 0, size: 0.5 }]);
  assert.deepEqual([barOf("Infinity", scale), barOf("-Infinity", scale)], [{ from: 0.5, size: 0.5 }, { from: 0, size: 0.5 }]);
  assert.deepEqual(sizes([-largest / 2, -largest]), [1, 0]);
  assert.deepEqual(sizes([5e-324, 0]), [1, 0]);
  assert.deepEqual(sizes([NaN, Infinity, -Infinity]), [0, 1, 0]);
  assert.equal(sparkPath([largest, -largest], 64, 20), "M1.5 1.5L62.5 18.5");
});

test("a group without rows in the newest window is behind", () => {
  const query = (window: string) => ({ window }) as Query;
  assert.equal(laterWindow("2024-01-01T09:30:00+00:00", query("10 minutes, every 1 minute"), "2024-01-01T09:31:00+00:00"), "2024-01-01T09:31:00+00:00");
  assert.equal(laterWindow("2024-01-01T09:31:00+00:00", query("10 minutes, every 1 minute"), "2024-01-01T09:31:00+00:00"), null);
  assert.equal(laterWindow(100, query("10 rows, every 1 row"), undefined), null);
  assert.equal(laterWindow(100, query("sessions with gaps below 30 minutes"), 200), null);
});

test("lines break at gaps", () => {
  const trace = bumpTrace([1, 1, 1, 2], (index) => index * 10, (rank) => rank, new Set([2]));
  assert.equal(trace.path, "M0.0 1.0H10.0M20.0 1.0C25.0 1.0 25.0 2.0 30.0 2.0");
  assert.deepEqual(bumpTrace([1, 1], (index) => index, (rank) => rank, new Set([1])).dots, [[0, 1], [1, 1]]);
  assert.deepEqual(withGaps([1, 2, 10], [[5, 6, 7]], [2]), { positions: [1, 2, 6, 10], columns: [[5, 6, null, 7]] });
});

test("ticks are spread over time, not over windows", () => {
  const places = [0, 1, 2, 3, 4, 5, 6, 100];
  assert.deepEqual(ticksOf(places, 5), [0, 7]);
  assert.deepEqual(ticksOf([0, 25, 50, 75, 100], 5), [0, 1, 2, 3, 4]);
  assert.deepEqual([nearest(places, 40), nearest(places, 60), nearest(places, -5), nearest(places, 500)], [6, 7, 0, 7]);
});

test("an axis longer than a day names the days", () => {
  const moment = "2024-01-02T09:30:00+00:00";
  assert.equal(formatAxis(moment, 3600), "09:30:00");
  assert.equal(formatAxis(moment, 90_000), "2 Jan, 09:30");
  assert.equal(formatAxis(moment, 90 * 86_400), "2 Jan 2024");
  assert.equal(formatAxis(1200, 90_000), "1,200");
});
