import assert from "node:assert/strict";
import { test } from "node:test";
import { extended, Inbox, isEarlier } from "../src/logic/inbox";
import type { Board, Summary, TrailPoint } from "../src/types";

const board = (moment: number, query = "a", group: string[] | null = null): Board => ({
  query,
  group,
  moment,
  start: null,
  previous: null,
  next: null,
  newest: moment,
  rows: [],
  left: [],
});
const summary = (moment: number): Summary => ({ moment, windows: 1, groups: 0, first: 1, last: 1, rows: 1, trend: [] });

test("only the newest of several updates is drawn", () => {
  const inbox = new Inbox();
  for (let moment = 1; moment <= 50; moment += 1) {
    inbox.putBoard(board(moment));
    inbox.putSummaries({ a: summary(moment), [`q${moment % 3}`]: summary(moment) });
  }
  const batch = inbox.take();
  assert.equal(batch.boards.size, 1);
  assert.equal([...batch.boards.values()][0]?.moment, 50);
  assert.equal(batch.summaries.get("a")?.moment, 50);
  assert.equal(batch.summaries.size, 4);
  assert.ok(inbox.isEmpty);
});

test("an older board that arrives late is ignored", () => {
  const inbox = new Inbox();
  inbox.putBoard(board(5));
  inbox.putBoard(board(4));
  inbox.putBoard(board(4, "a", ["x"]));
  assert.deepEqual([...inbox.take().boards.values()].map((one) => one.moment), [5, 4]);
});

test("moments are compared by time, not as text", () => {
  assert.ok(isEarlier("2024-01-01T09:30:00+00:00", "2024-01-01T09:30:00.5+00:00"));
  assert.ok(!isEarlier(3, 3));
});

test("a trail is five minutes long", () => {
  let trail: TrailPoint[] = [];
  for (let at = 0; at < 1000; at += 1) trail = extended(trail, { at, s: { candidates: at } });
  assert.equal(trail.length, 301);
  assert.equal(trail[0]?.at, 699);
});
