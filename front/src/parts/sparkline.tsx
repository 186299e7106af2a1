/** A small line chart without axes: the recent values of a number. */

import { memo } from "./memo";
import { sparkPath } from "../logic/shapes";
import type { Amount } from "../types";

interface Props {
  values: readonly Amount[];
  width: number;
  height: number;
}

export const Sparkline = memo(function Sparkline({ values, width, height }: Props) {
  return (
    <svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true" focusable="false">
      <path d={sparkPath(values, width, height)} />
    </svg>
  );
});
