/** The state of the view in the URL fragment, so that every view can be linked. The token is removed from it. */

import type { Group, Pair } from "../types";

export const VIEWS = ["boards", "time", "engine", "workload"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  /** The cards on the page; null stands for the first queries. */
  cards: Pair[] | null;
  find: string;
  /** The query, group and moment of the time view; the moment as written in the URL. */
  query: string | null;
  group: Group | null;
  at: string | null;
  stream: string | null;
}

export const HOME: Route = { view: "boards", cards: null, find: "", query: null, group: null, at: null, stream: null };

export function readRoute(fragment: string): Route {
  const [path = "", search = ""] = fragment.replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = (VIEWS as readonly string[]).includes(path) ? (path as View) : "boards";
  const given = new URLSearchParams(search);
  const cards = given.getAll("card").map(readPair).filter((pair): pair is Pair => pair !== null);
  return {
    view,
    cards: cards.length > 0 ? cards : given.has("no-cards") ? [] : null,
    find: given.get("find") ?? "",
    query: given.get("query"),
    group: readGroup(given.get("group")),
    at: given.get("at"),
    stream: given.get("stream"),
  };
}

export function writeRoute(route: Route): string {
  const given = new URLSearchParams();
  if (route.view === "boards") {
    for (const card of route.cards ?? []) given.append("card", writePair(card));
    if (route.cards?.length === 0) given.set("no-cards", "");
    if (route.find) given.set("find", route.find);
  } else if (route.view === "time") {
    if (route.query !== null) given.set("query", route.query);
    if (route.group !== null) given.set("group", JSON.stringify(route.group));
    if (route.at !== null) given.set("at", route.at);
  } else if (route.view === "engine") {
    if (route.stream !== null) given.set("stream", route.stream);
  }
  const search = given.toString();
  return `#/${route.view}${search ? `?${search}` : ""}`;
}

/** A query name as it is; with a group, or if the name starts with "[", the JSON list [name, group]. */
export function writePair(pair: Pair): string {
  const isPlain = pair.group === null && !pair.query.startsWith("[");
  return isPlain ? pair.query : JSON.stringify([pair.query, pair.group]);
}

export function readPair(text: string): Pair | null {
  if (!text.startsWith("[")) return { query: text, group: null };
  try {
    const read: unknown = JSON.parse(text);
    if (!Array.isArray(read) || typeof read[0] !== "string") return null;
    return { query: read[0], group: Array.isArray(read[1]) ? (read[1] as Group) : null };
  } catch {
    return null;
  }
}

function readGroup(text: string | null): Group | null {
  if (text === null) return null;
  try {
    const read: unknown = JSON.parse(text);
    return Array.isArray(read) ? (read as Group) : null;
  } catch {
    return null;
  }
}

/** The token in the fragment, and the fragment without it. */
export function takeToken(fragment: string): { token: string | null; rest: string } {
  const bare = fragment.replace(/^#/, "");
  if (bare.startsWith("token=")) {
    const [first = "", ...others] = bare.split("&");
    return { token: decodeURIComponent(first.slice("token=".length)), rest: others.length > 0 ? `#${others.join("&")}` : "#/" };
  }
  const [path = "", search = ""] = bare.split(/\?(.*)/s);
  const given = new URLSearchParams(search);
  const token = given.get("token");
  if (token === null) return { token: null, rest: fragment };
  given.delete("token");
  const left = given.toString();
  return { token, rest: `#${path}${left ? `?${left}` : ""}` };
}

export function pairKey(pair: Pair): string {
  return JSON.stringify([pair.query, pair.group]);
}
