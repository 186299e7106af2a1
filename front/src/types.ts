/** The types of the server's JSON. Numbers that a browser cannot hold exactly are text; times are ISO 8601 in UTC. */

export type Value = string | number | boolean | null | Value[] | { [key: string]: Value };
export type Amount = number | string | null;
export type Moment = string | number;
export type Group = Value[];
export type Family = "topk" | "aggregate" | "incomplete" | "uncertain";

export interface Query {
  name: string;
  stream: string;
  family: Family;
  k: number;
  window: string;
  text: string | null;
  groups: string[];
  by: string | null;
  axis: "time" | "count";
  ascending?: boolean;
  columns: string[];
  /** The column that names objects; null: their ids. */
  label?: string | null;
}

export interface Stream {
  name: string;
  family: Family;
  axis: "time" | "count";
  queries: string[];
}

export interface State {
  title: string;
  version: string;
  live: boolean;
  ended: boolean;
  control: boolean;
  streams: Stream[];
  queries: Query[];
}

export interface Summary {
  moment: Moment;
  windows: number;
  /** Windows that are no longer in memory. */
  dropped?: number;
  groups: number;
  first: Amount;
  last: Amount;
  rows: number;
  trend: Amount[];
}

/** How a row moved since the previous window; in a comparison, "left" marks the rows that the other window lacks. */
export type Move = "entered" | "up" | "down" | "same" | "left";

export interface Row {
  rank: number;
  id: Value;
  score: Amount;
  move: Move;
  old_rank: number | null;
  probability?: Amount;
  best?: Amount;
  sure?: boolean | null;
  /** Whether the window is final. Later rows can still change one that is not. */
  final?: boolean | null;
  label?: Value;
  details: { [column: string]: Value };
}

export interface Left {
  id: Value;
  label?: Value;
  old_rank: number;
  score: Amount;
}

export interface Board {
  query: string;
  group: Group | null;
  moment: Moment;
  start: Moment | null;
  previous: Moment | null;
  next: Moment | null;
  newest: Moment;
  /** Windows between the previous one and this one that cannot be read. */
  dropped?: number;
  rows: Row[];
  left: Left[];
}

export interface History {
  moments: Moment[];
  /** Indexes of the windows that do not follow directly after the one before. */
  gaps?: number[];
  /** Windows between the first and the last that are no longer in memory. */
  dropped?: number;
  first: Amount[];
  last: Amount[];
  objects: { id: Value; label?: Value; ranks: (number | null)[] }[];
}

export interface StreamFigures {
  files?: number | null;
  rows?: number | null;
  rows_per_second?: number | null;
  late?: number | null;
  dropped_null?: number | null;
  malformed?: number | null;
  unreadable?: number | null;
  pruned?: number | null;
  windows?: number | null;
  answers?: number | null;
  batches?: number | null;
  candidates?: number | null;
  bound?: number | null;
  state_bytes?: number | null;
  emit_lag?: number | null;
  restarts?: number | null;
  changes?: number | null;
  queries?: number | null;
  algorithm?: string | null;
  share_factor?: number | null;
  views?: number | null;
  lags?: { [stream: string]: number | null } | null;
}

export type Trail = "rows_per_second" | "candidates" | "state_bytes" | "emit_lag";
export interface TrailPoint {
  at: string | number;
  [stream: string]: string | number | { [key in Trail]?: number | null };
}

export interface Engine {
  streams: { [name: string]: StreamFigures };
  trail?: TrailPoint[];
}

export interface Lane {
  label: string;
  kind: "view" | "group";
  k: number;
  begin: Moment;
  end: Moment;
  queries: string[];
  /** The number of further queries it serves. */
  more_queries?: number;
}

export interface Plan {
  stream: string;
  family: Family;
  text: string | null;
  lanes: Lane[];
  unit: "seconds" | "objects";
  /** The number of lanes that are not listed. */
  more?: number;
  share_factor: number | null;
  cost: Value;
}

export interface Explained {
  text: string;
  name: string;
  stream: string;
  cost: Value;
  error?: string;
}

/** A card: a query and one of its groups; null stands for the group with the newest answer. */
export interface Pair {
  query: string;
  group: Group | null;
}
