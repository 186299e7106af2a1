/** The state of the view in the URL fragment, so that every view can be linked. The token is removed from it. */

import type { Group, Pair, Value } from "../types";

export const VIEWS = ["boards", "time", "compare", "engine", "workload"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  /** The cards on the page; null stands for the first queries. */
  cards: Pair[] | null;
  find: string;
  /** The query, group and moment of the time view, and of the first side of a comparison. */
  query: string | null;
  group: Group | null;
  /** The moment as written in the URL; null follows the newest window. */
  at: string | null;
  /** The group and the moment of the second side of a comparison; without a group, that of the first side. */
  toGroup: Group | null;
  to: string | null;
  /** The number of windows in the charts. */
  last: number | null;
  /** The column that names objects; null for the one of the query, an empty text for the ids. */
  label: string | null;
  /** The row whose details are open. */
  row: RowPlace | null;
  stream: string | null;
}

/** A row of a card or of the chosen window. */
export interface RowPlace {
  query: string;
  id: Value;
}

export const HOME: Route = {
  view: "boards",
  cards: null,
  find: "",
  query: null,
  group: null,
  at: null,
  toGroup: null,
  to: null,
  last: null,
  label: null,
  row: null,
  stream: null,
};

export function readRoute(fragment: string): Route {
  const [path = "", search = ""] = fragment.replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = (VIEWS as readonly string[]).includes(path) ? (path as View) : "boards";
  const given = new URLSearchParams(search);
  const cards = given.getAll("card").map(readPair).filter((pair): pair is Pair => pair !== null);
  const last = Number(given.get("last"));
  return {
    view,
    cards: cards.length > 0 ? cards : given.has("no-cards") ? [] : null,
    find: given.get("find") ?? "",
    query: given.get("query"),
    group: readGroup(given.get("group")),
    at: given.get("at"),
    toGroup: readGroup(given.get("to-group")),
    to: given.get("to"),
    last: Number.isInteger(last) && last > 0 && last <= 2000 ? last : null,
    label: given.get("label"),
    row: readRow(given.get("row")),
    stream: given.get("stream"),
  };
}

export function writeRoute(route: Route): string {
  const given = new URLSearchParams();
  const set = (name: string, value: string | number | null) => value !== null && given.set(name, String(value));
  if (route.view === "boards") {
    for (const card of route.cards ?? []) given.append("card", writePair(card));
    if (route.cards?.length === 0) given.set("no-cards", "");
    if (route.find) given.set("find", route.find);
  } else if (route.view === "time" || route.view === "compare") {
    set("query", route.query);
    set("group", route.group && JSON.stringify(route.group));
    set("at", route.at);
    if (route.view === "time") set("last", route.last);
    else {
      set("to-group", route.toGroup && JSON.stringify(route.toGroup));
      set("to", route.to);
    }
  } else if (route.view === "engine") {
    set("stream", route.stream);
  }
  if (route.view === "time" || route.view === "compare") set("label", route.label);
  if (["boards", "time", "compare"].includes(route.view)) {
    set("row", route.row && JSON.stringify([route.row.query, route.row.id]));
  }
  const search = given.toString();
  return `#/${route.view}${search ? `?${search}` : ""}`;
}

function readRow(text: string | null): RowPlace | null {
  try {
    const read: unknown = JSON.parse(text ?? "null");
    return Array.isArray(read) && typeof read[0] === "string" && read.length === 2 ? { query: read[0], id: read[1] as Value } : null;
  } catch {
    return null;
  }
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
