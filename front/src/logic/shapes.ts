/** SVG paths of small charts. */

import type { Amount } from "../types";
import { numberOf, unitOf } from "./values";

/** The path of a sparkline. Missing values are gaps, and a constant is drawn in the middle. */
export function sparkPath(values: readonly Amount[], width: number, height: number, margin = 1.5): string {
  const numbers = values.map(numberOf);
  const known = numbers.filter(Number.isFinite);
  if (known.length === 0) return "";
  const low = Math.min(...known);
  const high = Math.max(...known);
  const unit = unitOf(low, high);
  const room = height - 2 * margin;
  const stride = numbers.length > 1 ? (width - 2 * margin) / (numbers.length - 1) : 0;
  let path = "";
  let pen = false;
  numbers.forEach((value, index) => {
    if (!Number.isFinite(value)) {
      pen = false;
      return;
    }
    const x = margin + index * stride;
    const y = high === low ? height / 2 : margin + room * (1 - (value * unit - low * unit) / (high * unit - low * unit));
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  });
  if (numbers.length === 1) path += `L${(width - margin).toFixed(1)} ${(height / 2).toFixed(1)}`;
  return path;
}

const NO_GAPS: ReadonlySet<number> = new Set();

/** Columns of a chart with an empty row inserted before each gap, so that no line crosses it. */
export function withGaps(
  positions: readonly number[],
  columns: readonly (readonly (number | null)[])[],
  gaps: readonly number[],
): { positions: number[]; columns: (number | null)[][] } {
  const before = new Set(gaps);
  const found = { positions: [] as number[], columns: columns.map(() => [] as (number | null)[]) };
  positions.forEach((position, index) => {
    if (before.has(index) && index > 0) {
      found.positions.push(((positions[index - 1] as number) + position) / 2);
      for (const column of found.columns) column.push(null);
    }
    found.positions.push(position);
    found.columns.forEach((column, place) => column.push(columns[place]?.[index] ?? null));
  });
  return found;
}

export interface Trace {
  /** Smooth lines between neighbouring windows in which the object is ranked. */
  path: string;
  /** Single windows without a neighbour. */
  dots: [number, number][];
  /** Its last position, if it is ranked in the newest window. */
  end: [number, number] | null;
}

/** The ranks of one object over time. Lines break at `gaps`: indexes of windows that do not follow the one before. */
export function bumpTrace(
  ranks: readonly (number | null)[],
  x: (index: number) => number,
  y: (rank: number) => number,
  gaps: ReadonlySet<number> = NO_GAPS,
): Trace {
  let path = "";
  const dots: [number, number][] = [];
  let last: [number, number] | null = null;
  ranks.forEach((rank, index) => {
    if (rank === null || rank === undefined) {
      last = null;
      return;
    }
    const here: [number, number] = [x(index), y(rank)];
    if (gaps.has(index)) last = null;
    const isFirst = (ranks[index - 1] ?? null) === null || gaps.has(index);
    const isLast = (ranks[index + 1] ?? null) === null || gaps.has(index + 1);
    if (isFirst && isLast) dots.push(here);
    if (last === null) {
      path += `M${here[0].toFixed(1)} ${here[1].toFixed(1)}`;
    } else {
      const half = (last[0] + here[0]) / 2;
      path +=
        last[1] === here[1]
          ? `H${here[0].toFixed(1)}`
          : `C${half.toFixed(1)} ${last[1].toFixed(1)} ${half.toFixed(1)} ${here[1].toFixed(1)} ${here[0].toFixed(1)} ${here[1].toFixed(1)}`;
    }
    last = here;
  });
  return { path, dots, end: last };
}

/** The index of the position that is nearest to a place. Positions increase. */
export function nearest(positions: readonly number[], place: number): number {
  let low = 0;
  let high = positions.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((positions[middle] as number) <= place) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs((positions[high] as number) - place) < Math.abs((positions[low] as number) - place) ? high : low;
}

/** Indexes of at most `most` positions that are spread evenly over their range, including both ends. */
export function ticksOf(positions: readonly number[], most: number): number[] {
  const [first = 0, last = 0] = [positions[0], positions.at(-1)];
  if (positions.length <= 1 || last <= first) return positions.length > 0 ? [0] : [];
  const distance = (last - first) / Math.max(1, most - 1);
  const found = [0];
  for (let tick = 1; tick < most - 1; tick += 1) {
    const index = nearest(positions, first + tick * distance);
    const place = positions[index] as number;
    if (place - (positions[found.at(-1) as number] as number) >= distance * 0.7 && last - place >= distance * 0.7) found.push(index);
  }
  return [...found, positions.length - 1];
}

/** At most `most` evenly spaced indexes of a scale, including both ends. */
export function spread(count: number, most: number): number[] {
  if (count <= 0 || most <= 0) return [];
  if (count <= most) return Array.from({ length: count }, (_, index) => index);
  if (most === 1) return [count - 1];
  return Array.from({ length: most }, (_, index) => Math.round((index * (count - 1)) / (most - 1)));
}
