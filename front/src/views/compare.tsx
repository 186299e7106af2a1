/** Two windows or two groups of a query side by side: which rows entered, left and moved. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { useKey, usePage, useRequest } from "../context";
import { compared, type Comparison } from "../logic/moves";
import { pairKey, type Route } from "../logic/route";
import { findQueries } from "../logic/search";
import { clip, formatMoment, groupLabel, plural } from "../logic/values";
import { Behind, SoFar } from "../parts/card";
import { Combobox } from "../parts/combobox";
import { GroupPicker } from "../parts/group_picker";
import { LabelPicker } from "../parts/label_picker";
import { Ranking } from "../parts/ranking";
import { CopyLink, TakeAway } from "../parts/take_away";
import { Icon } from "../parts/text";
import type { Board, Group, Moment, Pair, Query } from "../types";
import { nearestIndex, useMoments } from "../windows";

const MOST_OFFERED = 200;

export function Compare({ route }: { route: Route }) {
  const { store, link, go } = usePage();
  useKey("state");
  const queries = store.state?.queries ?? [];
  const query = store.queries.get(route.query ?? "") ?? (route.query === null ? queries[0] : undefined);
  const name = query?.name ?? route.query ?? "";
  const pairs: Pair[] = [
    { query: name, group: route.group },
    { query: name, group: route.toGroup ?? route.group },
  ];
  useEffect(() => {
    if (!query) return;
    link.watch(pairs);
    store.keepOnly(pairs.map((pair) => store.settle(pair)));
  }, [pairs.map(pairKey).join("\n"), query === undefined]);
  useKey(`settled ${name}`);
  const [first, second] = pairs.map((pair) => store.settle(pair)) as [Pair, Pair];
  useEffect(() => {
    const isChosen = route.query !== null && (route.group !== null || first.group === null);
    if (query && !isChosen) go({ query: query.name, group: first.group }, "replace");
  }, [route.query, pairKey(first)]);

  if (!store.state) return <div class="compare" />;
  return (
    <div class="compare">
      <h1 class="unseen">Compare</h1>
      <div class="bar-row">
        <Combobox
          label="Query"
          value={name}
          offer={async (text) => {
            const found = findQueries(queries, text);
            return { total: found.length, choices: found.map((one) => ({ key: one.name, label: one.name })) };
          }}
          onPick={(choice) => go({ query: choice.key, group: null, toGroup: null, at: null, to: null, label: null, row: null }, "push")}
        />
        {query && <p class="muted">Top {query.k.toLocaleString("en-GB")} over {query.window}</p>}
        {query && <LabelPicker query={query} label={route.label} onPick={(label) => go({ label }, "push")} />}
      </div>
      {query ? (
        <Sides key={query.name} query={query} pairs={[first, second]} route={route} />
      ) : (
        <p class="hint">{queries.length === 0 ? "No queries yet." : "This query is not in the workload."}</p>
      )}
    </div>
  );
}

function Sides({ query, pairs, route }: { query: Query; pairs: [Pair, Pair]; route: Route }) {
  const { go } = usePage();
  const [marked, mark] = useState<string | null>(null);
  const [one, other] = pairs;
  const isOneGroup = pairKey(one) === pairKey(other);
  const second = useWindow(other, route.to, route.label);
  // Without a chosen window, two windows of one group are the newest and the one before it.
  const usual = isOneGroup ? (second.board?.previous ?? null) : null;
  const isReady = !isOneGroup || route.at !== null || second.board !== null;
  const first = useWindow(one, route.at ?? (usual === null ? null : String(usual)), route.label, isReady);
  const both = useMemo(
    () => (first.board && second.board ? compared(first.board, second.board) : null),
    [first.board, second.board],
  );
  const swap = () =>
    go(
      {
        group: other.group,
        toGroup: isOneGroup ? null : one.group,
        at: second.board ? String(second.board.moment) : route.to,
        to: first.board ? String(first.board.moment) : route.at,
      },
      "push",
    );
  const sides = { query, marked, onMark: mark, label: route.label };
  return (
    <>
      <div class="panel compare-head">
        <p role="status">{both ? <Counts both={both} /> : (first.error ?? second.error ?? "")}</p>
        <button type="button" class="quiet framed" onClick={swap}>
          Swap
        </button>
        <CopyLink route={() => ({ ...route, query: query.name, group: one.group, toGroup: isOneGroup ? null : other.group, at: momentOf(first.board, route.at), to: momentOf(second.board, route.to), row: null })} />
      </div>
      <div class="compare-sides">
        <Side
          {...sides}
          name="First"
          pair={one}
          at={route.at}
          board={both?.first ?? first.board}
          beside={both?.second}
          onGroup={(group) => go({ group, toGroup: route.toGroup ?? other.group }, "push")}
          onMoment={(at) => go({ at }, "push")}
        />
        <Side
          {...sides}
          name="Second"
          pair={other}
          at={route.to}
          board={both?.second ?? second.board}
          beside={both?.first}
          onGroup={(toGroup) => go({ toGroup }, "push")}
          onMoment={(to) => go({ to }, "push")}
        />
      </div>
    </>
  );
}

function momentOf(board: Board | null, at: string | null): string | null {
  return board ? String(board.moment) : at;
}

function Counts({ both }: { both: Comparison }) {
  return (
    <>
      <strong class="number">{both.entered}</strong> entered, <strong class="number">{both.left}</strong> left,{" "}
      <strong class="number">{both.moved}</strong> moved, <strong class="number">{both.same}</strong> at the same rank
    </>
  );
}

/** The window of a group at a moment; without a moment, the newest, as it changes. */
function useWindow(pair: Pair, at: string | null, label: string | null, isReady = true): { board: Board | null; error: string | null } {
  const { store, api } = usePage();
  useKey(at === null ? `board ${pairKey(pair)}` : null);
  useKey("link");
  const version = at === null ? String(store.board(pair)?.moment ?? "") : at;
  const key = `${pairKey(pair)} ${label} ${version} ${store.link === "lost"} ${isReady}`;
  const { answer, error } = useRequest<Board | null>(key, async () => (isReady ? api.board(pair.query, pair.group, at, label) : null));
  return { board: answer?.query === pair.query ? answer : null, error };
}

