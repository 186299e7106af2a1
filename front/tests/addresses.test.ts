import assert from "node:assert/strict";
import { test } from "node:test";
import { HOME, pairKey, readPair, readRoute, type Route, takeToken, writePair, writeRoute } from "../src/logic/route";
import { findQueries } from "../src/logic/search";
import type { Query } from "../src/types";

test("every route can be written and read back", () => {
  const routes: Partial<Route>[] = [
    {},
    { cards: [] },
    { cards: [{ query: "a & b=c", group: null }, { query: "by symbol", group: ["RÄVI", 3, null] }], find: "x y" },
    { cards: [{ query: '["not a pair"]', group: null }] },
    { view: "time", query: "big", group: ["S000"], at: "2024-01-01T09:30:00+00:00" },
    { view: "time", query: "big", last: 500, label: "", row: { query: "big", id: "a & b" } },
    { cards: [{ query: "big", group: null }], row: { query: "big", id: null } },
    { view: "compare", query: "big", group: ["A"], at: "500", toGroup: ["B", 1], to: "600", label: "name" },
    { view: "engine", stream: "trades?x" },
    { view: "workload" },
  ];
  for (const route of routes) assert.deepEqual(readRoute(writeRoute({ ...HOME, ...route })), { ...HOME, ...route });
});

test("an invalid fragment selects the start view", () => {
  for (const bad of ["", "#", "#/", "#/nowhere", "#/boards?card=[broken", "#/boards?row=[1]", "#/boards?row={", "#main"]) assert.deepEqual(readRoute(bad), HOME);
  assert.equal(readPair("[1, 2]"), null);
});

test("different pairs have different texts", () => {
  assert.notEqual(pairKey({ query: "a", group: null }), pairKey({ query: "a", group: [] }));
  assert.equal(writePair({ query: "plain", group: null }), "plain");
});

test("the token is removed from the fragment", () => {
  assert.deepEqual(takeToken("#token=abc-_1"), { token: "abc-_1", rest: "#/" });
  assert.deepEqual(takeToken("#/workload?token=t&x=1"), { token: "t", rest: "#/workload?x=1" });
  assert.deepEqual(takeToken("#/boards?find=token"), { token: null, rest: "#/boards?find=token" });
});

test("every word must occur; accents and case are ignored", () => {
  const query = (name: string, by: string | null = null) =>
    ({ name, by, stream: "s", family: "topk", k: 1, window: "10 minutes", text: null, groups: [], axis: "time", columns: [] }) as Query;
  const all = [query("Größte Trades", "price"), query("volume")];
  assert.equal(findQueries(all, "trades volume").length, 0);
  assert.equal(findQueries(all, "price großte").length, 1);
  assert.equal(findQueries(all, "  ").length, 2);
  assert.equal(findQueries(all, "minutes vol")[0]?.name, "volume");
});
