/** The updates since the last frame, merged: only the newest of each kind is drawn. */

import type { Board, Engine, Moment, Query, Summary, TrailPoint } from "../types";
import { pairKey } from "./route";
import { positionOf } from "./values";

export interface Batch {
  summaries: Map<string, Summary>;
  boards: Map<string, Board>;
  engine: Engine | null;
}

export class Inbox {
  #summaries = new Map<string, Summary>();
  #boards = new Map<string, Board>();
  #engine: Engine | null = null;

  get isEmpty(): boolean {
    return this.#summaries.size === 0 && this.#boards.size === 0 && this.#engine === null;
  }

  putSummaries(changed: { [query: string]: Summary }): void {
    for (const [query, summary] of Object.entries(changed)) this.#summaries.set(query, summary);
  }

  putBoard(board: Board): void {
    const key = pairKey(board);
    const held = this.#boards.get(key);
    if (!held || !isEarlier(board.moment, held.moment)) this.#boards.set(key, board);
  }

  putEngine(engine: Engine): void {
    this.#engine = engine;
  }

  /** Return all updates and clear the inbox. */
  take(): Batch {
    const batch = { summaries: this.#summaries, boards: this.#boards, engine: this.#engine };
    this.clear();
    return batch;
  }

  clear(): void {
    this.#summaries = new Map();
    this.#boards = new Map();
    this.#engine = null;
  }
}

export function isEarlier(moment: Moment, than: Moment): boolean {
  return positionOf(moment) < positionOf(than);
}

/** The newest window of a query, if it is later than this newest window of a group; sessions of groups always differ. */
export function laterWindow(newestOfGroup: Moment, query: Query, newest: Moment | undefined): Moment | null {
  if (newest === undefined || query.window.startsWith("sessions")) return null;
  return isEarlier(newestOfGroup, newest) ? newest : null;
}

/** The trail with one more point; points older than five minutes before it are dropped. */
export function extended(trail: readonly TrailPoint[], point: TrailPoint, seconds = 300): TrailPoint[] {
  const now = positionOf(point.at);
  const last = trail[trail.length - 1];
  const kept = last && positionOf(last.at) > now ? [] : trail.filter((one) => positionOf(one.at) >= now - seconds);
  return [...kept, point];
}
