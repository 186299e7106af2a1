/** SVG paths of small charts. */

import type { Amount } from "../types";
import { numberOf } from "./values";

/** The path of a sparkline. Missing values are gaps, and a constant is drawn in the middle. */
export function sparkPath(values: readonly Amount[], width: number, height: number, margin = 1.5): string {
  const numbers = values.map(numberOf);
  const known = numbers.filter(Number.isFinite);
  if (known.length === 0) return "";
  const low = Math.min(...known);
  const high = Math.max(...known);
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
    const y = high === low ? height / 2 : margin + room * (1 - (value - low) / (high - low));
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  });
  if (numbers.length === 1) path += `L${(width - margin).toFixed(1)} ${(height / 2).toFixed(1)}`;
  return path;
}

export interface Trace {
  /** Smooth lines between neighbouring windows in which the object is ranked. */
  path: string;
  /** Single windows without a neighbour. */
  dots: [number, number][];
  /** Its last position, if it is ranked in the newest window. */
  end: [number, number] | null;
}

/** The ranks of one object over time. */
export function bumpTrace(
  ranks: readonly (number | null)[],
  x: (index: number) => number,
  y: (rank: number) => number,
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
    const isAlone = (ranks[index - 1] ?? null) === null && (ranks[index + 1] ?? null) === null;
    if (isAlone) dots.push(here);
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

/** At most `most` evenly spaced indexes of a scale, including both ends. */
export function spread(count: number, most: number): number[] {
  if (count <= 0 || most <= 0) return [];
  if (count <= most) return Array.from({ length: count }, (_, index) => index);
  if (most === 1) return [count - 1];
  return Array.from({ length: most }, (_, index) => Math.round((index * (count - 1)) / (most - 1)));
}