interface SideProps {
  name: string;
  query: Query;
  pair: Pair;
  at: string | null;
  board: Board | null;
  beside: Board | undefined;
  label: string | null;
  marked: string | null;
  onMark: (key: string | null) => void;
  onGroup: (group: Group) => void;
  onMoment: (at: string | null) => void;
}

function Side({ name, query, pair, at, board, beside, label, marked, onMark, onGroup, onMoment }: SideProps) {
  const { store } = usePage();
  const { moments } = useMoments(query, pair, store.board(pair));
  const index = board ? nearestIndex(moments, String(board.moment)) : -1;
  const step = (by: number) => {
    const next = moments[index + by];
    if (next !== undefined) onMoment(String(next));
  };
  return (
    <section class="panel compare-side" aria-label={`${name} window`}>
      <header>
        {query.groups.length > 0 && <GroupPicker query={query} group={pair.group} onPick={onGroup} />}
        <div class="compare-when">
          <button type="button" class="quiet framed" aria-label={`${name}: earlier window`} title="Earlier window" disabled={index <= 0} onClick={() => step(-1)}>
            <Icon name="back" />
          </button>
          <Combobox
            label={`${name} window`}
            value={board ? formatMoment(board.moment) : ""}
            offer={async (text) => offered(moments, text)}
            onPick={(choice) => onMoment(choice.key === "" ? null : choice.key)}
          />
          <button type="button" class="quiet framed" aria-label={`${name}: later window`} title="Later window" disabled={index < 0 || index >= moments.length - 1} onClick={() => step(1)}>
            <Icon name="forth" />
          </button>
          {board && <SoFar board={board} />}
        </div>
        {at === null && <p class="muted">{name === "First" && beside?.previous === board?.moment ? "The window before" : query.groups.length > 0 ? "The newest window of this group" : "The newest window"}</p>}
        {board && <Behind board={board} query={query} />}
      </header>
      {board && (
        <>
          <Ranking
            board={board}
            beside={beside}
            query={query}
            label={clip(`${pair.query}${pair.group ? `, ${groupLabel(pair.group)}` : ""} at ${formatMoment(board.moment)}`, 160)}
            room={16}
            marked={marked}
            onMark={onMark}
          />
          <TakeAway board={board} label={label} />
        </>
      )}
    </section>
  );
}

/** The windows whose time has all words of the text, newest first. */
function offered(moments: readonly Moment[], text: string) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = moments
    .map((moment) => ({ key: String(moment), label: formatMoment(moment) }))
    .filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)))
    .reverse();
  const newest = words.length === 0 ? [{ key: "", label: `Newest of ${plural(moments.length, "window")}` }] : [];
  return { total: found.length, choices: [...newest, ...found.slice(0, MOST_OFFERED)] };
}
