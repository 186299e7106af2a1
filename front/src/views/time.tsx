/** The time view: past rankings, and ranks and scores over time. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useRequest, useKey, usePage } from "../context";
import { isEarlier } from "../logic/inbox";
import { pairKey, type Route } from "../logic/route";
import { findQueries } from "../logic/search";
import { clip, formatClock, formatDay, formatMoment, formatShort, numberOf, positionOf } from "../logic/values";
import { Bump, labelRoom } from "../parts/bump";
import { LeftObjects } from "../parts/card";
import { Combobox } from "../parts/combobox";
import { GroupPicker } from "../parts/group_picker";
import { Plot } from "../parts/plot";
import { Ranking } from "../parts/ranking";
import { Scrubber } from "../parts/scrubber";
import { Data } from "../parts/text";
import type { Board, History, Moment, Pair, Query } from "../types";

const SPANS = [60, 120, 500, 2000];

export function Time({ route }: { route: Route }) {
  const { store, link, go } = usePage();
  useKey("state");
  const queries = store.state?.queries ?? [];
  const query = store.queries.get(route.query ?? "") ?? (route.query === null ? queries[0] : undefined);
  const pair: Pair = { query: query?.name ?? route.query ?? "", group: route.group };
  useEffect(() => {
    if (!query) return;
    link.watch([pair]);
    store.keepOnly([store.settle(pair)]);
  }, [pairKey(pair), query === undefined]);
  const settled = store.settle(pair);
  useKey(`board ${pairKey(settled)}`);

  if (!store.state) return <div class="time" />;
  return (
    <div class="time">
      <h1 class="unseen">Time</h1>
      <div class="bar-row">
        <Combobox
          label="Query"
          value={query?.name ?? route.query ?? ""}
          offer={async (text) => {
            const found = findQueries(queries, text);
            return { total: found.length, choices: found.map(({ name }) => ({ key: name, label: name })) };
          }}
          onPick={(choice) => go({ query: choice.key, group: null, at: null }, "push")}
        />
        {query && query.groups.length > 0 && (
          <GroupPicker query={query} group={settled.group} onPick={(group) => go({ group, at: null }, "push")} />
        )}
        {query && (
          <p class="muted">
            Top {query.k.toLocaleString("en-GB")} over {query.window}
            {query.by && (
              <>
                , by <Data value={query.by} longest={80} />
              </>
            )}
          </p>
        )}
      </div>
      {query ? (
        <PastWindows key={pairKey(settled)} query={query} pair={settled} at={route.at} />
      ) : (
        <p class="hint">{queries.length === 0 ? "No queries yet." : "This query is not in the workload."}</p>
      )}
    </div>
  );
}

function PastWindows({ query, pair, at }: { query: Query; pair: Pair; at: string | null }) {
  const { store, api, go, announce } = usePage();
  useKey(`board ${pairKey(pair)}`);
  useKey("link");
  const newest = store.board(pair);
  const [span, stretch] = useState(120);
  const [marked, mark] = useState<string | null>(null);
  const moments = useMoments(query, pair, newest);
  const [wanted, want] = useHeld(at, (text) => go({ at: text }, "replace"));

  const index = wanted === null ? moments.length - 1 : nearestIndex(moments, wanted);
  const moment = moments[index];
  const isLive = wanted === null || moments.length === 0;
  const past = useBoard(pair, isLive ? null : (moment ?? null));
  const board = isLive ? newest : past;

  const version = useThrottled(newest ? String(newest.moment) : "", 1000);
  const { answer: history } = useRequest(`${pairKey(pair)} ${span} ${version} ${store.link === "lost"}`, () => api.history(pair.query, pair.group, span));

  const choose = (next: number | null) => {
    const chosen = next === null ? undefined : moments[Math.min(moments.length - 1, Math.max(0, next))];
    want(chosen === undefined ? null : String(chosen));
  };

  if (!newest && moments.length === 0) return <p class="hint">No results yet.</p>;
  return (
    <>
      <Scrubber
        moments={moments}
        index={index}
        isLive={isLive}
        isRunning={store.state?.live === true && store.state.ended === false}
        onChoose={choose}
        onAnnounce={announce}
      />
      <div class="time-parts">
        <section class="panel" aria-label="Ranking of the selected window">
          <h2>
            <time dateTime={String(board?.moment ?? "")}>{formatClock(board?.moment)}</time>{" "}
            <span class="muted">
              {formatDay(board?.moment)} {query.axis === "time" ? "UTC" : "objects"}
            </span>
          </h2>
          {board && (
            <>
              <Ranking board={board} query={query} label={clip(`${pair.query} at ${formatMoment(board.moment)}`, 160)} room={14} marked={marked} onMark={mark} />
              <LeftObjects board={board} />
            </>
          )}
        </section>
        <section class="panel charts" aria-label="Charts">
          <div class="panel-head">
            <h2>Ranks over time</h2>
            <label class="muted">
              Last{" "}
              <select value={span} onChange={(event) => stretch(Number(event.currentTarget.value))}>
                {SPANS.map((one) => (
                  <option key={one} value={one}>
                    {one.toLocaleString("en-GB")}
                  </option>
                ))}
              </select>{" "}
              windows
            </label>
          </div>
          {history && history.moments.length > 0 && (
            <>
              <Bump history={history} k={query.k} at={board?.moment ?? ""} marked={marked} onMark={mark} onPick={(one) => want(String(one))} />
              <Scores history={history} query={query} at={board?.moment ?? null} onPick={(one) => want(String(one))} />
            </>
          )}
        </section>
      </div>
    </>
  );
}

interface ScoresProps {
  history: History;
  query: Query;
  at: Moment | null;
  onPick: (moment: Moment) => void;
}

function Scores({ history, query, at, onPick }: ScoresProps) {
  const [pointed, point] = useState<number | null>(null);
  const data = useMemo(
    () =>
      [
        history.moments.map(positionOf),
        ...[history.first, history.last].map((scores) => scores.map((score) => finite(numberOf(score)))),
      ] as [number[], (number | null)[], (number | null)[]],
    [history],
  );
  const here = history.moments.findIndex((moment) => String(moment) === String(at));
  const shown = pointed ?? (here >= 0 ? here : Math.max(0, history.moments.length - 1));
  const pick = (x: number) => {
    const moment = history.moments[data[0].indexOf(x)];
    if (moment !== undefined) onPick(moment);
  };
  return (
    <div class="scores">
      <div class="panel-head">
        <h2>Score of rank 1 and rank {query.k.toLocaleString("en-GB")}</h2>
        <p class="legend number">
          <span class="muted">{formatClock(history.moments[shown])}</span>
          <span class="key first">{formatShort(history.first[shown])}</span>
          <span class="key last">{formatShort(history.last[shown])}</span>
        </p>
      </div>
      <Plot
        label={`Score of the first and the last rank over ${history.moments.length} windows, now ${formatShort(history.first.at(-1))} and ${formatShort(history.last.at(-1))}`}
        data={data}
        lines={[
          { label: "rank 1", colour: "--accent", width: 2 },
          { label: "rank k", colour: "--muted" },
        ]}
        height={190}
        right={labelRoom}
        isTime={query.axis === "time"}
        format={formatShort}
        mark={at === null ? null : positionOf(at)}
        onPick={pick}
        onPoint={point}
      />
    </div>
  );
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

function nearestIndex(moments: readonly Moment[], wanted: string): number {
  const exact = moments.findIndex((moment) => String(moment) === wanted);
  if (exact >= 0) return exact;
  const place = positionOf(wanted);
  let best = moments.length - 1;
  moments.forEach((moment, index) => {
    if (Math.abs(positionOf(moment) - place) < Math.abs(positionOf(moments[best] as Moment) - place)) best = index;
  });
  return best;
}

/** All moments in the history: requested once, then extended by new boards. */
function useMoments(query: Query, pair: Pair, newest: Board | undefined): readonly Moment[] {
  const { api, store } = usePage();
  const [moments, set] = useState<Moment[]>([]);
  useEffect(() => {
    let isCurrent = true;
    if (store.link === "lost") return;
    api.moments(query.name, pair.group).then(
      (answer) => isCurrent && set(answer.moments),
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [pairKey(pair), store.link === "lost"]);
  const last = moments[moments.length - 1];
  useEffect(() => {
    if (!newest) return;
    set((held) => {
      const end = held[held.length - 1];
      return end === undefined || isEarlier(end, newest.moment) ? [...held, newest.moment] : held;
    });
  }, [newest?.moment, last]);
  return moments;
}

const boardCache = new Map<string, Board>();

/** The board of a past moment. While the slider moves, there is one request at a time, for its latest position. */
function useBoard(pair: Pair, moment: Moment | null): Board | undefined {
  const { api } = usePage();
  const [board, show] = useState<Board | undefined>(undefined);
  const wanted = useRef<Moment | null>(null);
  const isLoading = useRef(false);
  wanted.current = moment;
  useEffect(() => {
    const load = async () => {
      while (wanted.current !== null) {
        const current = wanted.current;
        const key = `${pairKey(pair)} ${current}`;
        let found = boardCache.get(key);
        if (!found) {
          found = await api.board(pair.query, pair.group, current).catch(() => undefined);
          if (found) boardCache.set(key, found);
          if (boardCache.size > 300) boardCache.delete(boardCache.keys().next().value as string);
        }
        if (found) show(found);
        if (wanted.current === current) return;
      }
    };
    if (moment === null || isLoading.current) return;
    isLoading.current = true;
    void load().finally(() => {
      isLoading.current = false;
    });
  }, [moment]);
  return board;
}

/** A value that is used at once and written to the URL after a delay. A change of the URL overrides it. */
function useHeld(given: string | null, write: (value: string | null) => void): [string | null, (value: string | null) => void] {
  const [value, set] = useState(given);
  const written = useRef(given);
  const wait = useRef(0);
  if (given !== written.current) {
    written.current = given;
    if (given !== value) set(given);
  }
  useEffect(() => () => clearTimeout(wait.current), []);
  return [
    value,
    (next) => {
      set(next);
      clearTimeout(wait.current);
      wait.current = window.setTimeout(() => {
        written.current = next;
        write(next);
      }, 250);
    },
  ];
}

function useThrottled<T>(value: T, pause: number): T {
  const [held, hold] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    const wait = setTimeout(
      () => {
        last.current = Date.now();
        hold(value);
      },
      Math.max(0, last.current + pause - Date.now()),
    );
    return () => clearTimeout(wait);
  }, [value]);
  return held;
}
