/** The visible rows of a long list. All rows have the same height, so it is computed. */

export interface Span {
  /** The first row drawn, and the row after the last one drawn. */
  first: number;
  last: number;
  /** Empty space above and below, in pixels. */
  before: number;
  after: number;
}

export function visible(count: number, height: number, top: number, room: number, spare = 6): Span {
  if (count <= 0) return { first: 0, last: 0, before: 0, after: 0 };
  const highest = Math.max(0, count * height - room);
  const from = Math.min(Math.max(0, top), highest);
  const first = Math.max(0, Math.floor(from / height) - spare);
  const last = Math.min(count, Math.ceil((from + room) / height) + spare);
  return { first, last, before: first * height, after: (count - last) * height };
}

/** The scroll position that makes a row fully visible; unchanged if it is visible already. */
export function reveal(index: number, height: number, top: number, room: number): number {
  const begin = index * height;
  if (begin < top) return begin;
  if (begin + height > top + room) return begin + height - room;
  return top;
}

/** The index that a key selects in a list; null if the key does not navigate. */
export function step(key: string, at: number, count: number, page: number): number | null {
  if (count === 0) return null;
  const bounded = (index: number) => Math.min(count - 1, Math.max(0, index));
  switch (key) {
    case "ArrowDown":
      return bounded(at + 1);
    case "ArrowUp":
      return bounded(at - 1);
    case "PageDown":
      return bounded(at + page);
    case "PageUp":
      return bounded(at - page);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}
