/** A dialog with all columns of a row, unclipped. */

import { createContext } from "preact";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";
import { moveMark } from "../logic/moves";
import { formatAmount, formatMoment, formatShare, groupLabel, textOf } from "../logic/values";
import type { Board, Query, Row } from "../types";
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

export function Details({ opened, onClose }: { opened: Opened; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement | null>(null);
  useLayoutEffect(() => {
    if (dialog.current && !dialog.current.open) dialog.current.showModal();
  }, []);
  const { row, board, query } = opened;
  const move = moveMark(row);
  return (
    <dialog
      ref={dialog}
      class="details"
      aria-labelledby="details-title"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="dialog-body">
        <header>
          <h2 id="details-title">
            <Data value={row.id} longest={120} />
          </h2>
          <button type="button" class="quiet" aria-label="Close" onClick={() => dialog.current?.close()}>
            <Icon name="close" />
          </button>
        </header>
        <p class="muted">
          Rank {row.rank} of <Data value={board.query} longest={80} />
          {board.group !== null && (
            <>
              {" "}
              in <Data value={groupLabel(board.group)} longest={80} />
            </>
          )}
          , window ending {formatMoment(board.moment)}
          {query?.axis === "time" && " UTC"}
          {move.words && `; ${move.words}`}
        </p>
        <dl tabIndex={0} aria-label="All columns of the row">
          <Pair name={query?.by || "score"} text={formatAmount(row.score)} exact={textOf(row.score)} />
          {row.probability !== undefined && row.probability !== null && (
            <Pair name="probability" text={formatShare(row.probability)} exact={textOf(row.probability)} />
          )}
          {row.best !== undefined && row.best !== null && (
            <Pair name="best case" text={formatAmount(row.best)} exact={textOf(row.best)} />
          )}
          {row.sure !== undefined && row.sure !== null && <Pair name="state" text={row.sure ? "sure" : "possible"} />}
          {!Object.values(row.details).some((value) => textOf(value) === textOf(row.id)) && <Pair name="id" text={textOf(row.id)} />}
          {Object.entries(row.details).map(([column, value]) => (
            <Pair key={column} name={column} text={textOf(value)} />
          ))}
        </dl>
      </div>
    </dialog>
  );
}

function Pair({ name, text, exact }: { name: string; text: string; exact?: string }) {
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
