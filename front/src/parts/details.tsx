/** A dialog with all facts of a row, unclipped. The row is in the URL, so the dialog can be linked. */

import { createContext } from "preact";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";
import { useKey, usePage, useRequest } from "../context";
import { moveMark } from "../logic/moves";
import type { Route, RowPlace } from "../logic/route";
import { formatAmount, formatMoment, formatShare, groupLabel, isTime, nameOf, textOf } from "../logic/values";
import type { Board, Pair, Query, Row, Value } from "../types";
import { CopyLink, windowRoute } from "./take_away";
import { Data, Icon } from "./text";

export interface Opened {
  row: Row;
  board: Board;
  query: Query | undefined;
}

export const DetailsContext = createContext<(opened: Opened) => void>(() => undefined);

export function useDetails(): (opened: Opened) => void {
  return useContext(DetailsContext);
}

/** The dialog of the row in the URL: of the row that was opened, or of one that is requested. */
export function RowDetails({ route, opened, onClose }: { route: Route; opened: Opened | null; onClose: () => void }) {
  if (!route.row) return null;
  const isHeld = opened !== null && opened.board.query === route.row.query && textOf(opened.row.id) === textOf(route.row.id);
  if (isHeld) return <Details opened={opened} label={route.label} onClose={onClose} />;
  return <Requested key={JSON.stringify(route.row)} route={route} place={route.row} onClose={onClose} />;
}

function Requested({ route, place, onClose }: { route: Route; place: RowPlace; onClose: () => void }) {
  const { api, store } = usePage();
  useKey("state");
  const { query, group } = shownPair(route, place);
  const at = route.view === "boards" ? null : route.at;
  const isKnown = store.state !== null;
  const { answer: board, error } = useRequest<Board | null>(`${isKnown} ${JSON.stringify(place)}`, async () =>
    isKnown ? api.board(query, group, at, route.label) : null,
  );
  const row = board?.rows.find(({ id }) => textOf(id) === textOf(place.id));
  if (board && row) return <Details opened={{ row, board, query: store.queries.get(query) }} label={route.label} onClose={onClose} />;
  if (!board && !error) return null;
  return (
    <Dialog title={place.id} onClose={onClose}>
      <p class="muted">{board ? `Not among the ${board.rows.length} rows of the window that ends ${formatMoment(board.moment)}.` : error}</p>
    </Dialog>
  );
}

/** The query and group of the ranking in which the row is. */
function shownPair(route: Route, place: RowPlace): Pair {
  if (route.view !== "boards") return { query: place.query, group: route.group };
  return route.cards?.find(({ query }) => query === place.query) ?? { query: place.query, group: null };
}

function Dialog({ title, onClose, children }: { title: Value; onClose: () => void; children: preact.ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement | null>(null);
  const isShown = useRef(true);
  useLayoutEffect(() => {
    const element = dialog.current;
    if (element && !element.open) element.showModal();
    return () => {
      isShown.current = false;
      element?.close(); // returns the focus
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class="details"
      aria-labelledby="details-title"
      onClose={() => isShown.current && onClose()}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="dialog-body">
        <header>
          <h2 id="details-title">
            <Data value={title} longest={120} />
          </h2>
          <button type="button" class="quiet" aria-label="Close" onClick={() => dialog.current?.close()}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

function Details({ opened, label, onClose }: { opened: Opened; label: string | null; onClose: () => void }) {
  const { row, board, query } = opened;
  const move = moveMark(row);
  const utc = query?.axis === "time" ? " UTC" : "";
  const name = nameOf(row);
  const hasId = Object.values(row.details).some((value) => textOf(value) === textOf(row.id));
  return (
    <Dialog title={name} onClose={onClose}>
      <dl tabIndex={0} aria-label="All facts of the row">
        <Fact name="Rank" text={`${row.rank} of ${board.rows.length}`} />
        {move.words && <Fact name="Change" text={move.words} />}
        <Fact name="Query" text={board.query} />
        {board.group !== null && <Fact name={query?.groups.join(", ") || "Group"} text={groupLabel(board.group)} />}
        {board.start !== null && <Fact name="Window from" text={formatMoment(board.start) + utc} />}
        <Fact name={board.start === null ? "At" : "Window to"} text={formatMoment(board.moment) + utc} />
        {row.final === false && <Fact name="State" text="so far: later rows can still change this window" />}
        <Fact name={query?.by || "score"} text={formatAmount(row.score)} exact={textOf(row.score)} />
        {row.probability !== undefined && row.probability !== null && (
          <Fact name="probability" text={formatShare(row.probability)} exact={textOf(row.probability)} />
        )}
        {row.best !== undefined && row.best !== null && <Fact name="best case" text={formatAmount(row.best)} exact={textOf(row.best)} />}
        {row.sure !== undefined && row.sure !== null && <Fact name="certainty" text={row.sure ? "sure" : "possible"} />}
        {!hasId && <Fact name="id" text={textOf(row.id)} />}
        {Object.entries(row.details).map(([column, value]) => (
          <Fact key={column} name={column} text={valueText(value)} />
        ))}
      </dl>
      <p class="dialog-foot">
        <CopyLink route={() => ({ ...windowRoute(board, label), row: { query: board.query, id: row.id } })} />
      </p>
    </Dialog>
  );
}

function valueText(value: Value): string {
  return typeof value === "string" && isTime(value) ? formatMoment(value) : textOf(value);
}

function Fact({ name, text, exact }: { name: string; text: string; exact?: string }) {
  const isRounded = exact !== undefined && exact.replace("-", "−") !== text.replaceAll(",", "");
  return (
    <>
      <dt>
        <Data value={name} longest={200} />
      </dt>
      <dd>
        <bdi>{text}</bdi>
        {isRounded && (
          <span class="muted">
            {" "}
            (<bdi>{exact}</bdi>)
          </span>
        )}
      </dd>
    </>
  );
}
