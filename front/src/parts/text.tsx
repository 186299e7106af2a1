/** Text from the data: isolated from the text direction of the page, and clipped to a readable length. */

import { clip, textOf } from "../logic/values";
import type { Value } from "../types";

export function Data({ value, longest = 160 }: { value: Value | undefined; longest?: number }) {
  return <bdi>{clip(textOf(value), longest)}</bdi>;
}

export function Icon({ name }: { name: keyof typeof SHAPES }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={SHAPES[name]} />
    </svg>
  );
}

const SHAPES = {
  close: "M4 4l8 8M12 4l-8 8",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 5v3.2l2.2 1.6",
  back: "M10.5 3.5L6 8l4.5 4.5",
  forth: "M5.5 3.5L10 8l-4.5 4.5",
  play: "M5 3.2v9.6L12.5 8z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.4 10.4l3.1 3.1",
  chevron: "M4 6.2l4 4l4-4",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
} as const;
