/** The card of one query: the top k of its newest window. */

import { useKey, usePage, useVisible } from "../context";
import { laterWindow } from "../logic/inbox";
import { HOME, pairKey, writeRoute } from "../logic/route";
import { clip, formatBeside, formatMoment, groupLabel, nameOf, plural } from "../logic/values";
import type { Board, Group, Pair, Query } from "../types";
import { GroupPicker } from "./group_picker";
import { memo } from "./memo";
import { Ranking } from "./ranking";
import { TakeAway } from "./take_away";
import { Data, Icon } from "./text";

interface Props {
  pair: Pair;
  query: Query | undefined;
  onClose: (query: string) => void;
  onGroup: (query: string, group: Group) => void;
}

export const Card = memo(function Card({ pair, query, onClose, onGroup }: Props) {
  const { store } = usePage();
  const [ref, isVisible] = useVisible<HTMLElement>();
  useKey("link");
  const settled = store.settle(pair);
  const key = pairKey(settled);
  // A card outside the viewport is redrawn only if it gets or loses its board, so that it is never blank or wrong.
  useKey(isVisible ? `board ${key}` : `presence ${key}`);
  useKey(pair.group === null ? `settled ${pair.query}` : null);
  const board = store.board(settled);
  const title = groupLabel(settled.group) ? `${pair.query}, ${groupLabel(settled.group)}` : pair.query;
  return (
    <article ref={ref} class="card" aria-label={clip(pair.query, 120)} data-query={pair.query}>
      <header>
        <div class="card-title">
          <h2>
            <Data value={pair.query} longest={120} />
          </h2>
          {query && query.family !== "topk" && <span class="tag">{query.family}</span>}
          <a
            class="quiet"
            href={writeRoute({ ...HOME, view: "time", query: pair.query, group: settled.group })}
            aria-label={`${clip(pair.query, 80)} over time`}
            title="Over time"
          >
            <Icon name="clock" />
          </a>
          <button type="button" class="quiet" aria-label={`Close ${clip(pair.query, 80)}`} title="Close" onClick={() => onClose(pair.query)}>
            <Icon name="close" />
          </button>
        </div>
        <div class="card-about">
          <p class="muted">{query ? `Top ${query.k.toLocaleString("en-GB")} over ${query.window}` : "not in the workload"}</p>
          {board && (
            <time class="number" title={`${formatMoment(board.start)} to ${formatMoment(board.moment)}`} dateTime={String(board.moment)}>
              {formatMoment(board.moment)}
            </time>
          )}
          {board && <SoFar board={board} />}
        </div>
        {query && query.groups.length > 0 && (
          <GroupPicker query={query} group={settled.group} onPick={(group) => onGroup(pair.query, group)} />
        )}
        {board && <Behind board={board} query={query} />}
      </header>
      {board ? (
        <>
          <Ranking key={key} board={board} query={query} label={clip(title, 160)} />
          <LeftObjects board={board} />
          <TakeAway board={board} label={null} />
        </>
      ) : (
        <p class="empty muted" style={{ height: `${Math.min(10, query?.k ?? 1) * 36 + 64}px` }}>
          {store.missing(settled) === undefined ? "" : "No results yet"}
        </p>
      )}
    </article>
  );
});

/** The mark of a window that later rows can still change. */
export function SoFar({ board }: { board: Board }) {
  if (!board.rows.some((row) => row.final === false)) return null;
  return (
    <span class="tag so-far" title="This window is not final. Later rows can still change it.">
      so far
    </span>
  );
}

/** A note that the group has no rows in the newest window of the query, and an earlier one is shown. */
export function Behind({ board, query }: { board: Board; query: Query | undefined }) {
  const { store } = usePage();
  const isGrouped = query !== undefined && query.groups.length > 0;
  useKey(isGrouped ? `summary ${query.name}` : null);
  const held = store.board(board)?.moment ?? board.newest;
  const isNewest = String(held) === String(board.moment);
  const later = isGrouped && isNewest ? laterWindow(held, query, store.summaries.get(query.name)?.moment) : null;
  return later === null ? null : <p class="muted behind">No rows of this group in the newest window, {formatBeside(later, board.moment)}</p>;
}

/** The objects that left the ranking with this window, in one line. */
export function LeftObjects({ board }: { board: Board }) {
  const entered = board.rows.filter((row) => row.move === "entered").length;
  return (
    <p class="gone muted">
      {board.left.length > 0 ? (
        <>
          Left:{" "}
          {board.left.slice(0, 20).map((one, index) => (
            <span key={index} class="gone-one">
              <bdi>{clip(nameOf(one), 32)}</bdi> <span class="number">(was {one.old_rank})</span>
            </span>
          ))}
          {board.left.length > 20 && `and ${board.left.length - 20} more`}
        </>
      ) : entered > 0 ? (
        `${entered} entered, none left`
      ) : board.previous !== null ? (
        "Same objects as in the previous window"
      ) : (board.dropped ?? 0) > 0 ? (
        "Oldest window in memory"
      ) : (
        "First window"
      )}
      {(board.dropped ?? 0) > 0 && board.previous !== null && (
        <span class="dropped">
          {" "}
          (compared with {formatMoment(board.previous)}; {plural(board.dropped ?? 0, "window")} between them{" "}
          {board.dropped === 1 ? "is" : "are"} no longer in memory)
        </span>
      )}
    </p>
  );
}
