/** The connection to the server: one event stream for the visible boards, reopened when these change or it breaks. */

import { pairKey } from "../logic/route";
import type { Board, Engine, Pair, Summary } from "../types";
import { type Api, ApiError } from "./api";
import type { Store } from "./store";

const SETTLE = 120; // ms: cards opened within this time are requested together
const AGAIN = 1000; // ms until the next attempt
const SILENCE = 15_000; // ms without an event; a running server sends one each second
const HIDDEN = 20_000; // ms after which a hidden page closes its connection

export class Link {
  #store: Store;
  #api: Api;
  #source: EventSource | null = null;
  #pairs: Pair[] = [];
  #loading = new Set<string>();
  /** Queries with at least one window. The others have no board. */
  #answered = new Set<string>();
  #subscribed = "";
  #wait = 0;
  #lastEvent = 0;
  #hidden = 0;
  #isRunning = false;
  /** Whether the held data may come from an earlier run of the server, so that all of it must be requested again. */
  #isStale = true;

  constructor(store: Store, api: Api) {
    this.#store = store;
    this.#api = api;
  }

  start(): void {
    this.#isRunning = true;
    document.addEventListener("visibilitychange", () => this.#onVisibility());
    addEventListener("pagehide", () => this.#close());
    addEventListener("pageshow", (event) => event.persisted && this.renew());
    addEventListener("online", () => this.renew());
    setInterval(() => this.#checkSilence(), 2000);
    void this.#begin();
  }

  /** Request the queries first, so that the event stream can subscribe to their cards. */
  async #begin(): Promise<void> {
    try {
      await this.#requestState();
      this.#isStale = false;
      for (const pair of this.#pairs) void this.#requestBoard(pair);
      this.#later(2 * SETTLE);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Set the boards to subscribe to. */
  watch(pairs: readonly Pair[]): void {
    const known = new Set(this.#pairs.map(pairKey));
    this.#pairs = [...new Map(pairs.map((pair) => [pairKey(pair), pair])).values()];
    for (const pair of this.#pairs) if (!known.has(pairKey(pair))) void this.#requestBoard(pair);
    this.#later(SETTLE);
  }

  /** Reconnect at once. */
  renew(): void {
    this.#isStale = true;
    this.#reopen();
  }

  #reopen(): void {
    this.#close();
    this.#open();
  }

  #watched(): Pair[] {
    const settled = this.#pairs.map((pair) => this.#store.settle(pair));
    const grouped = (pair: Pair) => (this.#store.queries.get(pair.query)?.groups.length ?? 0) > 0;
    return settled.filter((pair) => pair.group !== null || !grouped(pair));
  }

  #later(delay: number): void {
    clearTimeout(this.#wait);
    this.#wait = window.setTimeout(() => {
      if (!this.#isRunning || document.hidden) return;
      const isSame = this.#subscribed === JSON.stringify(this.#watched());
      if (this.#source && this.#source.readyState !== EventSource.CLOSED && isSame) return;
      this.#reopen();
    }, delay);
  }

  #open(): void {
    clearTimeout(this.#wait);
    const watched = this.#watched();
    this.#subscribed = JSON.stringify(watched);
    this.#lastEvent = Date.now();
    const source = new EventSource(this.#api.eventsAddress(watched.map(({ query, group }) => [query, group])));
    this.#source = source;
    source.onopen = () => {
      if (this.#source !== source) return;
      this.#lastEvent = Date.now();
      void this.#requestAll();
    };
    source.onerror = () => {
      if (this.#source !== source) return;
      this.#isStale = true;
      this.#store.setLink("lost", this.#store.refusal);
      if (source.readyState === EventSource.CLOSED) void this.#requestReason();
    };
    this.#on<{ [query: string]: Summary }>(source, "summary", (changed) => {
      this.#summarised(changed, false);
      // An empty card gets its group with the first answer.
      for (const pair of this.#pairs) {
        if (pair.query in changed && !this.#store.board(this.#store.settle(pair))) void this.#requestBoard(pair);
      }
    });
    this.#on<Board>(source, "board", (board) => this.#store.receiveBoard(board));
    this.#on<Engine>(source, "engine", (engine) => this.#store.receiveEngine(engine));
    this.#on<unknown>(source, "state", () => void this.#requestState());
    this.#on<unknown>(source, "end", () => this.#store.setEnded());
  }

  #on<T>(source: EventSource, name: string, receive: (data: T) => void): void {
    source.addEventListener(name, (event) => {
      if (this.#source !== source) return;
      this.#lastEvent = Date.now();
      try {
        receive(JSON.parse((event as MessageEvent<string>).data || "null") as T);
      } catch {
        // Skip an event that cannot be parsed.
      }
    });
  }

  #close(): void {
    this.#source?.close();
    this.#source = null;
  }

  /** On every connection, request everything: what changed between two connections is in the events of neither. */
  async #requestAll(): Promise<void> {
    try {
      const isStale = this.#isStale;
      if (isStale) this.#store.age();
      await this.#requestState();
      if (isStale) {
        this.#isStale = false;
        this.#later(SETTLE); // the queries and their groups may have changed
      }
      this.#store.setLink("open");
      const [engine] = await Promise.all([this.#api.engine(), ...this.#pairs.map((pair) => this.#requestBoard(pair))]);
      this.#store.receiveEngine({ trail: [], ...engine });
    } catch (error) {
      this.#fail(error);
    }
  }

  async #requestState(): Promise<void> {
    const [state, summaries] = await Promise.all([this.#api.state(), this.#api.summaries()]);
    this.#store.setState(state);
    this.#summarised(summaries, true);
  }

  #summarised(summaries: { [query: string]: Summary }, isWhole: boolean): void {
    if (isWhole) this.#answered.clear();
    for (const name of Object.keys(summaries)) this.#answered.add(name);
    this.#store.receiveSummaries(summaries, isWhole);
  }

  async #requestBoard(pair: Pair): Promise<void> {
    const key = pairKey(pair);
    if (!this.#store.state || this.#loading.has(key)) return;
    if (!this.#answered.has(pair.query)) return this.#store.setMissing(this.#store.settle(pair), "");
    this.#loading.add(key);
    await this.#loadBoard(pair);
    this.#loading.delete(key);
  }

  async #loadBoard(pair: Pair): Promise<void> {
    const settled = this.#store.settle(pair);
    try {
      const board = await this.#api.board(settled.query, settled.group);
      if (pair.group === null && settled.group === null && board.group !== null) {
        this.#store.setSettled(pair.query, board.group);
        this.#later(SETTLE);
      }
      this.#store.receiveBoard(board);
    } catch (error) {
      if (!(error instanceof ApiError) || !error.isAnswer) return;
      if (error.status === 404 && pair.group === null && settled.group !== null) {
        this.#store.settled.delete(pair.query);
        return this.#loadBoard(pair);
      }
      this.#store.setMissing(settled, error.message);
    }
  }

  /** A rejected EventSource gives no reason, but an ordinary request does. */
  async #requestReason(): Promise<void> {
    try {
      await this.#api.state();
      this.#store.setLink("lost");
    } catch (error) {
      this.#fail(error);
    }
    this.#later(AGAIN);
  }

  #fail(error: unknown): void {
    const why = error instanceof ApiError && error.status === 403 ? error.message : null;
    this.#store.setLink("lost", why);
    this.#later(AGAIN);
  }

  #checkSilence(): void {
    if (!this.#isRunning || document.hidden || !this.#source) return;
    const isConnecting = this.#source.readyState === EventSource.CONNECTING;
    if (isConnecting && Date.now() - this.#lastEvent > SILENCE) this.renew();
  }

  #onVisibility(): void {
    clearTimeout(this.#hidden);
    if (document.hidden) this.#hidden = window.setTimeout(() => this.#close(), HIDDEN);
    else if (!this.#source) this.renew();
  }
}
