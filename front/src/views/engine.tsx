/** The engine view: metrics, their last five minutes, and the plan. */

import { useEffect, useMemo } from "preact/hooks";
import { useRequest, useKey, usePage } from "../context";
import { HOME, type Route, writeRoute } from "../logic/route";
import { formatAmount, formatBytes, formatSeconds, formatShare, formatShort, positionOf } from "../logic/values";
import { PlanLines } from "../parts/plan_lines";
import { Plot } from "../parts/plot";
import { Data } from "../parts/text";
import type { Amount, Stream, StreamFigures, Trail, TrailPoint } from "../types";

export function Engine({ route }: { route: Route }) {
  const { store, link } = usePage();
  useKey("state");
  useKey("engine");
  useEffect(() => link.watch([]), []);
  const streams = store.state?.streams ?? [];
  const stream = streams.find(({ name }) => name === route.stream) ?? streams[0];
  if (!store.state || !stream) return <p class="hint">{store.state ? "No streams." : ""}</p>;
  const figures = store.engine?.streams[stream.name];
  return (
    <div class="engine">
      <h1 class="unseen">Engine</h1>
      {streams.length > 1 && (
        <nav class="pills" aria-label="Streams">
          {streams.map(({ name }) => (
            <a key={name} href={writeRoute({ ...HOME, view: "engine", stream: name })} aria-current={name === stream.name ? "true" : undefined}>
              <Data value={name} longest={40} />
            </a>
          ))}
        </nav>
      )}
      {figures && !store.state.live ? (
        <StoredTiles figures={figures} stream={stream} />
      ) : figures ? (
        <>
          <Tiles figures={figures} stream={stream} />
          <Lags lags={figures.lags} />
          <Trails stream={stream.name} trail={store.trail} />
        </>
      ) : (
        <p class="hint">{store.engine ? "No metrics yet." : ""}</p>
      )}
      <PlanPanel stream={stream} />
    </div>
  );
}

/** What is known of stored answers: the run that wrote them is not here, so it has no rates, lags or state. */
function StoredTiles({ figures, stream }: { figures: StreamFigures; stream: Stream }) {
  const { store } = usePage();
  useKey("summaries");
  const own = stream.queries.map((name) => store.summaries.get(name)).filter((one) => one !== undefined);
  const windows = own.reduce((sum, one) => sum + one.windows, 0);
  const dropped = own.reduce((sum, one) => sum + (one.dropped ?? 0), 0);
  const groups = own.reduce((sum, one) => sum + one.groups, 0);
  return (
    <>
      <section class="tiles" aria-label="Stored answers">
        <Tile name="Files" value={formatShort(figures.batches)} note="Parquet files with answers" />
        <Tile name="Answer rows" value={formatShort(figures.answers)} note="in these files" />
        <Tile name="Windows" value={formatShort(windows)} note={dropped > 0 ? `in memory; ${formatShort(dropped)} more in the files` : "in memory"} />
        <Tile name="Groups" value={formatShort(groups)} note="over all queries" />
        <Tile name="Queries" value={formatShort(figures.queries ?? stream.queries.length)} note="" />
      </section>
      <p class="muted">These are stored answers. Rates, lags and state belong to the run that writes them; its own dashboard shows them.</p>
    </>
  );
}

function Tiles({ figures, stream }: { figures: StreamFigures; stream: Stream }) {
  const { candidates, bound } = figures;
  return (
    <section class="tiles" aria-label="Metrics">
      <Tile name="Rows per second" value={formatShort(figures.rows_per_second)} note={`${formatShort(figures.rows)} rows so far`} />
      <Tile name="Candidates" value={formatShort(candidates)} note={has(bound) ? `of at most ${formatShort(bound)}` : "stored"}>
        {has(candidates) && has(bound) && Number(bound) > 0 && (
          <Meter label="Candidates relative to their bound" value={Number(candidates) / Number(bound)} />
        )}
      </Tile>
      <Tile name="Emit lag" value={formatSeconds(figures.emit_lag)} note="event time from newest row to newest answer" />
      <Tile name="State" value={formatBytes(figures.state_bytes)} note={figures.algorithm ? `algorithm: ${figures.algorithm}` : ""} />
      {has(figures.views) && <Tile name="Views" value={formatShort(figures.views)} note="open predicted windows" />}
      {has(figures.share_factor) && (
        <Tile name="Share factor" value={`${formatAmount(Number(figures.share_factor), 2)}×`} note="fewer rows stored than without sharing" />
      )}
      <Tile name="Late" value={formatShort(figures.late)} note="rows behind the watermark" isWarning={Number(figures.late) > 0} />
      <Tile name="Dropped" value={formatShort(figures.dropped_null)} note={malformed(figures)} isWarning={Number(figures.dropped_null) > 0} />
      {has(figures.unreadable) && (
        <Tile name="Unreadable" value={formatShort(figures.unreadable)} note="files or row groups skipped" isWarning={Number(figures.unreadable) > 0} />
      )}
      <Tile name="Windows" value={formatShort(figures.windows)} note={`${formatShort(figures.answers)} answer rows`} />
      <Tile name="Queries" value={formatShort(figures.queries ?? stream.queries.length)} note={counted(figures.changes ?? 0, "live change", "")} />
      {has(figures.pruned) && <Tile name="Pruned" value={formatShort(figures.pruned)} note="dropped before the shuffle" />}
      <Tile name="Restarts" value={formatShort(figures.restarts)} note={counted(figures.batches ?? 0, "micro-batch", "", "micro-batches")} />
    </section>
  );
}

