/** Search for queries by words. Every word must occur; case and accents are ignored. */

import type { Query } from "../types";

const folded = new WeakMap<Query, string>();

export function fold(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

function haystack(query: Query): string {
  let found = folded.get(query);
  if (found === undefined) {
    found = fold([query.name, query.stream, query.family, query.by ?? "", query.window, ...query.groups].join(" "));
    folded.set(query, found);
  }
  return found;
}

export function findQueries(queries: readonly Query[], text: string): readonly Query[] {
  const words = fold(text).split(/\s+/).filter(Boolean);
  if (words.length === 0) return queries;
  return queries.filter((query) => words.every((word) => haystack(query).includes(word)));
}
