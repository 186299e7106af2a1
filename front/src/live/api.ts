/** Requests to the server of the page. */

import type { Board, Engine, Explained, Group, History, Moment, Plan, State, Summary } from "../types";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }

  /** Whether the server responded, as opposed to a network error. */
  get isAnswer(): boolean {
    return this.status > 0;
  }
}

type Params = { [name: string]: string | number | null | undefined };

export class Api {
  constructor(public token: string | null) {}

  state = () => this.#get<State>("state");
  summaries = () => this.#get<{ [query: string]: Summary }>("summaries");
  engine = () => this.#get<Engine>("engine");
  plan = (stream: string) => this.#get<Plan>("plan", { stream });

  board = (query: string, group: Group | null, moment: Moment | null = null, label: string | null = null) =>
    this.#get<Board>("board", { query, group: asText(group), moment, label });

  groups = (query: string, like: string) =>
    this.#get<{ total: number; groups: Group[] }>("groups", { query, like: like || null, limit: 200 });

  moments = (query: string, group: Group | null) =>
    this.#get<{ moments: Moment[]; dropped: number }>("moments", { query, group: asText(group) });

  history = (query: string, group: Group | null, last: number, label: string | null = null) =>
    this.#get<History>("history", { query, group: asText(group), last, label });

  explain = (sql: string, stream: string | null) => this.#post<Explained>("explain", { sql, stream });
  add = (sql: string, stream: string | null) => this.#post<{ done: string }>("add", { sql, stream });
  drop = (name: string) => this.#post<{ done: string }>("drop", { name });

  /** The URL of the events. An EventSource cannot send headers, so the token is a parameter. */
  eventsAddress(watch: [string, Group | null][]): string {
    const given = new URLSearchParams({ watch: JSON.stringify(watch) });
    if (this.token !== null) given.set("token", this.token);
    return `/api/events?${given}`;
  }

  /** The rows of a window as a file. */
  async file(query: string, group: Group | null, moment: Moment, format: "csv" | "parquet"): Promise<Blob> {
    const given = new URLSearchParams({ query, from: String(moment), to: String(moment), format });
    if (group !== null) given.set("group", JSON.stringify(group));
    const headers: HeadersInit = this.token === null ? {} : { "X-Skyband-Token": this.token };
    const answer = await fetch(`/api/v1/answers?${given}`, { headers, credentials: "omit" });
    if (!answer.ok) throw new ApiError(answer.status, `The server responded with status ${answer.status}.`);
    return answer.blob();
  }

  #get<T>(path: string, params: Params = {}): Promise<T> {
    const given = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) {
      if (value !== null && value !== undefined) given.set(name, String(value));
    }
    const search = given.toString();
    return this.#request<T>(`/api/${path}${search ? `?${search}` : ""}`, {});
  }

  #post<T>(path: string, body: { [name: string]: string | null }): Promise<T> {
    const kept = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
    return this.#request<T>(`/api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(kept),
    });
  }

  async #request<T>(address: string, options: RequestInit): Promise<T> {
    const headers = new Headers(options.headers);
    if (this.token !== null) headers.set("X-Skyband-Token", this.token);
    let answer: Response;
    try {
      const signal = AbortSignal.timeout(options.method === "POST" ? 120_000 : 20_000);
      answer = await fetch(address, { ...options, headers, signal, credentials: "omit", cache: "no-store" });
    } catch {
      throw new ApiError(0, "The server is not responding.");
    }
    let read: unknown = null;
    try {
      read = await answer.json();
    } catch {
      // A response without JSON is reported by its status.
    }
    if (!answer.ok) throw new ApiError(answer.status, errorOf(read) ?? `The server responded with status ${answer.status}.`);
    return read as T;
  }
}

function asText(group: Group | null): string | null {
  return group === null ? null : JSON.stringify(group);
}

function errorOf(read: unknown): string | null {
  if (typeof read === "object" && read !== null && "error" in read) return String(read.error);
  return null;
}
