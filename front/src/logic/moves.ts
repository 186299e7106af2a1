/** The changes between two rankings: how rows move, and the text for it. */

import type { Amount, Row, Value } from "../types";
import { numberOf } from "./values";

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
    default:
      return { sign: "", words: "" };
  }
}

function distance(row: Row): string {
  return row.old_rank === null ? "" : String(Math.abs(row.old_rank - row.rank));
}

/** The range of the bars. It always includes zero, and ignores infinities. */
export function scaleOf(amounts: Iterable<Amount | undefined>): { low: number; high: number } {
  let low = 0;
  let high = 0;
  for (const amount of amounts) {
    const value = numberOf(amount);
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return { low, high };
}

/** A bar from zero to the score, as fractions of its track. */
export function barOf(amount: Amount | undefined, scale: { low: number; high: number }): { from: number; size: number } {
  const width = scale.high - scale.low;
  const value = numberOf(amount);
  if (Number.isNaN(value) || width <= 0) return { from: 0, size: value === Infinity ? 1 : 0 };
  const held = Math.min(scale.high, Math.max(scale.low, value));
  const zero = -scale.low / width;
  const end = (held - scale.low) / width;
  return { from: Math.min(zero, end), size: Math.abs(end - zero) };
}
