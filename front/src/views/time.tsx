/** The time view: past rankings, and ranks and scores over time. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { useRequest, useKey, usePage } from "../context";
import { HOME, pairKey, type Route, writeRoute } from "../logic/route";
import { findQueries } from "../logic/search";
import { nearest, withGaps } from "../logic/shapes";
import { clip, formatBeside, formatClock, formatDay, formatMoment, formatShort, numberOf, positionOf } from "../logic/values";
import { Bump, labelRoom } from "../parts/bump";
import { Behind, LeftObjects, SoFar } from "../parts/card";
import { Combobox } from "../parts/combobox";
import { GroupPicker } from "../parts/group_picker";
import { LabelPicker } from "../parts/label_picker";
import { Plot } from "../parts/plot";
import { Ranking } from "../parts/ranking";
import { Scrubber } from "../parts/scrubber";
import { TakeAway } from "../parts/take_away";
import { Data } from "../parts/text";
import type { History, Moment, Pair, Query } from "../types";
import { nearestIndex, useBoard, useHeld, useMoments, useThrottled } from "../windows";

const SPANS = [60, 120, 500, 2000] as const;

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
  // What is shown without having been chosen is written into the URL, so that the URL always shows the same.
  useEffect(() => {
    const isChosen = route.query !== null && (pair.group !== null || settled.group === null);
    if (query && !isChosen) go({ query: query.name, group: settled.group }, "replace");
  }, [route.query, pairKey(settled)]);
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
          onPick={(choice) => go({ query: choice.key, group: null, at: null, label: null, row: null }, "push")}
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
        {query && <LabelPicker query={query} label={route.label} onPick={(label) => go({ label }, "push")} />}
      </div>
      {query ? (
        <PastWindows key={pairKey(settled)} query={query} pair={settled} route={route} />
      ) : (
        <p class="hint">{queries.length === 0 ? "No queries yet." : "This query is not in the workload."}</p>
      )}
    </div>
  );
}

function PastWindows({ query, pair, route }: { query: Query; pair: Pair; route: Route }) {
  const { store, api, go, announce } = usePage();
  useKey(`board ${pairKey(pair)}`);
  useKey("link");
  const newest = store.board(pair);
  const { at, label } = route;
  const span = route.last ?? SPANS[1];
  const [marked, mark] = useState<string | null>(null);
  const { moments, dropped } = useMoments(query, pair, newest);
  const [wanted, want] = useHeld(at, (text, how) => go({ at: text }, how));

  const index = wanted === null ? moments.length - 1 : nearestIndex(moments, wanted);
  const moment = moments[index];
  const isLive = wanted === null || moments.length === 0;
  const isReceived = isLive && label === null; // events bring the newest window, with the label of the query
  const past = useBoard(pair, isReceived ? null : (moment ?? null), label);
  const board = isReceived ? newest : past;

  const version = useThrottled(newest ? String(newest.moment) : "", 1000);
  const { answer: history } = useRequest(`${pairKey(pair)} ${span} ${label} ${version} ${store.link === "lost"}`, () => api.history(pair.query, pair.group, span, label));

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
        dropped={dropped}
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
            </span>{" "}
            {board && <SoFar board={board} />}
          </h2>
          {board && (
            <>
              <Behind board={board} query={query} />
              <Ranking board={board} query={query} label={clip(`${pair.query} at ${formatMoment(board.moment)}`, 160)} room={14} marked={marked} onMark={mark} />
              <LeftObjects board={board} />
              <TakeAway board={board} label={label}>
                <a
                  class="quiet framed"
                  href={writeRoute({ ...HOME, view: "compare", query: pair.query, group: board.group, at: board.previous === null ? null : String(board.previous), to: String(board.moment), label })}
                >
                  Compare
                </a>
              </TakeAway>
            </>
          )}
        </section>
        <section class="panel charts" aria-label="Charts">
          <div class="panel-head">
            <h2>Ranks over time</h2>
            <label class="muted">
              Last{" "}
              <select value={span} onChange={(event) => go({ last: Number(event.currentTarget.value) }, "push")}>
                {[...new Set([...SPANS, span])].sort((a, b) => a - b).map((one) => (
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
    () => {
      const scores = [history.first, history.last].map((one) => one.map((score) => drawable(numberOf(score))));
      const found = withGaps(history.moments.map(positionOf), scores, history.gaps ?? []);
      return [found.positions, ...found.columns] as [number[], (number | null)[], (number | null)[]];
    },
    [history],
  );
  const places = useMemo(() => history.moments.map(positionOf), [history]);
  const here = history.moments.findIndex((moment) => String(moment) === String(at));
  const shown = pointed ?? (here >= 0 ? here : Math.max(0, history.moments.length - 1));
  // The day, unless all windows of the chart are of one day.
  const sameDay = formatDay(history.moments[0]) === formatDay(history.moments.at(-1)) ? history.moments[0] : null;
  const pick = (x: number) => {
    const moment = history.moments[nearest(places, x)];
    if (moment !== undefined) onPick(moment);
  };
  return (
    <div class="scores">
      <div class="panel-head">
        <h2>Score of rank 1 and rank {query.k.toLocaleString("en-GB")}</h2>
        <p class="legend number">
          <span class="muted">{formatBeside(history.moments[shown], sameDay)}</span>
          <span class="key first">{formatShort(history.first[shown])}</span>
          <span class="key last">{formatShort(history.last[shown])}</span>
        </p>
      </div>
      {data[1].every((score) => score === null) && data[2].every((score) => score === null) ? (
        <p class="empty muted">No scores of these windows can be drawn</p>
      ) : (
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
          onPoint={(index) => point(index === null ? null : nearest(places, data[0][index] ?? 0))}
        />
      )}
    </div>
  );
}

/** A score that the chart can draw: its scale needs room beyond the largest score. */
function drawable(value: number): number | null {
  return Math.abs(value) < 1e300 ? value : null;
}

