import assert from "node:assert/strict";
import { test } from "node:test";
import { barOf, compared, keysOf, moveMark, scaleOf, slides } from "../src/logic/moves";
import { bumpTrace, sparkPath, spread } from "../src/logic/shapes";
import type { Board, Row } from "../src/types";

const places = (...keys: string[]) => new Map(keys.map((key, index) => [key, index]));

test("rows slide from their previous places", () => {
  const found = slides(places("a", "b", "c"), ["c", "a", "d", "b"]);
  assert.deepEqual(found.get("c"), { kind: "moved", by: 2 });
  assert.deepEqual(found.get("a"), { kind: "moved", by: -1 });
  assert.deepEqual(found.get("b"), { kind: "moved", by: -2 });
  assert.deepEqual(found.get("d"), { kind: "new" });
});

test("the first ranking and an unchanged ranking are not animated", () => {
  assert.equal(slides(new Map(), ["a", "b"]).size, 0);
  assert.equal(slides(places("a", "b"), ["a", "b"]).size, 0);
});

test("a row that comes from far away counts as new", () => {
  const far = slides(places("a", "b", "c"), ["c", "b", "a"], 1);
  assert.deepEqual(far.get("c"), { kind: "new" });
  assert.equal(far.get("b"), undefined);
});

test("each row has a unique key", () => {
  const keys = keysOf([{ id: 1 }, { id: "1" }, { id: null }, { id: null }, { id: [1] }, { id: "[1]" }]);
  assert.equal(new Set(keys).size, 6);
  assert.deepEqual(keysOf([{ id: 1 }]), keysOf([{ id: 1 }]));
});

test("moves in words", () => {
  const row = (fields: Partial<Row>) => ({ rank: 2, id: 1, score: 1, move: "same", old_rank: null, details: {}, ...fields }) as Row;
  assert.equal(moveMark(row({ move: "up", old_rank: 5 })).sign, "▲3");
  assert.equal(moveMark(row({ move: "down", old_rank: 1 })).words, "down from 1");
  assert.equal(moveMark(row({ move: "entered" })).words, "entered");
  assert.equal(moveMark(row({})).words, "");
});

test("bars start at zero, for positive and negative scores", () => {
  const scale = scaleOf([-50, 100, "Infinity", null]);
  assert.deepEqual(scale, { low: -50, high: 100, base: 0 });
  assert.ok(Math.abs(barOf(100, scale).from - 1 / 3) < 1e-12);
  assert.ok(Math.abs(barOf(100, scale).size - 2 / 3) < 1e-12);
  assert.ok(Math.abs(barOf(-50, scale).size - 1 / 3) < 1e-12);
  assert.equal(barOf("Infinity", scale).size, barOf(100, scale).size);
  assert.equal(barOf(null, scale).size, 0);
  assert.equal(barOf(0, scaleOf([0, 0])).size, 0);
});

test("lines have gaps at missing values", () => {
  assert.equal(sparkPath([], 10, 10), "");
  assert.equal(sparkPath([1, null, 2], 10, 10).match(/M/g)?.length, 2);
  assert.ok(!sparkPath([3, 3, 3], 10, 10).includes("NaN"));
  const trace = bumpTrace([1, 1, null, 3, null, 2], (x) => x, (y) => y);
  assert.deepEqual(trace.dots, [[3, 3], [5, 2]]);
  assert.deepEqual(trace.end, [5, 2]);
  assert.equal(bumpTrace([1, null], (x) => x, (y) => y).end, null);
});

test("labels are spread evenly and include both ends", () => {
  assert.deepEqual(spread(3, 5), [0, 1, 2]);
  assert.deepEqual(spread(101, 5), [0, 25, 50, 75, 100]);
  assert.deepEqual(spread(0, 5), []);
});

test("a comparison counts the rows that entered, left and moved; the best rank of an object counts", () => {
  const board = (...ids: (string | number | null)[]) =>
    ({ query: "q", rows: ids.map((id, index) => ({ id, rank: index + 1, score: 1, move: "up", old_rank: 9, details: {} })) }) as unknown as Board;
  const found = compared(board("a", "b", "a", 3, null), board("b", "a", "c", null, 3));
  assert.deepEqual(
    found.second.rows.map(({ move, old_rank }) => [move, old_rank]),
    [["up", 2], ["down", 1], ["entered", null], ["up", 5], ["down", 4]],
  );
  assert.deepEqual([found.entered, found.left, found.moved, found.same], [1, 0, 4, 0]);
  const back = compared(board("b", "c"), board("b", "a"));
  assert.deepEqual(back.first.rows.map(({ move }) => move), ["same", "left"]);
  assert.deepEqual([back.entered, back.left, back.moved, back.same], [1, 1, 0, 1]);
  assert.deepEqual(compared(board(), board()).second.rows, []);
});
