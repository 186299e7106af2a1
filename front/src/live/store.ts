/** The data of the page. A component subscribes to a key and is notified at most once per frame. */

import { extended, Inbox, isEarlier } from "../logic/inbox";
import { pairKey } from "../logic/route";
import { positionOf } from "../logic/values";
import type { Board, Engine, Group, Pair, Query, State, Summary, TrailPoint } from "../types";

export type Link = "connecting" | "open" | "lost";
export type Key = "state" | "link" | "engine" | "summaries" | `summary ${string}` | `settled ${string}` | `board ${string}` | `presence ${string}`;

const LIST = 400; // ms between two redraws of the list of queries
const AT_ONCE = 4; // cards drawn in one frame; more would not fit into it

export class Store {
  state: State | null = null;
  queries = new Map<string, Query>();
  summaries = new Map<string, Summary>();
  engine: Engine | null = null;
  trail: TrailPoint[] = [];
  link: Link = "connecting";
  /** Why the server rejected the connection, if it gave a reason. */
  refusal: string | null = null;
  /** The group of a card without a chosen group: the one with the newest answer at the first request. */
  settled = new Map<string, Group>();

  #boards = new Map<string, Board>();
  #missing = new Map<string, string>();
  /** Boards from before a lost connection. The next board replaces them, even if its window is earlier. */
  #stale = new Set<string>();
  #inbox = new Inbox();
  #listeners = new Map<Key, Set<() => void>>();
  #changed = new Set<Key>();
  #frame = 0;
  /** Queries with new summaries since the last redraw of the list. */
  #listed = new Set<string>();
  #pause = 0;

  subscribe(key: Key, listener: () => void): () => void {
    let all = this.#listeners.get(key);
    if (!all) this.#listeners.set(key, (all = new Set()));
    all.add(listener);
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.#listeners.get(key) === all) this.#listeners.delete(key);
    };
  }

  board(pair: Pair): Board | undefined {
    return this.#boards.get(pairKey(pair));
  }

  /** Why there is no board, if the server gave a reason. */
  missing(pair: Pair): string | undefined {
    return this.#missing.get(pairKey(pair));
  }

  /** The card with its group: the chosen group, or the default one. */
  settle(pair: Pair): Pair {
    return pair.group === null ? { query: pair.query, group: this.settled.get(pair.query) ?? null } : pair;
  }

  /** Set the default group of a card. */
  setSettled(query: string, group: Group): void {
    this.settled.set(query, group);
    this.#touch(`settled ${query}`);
  }

  setState(state: State): void {
    this.state = state;
    this.queries = new Map(state.queries.map((query) => [query.name, query]));
    for (const name of this.summaries.keys()) if (!this.queries.has(name)) this.summaries.delete(name);
    this.#touch("state");
    this.#touch("summaries");
  }

  setLink(link: Link, refusal: string | null = null): void {
    if (this.link === link && this.refusal === refusal) return;
    this.link = link;
    this.refusal = refusal;
    this.#touch("link");
  }

  setEnded(): void {
    if (this.state) this.state = { ...this.state, ended: true };
    this.#touch("state");
    this.#touch("link");
  }

  setTrail(trail: TrailPoint[]): void {
    this.trail = trail;
    this.#touch("engine");
  }

  setMissing(pair: Pair, why: string): void {
    const key = pairKey(pair);
    if (this.#boards.delete(key) || !this.#missing.has(key)) this.#touch(`presence ${key}`);
    this.#missing.set(key, why);
    this.#touch(`board ${key}`);
  }

  /** Mark all held boards as stale. */
  age(): void {
    this.#inbox.clear();
    for (const key of this.#boards.keys()) this.#stale.add(key);
  }

  receiveSummaries(changed: { [query: string]: Summary }, isWhole = false): void {
    if (isWhole) for (const name of this.summaries.keys()) if (!(name in changed)) this.summaries.delete(name);
    this.#inbox.putSummaries(changed);
    this.#schedule();
  }

  receiveBoard(board: Board): void {
    this.#inbox.putBoard(board);
    this.#schedule();
  }

  receiveEngine(engine: Engine): void {
    this.#inbox.putEngine(engine);
    this.#schedule();
  }

  /** Drop the boards that are no longer shown. */
  keepOnly(pairs: Iterable<Pair>): void {
    const kept = new Set([...pairs].map(pairKey));
    for (const key of this.#boards.keys()) if (!kept.has(key)) this.#boards.delete(key);
    for (const key of this.#missing.keys()) if (!kept.has(key)) this.#missing.delete(key);
  }

  #touch(key: Key): void {
    this.#changed.add(key);
    this.#schedule();
  }

  /** A hidden page gets no animation frames, so it is not redrawn. */
  #schedule(): void {
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    this.#frame = 0;
    this.#apply();
    const changed = this.#changed;
    this.#changed = new Set();
    let boards = 0;
    for (const key of changed) {
      const listeners = this.#listeners.get(key);
      if (!listeners) continue;
      if (key.startsWith("board ")) boards += 1;
      if (boards > AT_ONCE && key.startsWith("board ")) this.#touch(key); // postponed to the next frame
      else for (const listener of [...listeners]) listener();
    }
  }

  #apply(): void {
    if (this.#inbox.isEmpty) return;
    const { summaries, boards, engine } = this.#inbox.take();
    for (const [name, summary] of summaries) {
      this.summaries.set(name, summary);
      this.#listed.add(name);
    }
    if (this.#listed.size > 0 && this.#pause === 0) {
      this.#notifySummaries();
      this.#pause = window.setTimeout(() => {
        this.#pause = 0;
        if (this.#listed.size > 0) this.#notifySummaries();
      }, LIST);
    }
    for (const [key, board] of boards) this.#replace(key, board);
    if (engine) {
      this.engine = engine;
      if (engine.trail) this.trail = engine.trail;
      else this.trail = extended(this.trail, { ...engine.streams, at: this.#now() } as TrailPoint);
      this.#changed.add("engine");
    }
  }

  #notifySummaries(): void {
    for (const name of this.#listed) this.#touch(`summary ${name}`);
    this.#touch("summaries");
    this.#listed.clear();
  }

  /** The current time, but always later than the last point, even if the clocks differ. */
  #now(): number {
    const last = this.trail[this.trail.length - 1];
    return Math.max(Date.now() / 1000, last ? positionOf(last.at) + 0.5 : 0);
  }

  #replace(key: string, board: Board): void {
    const held = this.#boards.get(key);
    if (held && !this.#stale.has(key) && isEarlier(board.moment, held.moment)) return;
    this.#boards.set(key, board);
    if (this.#missing.delete(key) || !held) this.#changed.add(`presence ${key}`);
    this.#stale.delete(key);
    this.#changed.add(`board ${key}`);
  }
}
