/** The changes between two rankings: how rows move, and the text for it. */

import type { Amount, Board, Row, Value } from "../types";
import { numberOf, textOf, unitOf } from "./values";

/** A unique key for each row. Ids need not be unique, and null is an id too. */
export function keysOf(rows: readonly { id: Value }[]): string[] {
  const seen = new Map<string, number>();
  return rows.map(({ id }) => {
    const text = `${typeof id}:${typeof id === "object" ? JSON.stringify(id) : String(id)}`;
    const times = seen.get(text) ?? 0;
    seen.set(text, times + 1);
    return times === 0 ? text : `${text}#${times}`;
  });
}

export type Slide = { kind: "moved"; by: number } | { kind: "new" };

/**
 * By how many places each row moves. Rows that stay are omitted. Nothing moves if nothing was shown before. A row that
 * comes from more than `farthest` places away counts as new.
 */
export function slides(before: ReadonlyMap<string, number>, keys: readonly string[], farthest = Infinity): Map<string, Slide> {
  const found = new Map<string, Slide>();
  if (before.size === 0) return found;
  keys.forEach((key, index) => {
    const was = before.get(key);
    if (was === undefined || Math.abs(was - index) > farthest) found.set(key, { kind: "new" });
    else if (was !== index) found.set(key, { kind: "moved", by: was - index });
  });
  return found;
}

/** The mark beside a rank, and its text for screen readers. */
export function moveMark(row: Row): { sign: string; words: string } {
  switch (row.move) {
    case "entered":
      return { sign: "new", words: "entered" };
    case "up":
      return { sign: `▲${distance(row)}`, words: `up from ${row.old_rank ?? "below"}` };
    case "down":
      return { sign: `▼${distance(row)}`, words: `down from ${row.old_rank ?? "above"}` };
    case "left":
      return { sign: "out", words: "left" };
    default:
      return { sign: "", words: "" };
  }
}

function distance(row: Row): string {
  return row.old_rank === null ? "" : String(Math.abs(row.old_rank - row.rank));
}

export interface Scale {
  low: number;
  high: number;
  /** Where bars start. */
  base: number;
}

const SHORTEST = 0.08; // the bar of the worst of negative scores, as a fraction of the longest

/**
 * The range of the bars. Bars start at zero, and the range ignores infinities. If the highest score is best and all are
 * negative, a bar from zero would be longest for the worst score, so bars start below the worst instead.
 */
export function scaleOf(amounts: Iterable<Amount | undefined>, isAscending = false): Scale {
  let low = Infinity;
  let high = -Infinity;
  for (const amount of amounts) {
    const value = numberOf(amount);
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return { low: 0, high: 0, base: 0 };
  if (high < 0 && !isAscending) {
    const base = Math.max(-Number.MAX_VALUE, low - (SHORTEST / (1 - SHORTEST)) * (high - low || -high));
    return { low: base, high, base };
  }
  return { low: Math.min(0, low), high: Math.max(0, high), base: 0 };
}

/** A bar from the base of the scale to the score, as fractions of its track. */
export function barOf(amount: Amount | undefined, scale: Scale): { from: number; size: number } {
  const unit = unitOf(scale.low, scale.high);
  const width = scale.high * unit - scale.low * unit;
  const value = numberOf(amount);
  if (Number.isNaN(value) || width <= 0) return { from: 0, size: value === Infinity ? 1 : 0 };
  const held = Math.min(scale.high, Math.max(scale.low, value));
  const zero = (scale.base * unit - scale.low * unit) / width;
  const end = (held * unit - scale.low * unit) / width;
  return { from: Math.min(zero, end), size: Math.abs(end - zero) };
}

/** Two rankings side by side, and the number of rows by how they moved from the first to the second. */
export interface Comparison {
  first: Board;
  second: Board;
  entered: number;
  left: number;
  moved: number;
  same: number;
}

/** Compare two windows: rows of the second move relative to the first; rows that the second lacks are marked as left. */
export function compared(first: Board, second: Board): Comparison {
  const before = bestRanks(first.rows);
  const after = bestRanks(second.rows);
  const rows = second.rows.map((row): Row => {
    const old = before.get(textOf(row.id));
    return { ...row, old_rank: old ?? null, move: old === undefined ? "entered" : row.rank < old ? "up" : row.rank > old ? "down" : "same" };
  });
  const gone = first.rows.map((row): Row => ({ ...row, old_rank: null, move: after.has(textOf(row.id)) ? "same" : "left" }));
  const count = (all: readonly Row[], ...moves: string[]) => all.filter(({ move }) => moves.includes(move)).length;
  return {
    first: { ...first, rows: gone },
    second: { ...second, rows },
    entered: count(rows, "entered"),
    left: count(gone, "left"),
    moved: count(rows, "up", "down"),
    same: count(rows, "same"),
  };
}

/** The best rank of each object: an object can have several ranks. */
function bestRanks(rows: readonly Row[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const { id, rank } of rows) if (!found.has(textOf(id))) found.set(textOf(id), rank);
  return found;
}
