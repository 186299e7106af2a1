/** A ranking as a table with bars and animated moves. Only visible rows are in the document. */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useMedia, usePage, useVirtual } from "../context";
import { barOf, keysOf, moveMark, type Scale, scaleOf, slides } from "../logic/moves";
import { clip, columnDecimals, formatAmount, formatBeside, formatShare, isTime, nameOf, numberOf, textOf } from "../logic/values";
import { step } from "../logic/virtual";
import type { Board, Moment, Query, Row } from "../types";
import { useDetails } from "./details";
import { memo } from "./memo";
import { Data } from "./text";

const HEIGHT = 36; // as --row in the style sheet
const HEAD = 30; // as --row-head
const HASTE = 350; // ms: windows that arrive faster than this are not animated
const SLIDE = 280; // ms

interface Props {
  board: Board;
  query: Query | undefined;
  label: string;
  /** A ranking that is shown beside this one, so that the bars of both have one scale. */
  beside?: Board | undefined;
  /** The number of visible rows before the list scrolls. */
  room?: number;
  marked?: string | null;
  onMark?: (key: string | null) => void;
}

export function Ranking({ board, beside, query, label, room = 10, marked = null, onMark }: Props) {
  const open = useDetails();
  const keys = useMemo(() => keysOf(board.rows), [board]);
  const shown = useMemo(() => columnsOf([...board.rows, ...(beside?.rows ?? [])], query?.ascending === true), [board, beside, query?.ascending]);
  const { scroller, span, show } = useVirtual(board.rows.length, HEIGHT, HEAD);
  const [active, activate] = useState<string | null>(null);
  const body = useRef<HTMLTableSectionElement | null>(null);
  const wantsFocus = useRef(false);
  const hasFocus = body.current?.contains(document.activeElement) ?? false;

  useSlides(board, keys, body, room);

  // A row that moves in the document loses the focus. Restore it.
  useLayoutEffect(() => {
    if (!wantsFocus.current && !(hasFocus && !body.current?.contains(document.activeElement))) return;
    wantsFocus.current = false;
    body.current?.querySelector<HTMLButtonElement>('button[tabindex="0"]')?.focus({ preventScroll: true });
  });

  const onKeyDown = (event: KeyboardEvent) => {
    const at = active === null ? 0 : Math.max(0, keys.indexOf(active));
    const next = step(event.key, at, keys.length, room);
    if (next === null) return;
    event.preventDefault();
    show(next);
    wantsFocus.current = true;
    activate(keys[next] ?? null);
  };

  const isActiveShown = active !== null && keys.indexOf(active, span.first) >= 0 && keys.indexOf(active) < span.last;
  const firstKey = isActiveShown ? active : keys[Math.min(span.first + (span.first > 0 ? 6 : 0), keys.length - 1)];
  const wide = 3 + Number(shown.hasProbability) + Number(shown.hasSure);

  return (
    <div class={board.rows.length > room ? "ranking-box long" : "ranking-box"} ref={scroller} style={boxStyle(room, query, board)}>
      <table class="ranking" aria-label={label} aria-rowcount={board.rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col" class="rank">
              <abbr title="Rank">#</abbr>
            </th>
            <th scope="col" class="object">
              Object
            </th>
            {shown.hasSure && (
              <th scope="col" class="sure">
                Certainty
              </th>
            )}
            {shown.hasProbability && (
              <th scope="col" class="chance">
                Probability
              </th>
            )}
            <th scope="col" class="score">
              <Data value={query?.by || "Score"} longest={40} />
            </th>
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={onKeyDown}>
          {span.before > 0 && <Gap wide={wide} height={span.before} />}
          {board.rows.slice(span.first, span.last).map((row, offset) => {
            const index = span.first + offset;
            const key = keys[index] as string;
            return (
              <Line
                key={key}
                id={key}
                row={row}
                moment={board.moment}
                place={index}
                shown={shown}
                isFirst={key === firstKey}
                isMarked={key === marked}
                onOpen={() => {
                  activate(key);
                  open({ row, board, query });
                }}
                onMark={onMark}
              />
            );
          })}
          {span.after > 0 && <Gap wide={wide} height={span.after} />}
        </tbody>
      </table>
    </div>
  );
}

function boxStyle(room: number, query: Query | undefined, board: Board) {
  const rows = Math.min(room, Math.max(query?.k ?? 0, board.rows.length, 1));
  return { height: `${rows * HEIGHT + HEAD + 1}px` };
}

function Gap({ wide, height }: { wide: number; height: number }) {
  return (
    <tr class="gap" aria-hidden="true">
      <td colSpan={wide} style={{ height: `${height}px` }} />
    </tr>
  );
}

interface Columns {
  decimals: number;
  scale: Scale;
  hasProbability: boolean;
  hasSure: boolean;
}

function columnsOf(rows: readonly Row[], isAscending: boolean): Columns {
  return {
    decimals: columnDecimals(rows.map((row) => row.score)),
    scale: scaleOf(
      rows.flatMap((row) => (row.best === undefined || row.best === null ? [row.score] : [row.score, row.best])),
      isAscending,
    ),
    hasProbability: rows.some((row) => row.probability !== undefined && row.probability !== null),
    hasSure: rows.some((row) => row.sure !== undefined && row.sure !== null),
  };
}

interface LineProps {
  id: string;
  row: Row;
  moment: Moment;
  place: number;
  shown: Columns;
  isFirst: boolean;
  isMarked: boolean;
  onOpen: () => void;
  onMark: ((key: string | null) => void) | undefined;
}

function Line({ id, row, moment, place, shown, isFirst, isMarked, onOpen, onMark }: LineProps) {
  const { sign, words } = moveMark(row);
  const open = (event: MouseEvent & { currentTarget: HTMLElement }) => {
    event.currentTarget.querySelector("button")?.focus({ preventScroll: true }); // the dialog returns the focus here
    onOpen();
  };
  const marks = onMark && {
    onMouseEnter: () => onMark(id),
    onMouseLeave: () => onMark(null),
    onFocusIn: () => onMark(id),
    onFocusOut: () => onMark(null),
  };
  return (
    <tr class={isMarked ? "line marked" : "line"} data-key={id} aria-rowindex={place + 2} onClick={open} {...marks}>
      <td class="rank">
        <span class="number">{row.rank}</span>
        <span class={`move ${row.move}`}>
          <span aria-hidden="true">{sign}</span>
          {words && <span class="unseen">{words}</span>}
        </span>
      </td>
      <th scope="row" class="object">
        <div class="names">
          <button type="button" class="plain" tabIndex={isFirst ? 0 : -1} aria-haspopup="dialog">
            <Data value={nameOf(row)} longest={80} />
          </button>
          <Aside row={row} moment={moment} />
        </div>
      </th>
      {shown.hasSure && (
        <td class="sure">
          <span class={row.sure ? "tag sure" : "tag possible"}>{row.sure ? "sure" : "possible"}</span>
        </td>
      )}
      {shown.hasProbability && (
        <td class="chance">
          <Bar from={0} size={Math.max(0, Math.min(1, numberOf(row.probability) || 0))} />
          <data value={textOf(row.probability ?? null)}>{formatShare(row.probability)}</data>
        </td>
      )}
      <td class="score">
        {row.best !== undefined && row.best !== null && <Bar kind="best" {...barOf(row.best, shown.scale)} />}
        <Bar {...barOf(row.score, shown.scale)} />
        <data value={textOf(row.score)}>{formatAmount(row.score, shown.decimals)}</data>
      </td>
    </tr>
  );
}

function Bar({ from, size, kind = "" }: { from: number; size: number; kind?: string }) {
  return <span class={`bar ${kind}`} style={{ transform: `translateX(${(from * 100).toFixed(2)}%) scaleX(${size.toFixed(4)})` }} />;
}

/** The first other columns of the row. */
const Aside = memo(function Aside({ row, moment }: { row: Row; moment: Moment }) {
  const own = nameOf(row);
  const others = Object.values(row.details)
    .map((value) => (typeof value === "string" && isTime(value) ? formatBeside(value, moment) : textOf(value)))
    .filter((text) => text !== own && text !== "–")
    .slice(0, 4);
  if (others.length === 0) return null;
  return (
    <span class="aside">
      {others.map((text, index) => (
        <bdi key={index}>{clip(text, 32)}</bdi>
      ))}
    </span>
  );
});

/** Animate rows from their previous places. The places follow from the order, so nothing is measured. */
function useSlides(board: Board, keys: string[], body: { current: HTMLElement | null }, room: number): void {
  const { store } = usePage();
  const isStill = useMedia("(prefers-reduced-motion: reduce)");
  const before = useRef<{ places: Map<string, number>; board: Board | null; at: number }>({ places: new Map(), board: null, at: 0 });
  useLayoutEffect(() => {
    const past = before.current;
    if (past.board === board) return;
    const now = performance.now();
    const places = new Map(keys.map((key, index) => [key, index]));
    before.current = { places, board, at: now };
    if (isStill || document.hidden || store.link !== "open" || !past.board || now - past.at < HASTE) return;
    const moving = slides(past.places, keys, room);
    if (moving.size === 0 || !body.current) return;
    for (const line of body.current.children) {
      const slide = moving.get((line as HTMLElement).dataset["key"] ?? "");
      if (!slide) continue;
      if (slide.kind === "new") line.animate([{ opacity: 0 }, { opacity: 1 }], { duration: SLIDE, easing: "ease-out" });
      else {
        line.animate([{ transform: `translateY(${slide.by * HEIGHT}px)` }, { transform: "none" }], {
          duration: SLIDE,
          easing: "cubic-bezier(.2, .7, .2, 1)",
        });
      }
    }
  }, [board]);
}