function counted(count: number, what: string, rest: string, several = `${what}s`): string {
  return `${formatShort(count)} ${count === 1 ? what : several} ${rest}`;
}

function malformed(figures: StreamFigures): string {
  return has(figures.malformed) ? `rows without a score; ${formatShort(figures.malformed)} malformed` : "rows without a score";
}

function has(value: Amount | undefined): boolean {
  return value !== null && value !== undefined;
}

interface TileProps {
  name: string;
  value: string;
  note: string;
  isWarning?: boolean;
  children?: preact.ComponentChildren;
}

function Tile({ name, value, note, isWarning = false, children }: TileProps) {
  return (
    <dl class={isWarning ? "tile warning" : "tile"}>
      <dt>{name}</dt>
      <dd class="value number">{value}</dd>
      <dd class="muted note">{note}</dd>
      {children && <dd>{children}</dd>}
    </dl>
  );
}

function Meter({ label, value }: { label: string; value: number }) {
  const held = Math.min(1, Math.max(0, value));
  return (
    <div class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(held * 100)} aria-valuetext={formatShare(value)}>
      <span style={{ transform: `scaleX(${held})` }} />
    </div>
  );
}

/** The lag of each stream of an incomplete query. */
function Lags({ lags }: { lags: StreamFigures["lags"] }) {
  const all = Object.entries(lags ?? {});
  if (all.length === 0) return null;
  const most = Math.max(1e-9, ...all.map(([, lag]) => lag ?? 0));
  return (
    <section class="panel" aria-label="Lag of each stream">
      <h2>Lag of each stream</h2>
      <table class="lags">
        <thead class="unseen">
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Lag</th>
          </tr>
        </thead>
        <tbody>
          {all.map(([name, lag]) => (
            <tr key={name}>
              <th scope="row">
                <Data value={name} longest={60} />
              </th>
              <td>
                <span class="bar" style={{ transform: `scaleX(${Math.max(0, lag ?? 0) / most})` }} />
                <span class="number">{formatSeconds(lag)}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const TRAILS: [Trail, string, (value: number) => string][] = [
  ["rows_per_second", "Rows per second", formatShort],
  ["candidates", "Candidates", formatShort],
  ["emit_lag", "Emit lag", formatSeconds],
  ["state_bytes", "State", formatBytes],
];

function Trails({ stream, trail }: { stream: string; trail: TrailPoint[] }) {
  return (
    <section class="trails" aria-label="Last five minutes">
      {TRAILS.map(([name, title, format]) => (
        <TrailChart key={name} name={name} title={title} format={format} stream={stream} trail={trail} />
      ))}
    </section>
  );
}

interface TrailProps {
  name: Trail;
  title: string;
  format: (value: number) => string;
  stream: string;
  trail: TrailPoint[];
}

function TrailChart({ name, title, format, stream, trail }: TrailProps) {
  const data = useMemo(() => {
    const times = trail.map((point) => positionOf(point.at));
    const values = trail.map((point) => {
      const own = point[stream];
      const value = typeof own === "object" ? own[name] : null;
      return typeof value === "number" && Number.isFinite(value) ? value : null;
    });
    return [times, values] as [number[], (number | null)[]];
  }, [trail, stream, name]);
  const last = data[1].at(-1);
  return (
    <div class="panel trail">
      <h2>
        {title} <span class="muted number">{last === null || last === undefined ? "–" : format(last)}</span>
      </h2>
      <Plot
        label={`${title} in the last five minutes`}
        data={data}
        lines={[{ label: title, colour: "--accent", isFilled: true }]}
        height={110}
        isTime
        isSmall
        format={format}
      />
    </div>
  );
}

function PlanPanel({ stream }: { stream: Stream }) {
  const { api, store } = usePage();
  const { answer: plan, error } = useRequest(`${stream.name} ${stream.queries.length} ${store.link === "lost"}`, () => api.plan(stream.name));
  if (error && !plan) return <p class="hint">{error}</p>;
  if (!plan) return null;
  if (plan.lanes.length === 0 && !plan.text) return <p class="muted">The plan is not known without the workload file (skyband page --workload FILE).</p>;
  const isRuns = plan.lanes[0]?.kind === "group";
  return (
    <section class="panel" aria-label="Plan">
      <div class="panel-head">
        <h2>{isRuns ? "Plan on a time line" : plan.lanes.length > 0 ? "Meta query on a time line" : "Plan"}</h2>
        <p class="muted number">
          {plan.lanes.length > 0 && `${(plan.lanes.length + (plan.more ?? 0)).toLocaleString("en-GB")} ${isRuns ? "runs" : "views"}`}
          {plan.share_factor !== null && ` · share factor ${formatAmount(plan.share_factor, 2)}`}
          {typeof plan.cost === "number" && ` · cost ${formatShort(plan.cost)}`}
        </p>
      </div>
      {plan.lanes.length > 0 && <PlanLines key={stream.name} plan={plan} />}
      {plan.text && (
        <details open={plan.lanes.length === 0}>
          <summary>Plan as text</summary>
          <pre tabIndex={0} aria-label="Plan as text">
            <bdi>{plan.text}</bdi>
          </pre>
        </details>
      )}
    </section>
  );
}

