/** A uPlot chart that fits its box, uses the colours of the style sheet and has a text for screen readers. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useColours, useWidth } from "../context";
import { formatAmount, formatTick } from "../logic/values";

/** The width of the scale at the left. */
export const AXIS = 58;

export interface Line {
  label: string;
  /** The name of a colour in the style sheet. */
  colour: string;
  width?: number;
  isFilled?: boolean;
  dash?: number[];
}

interface Props {
  /** The text for screen readers. */
  label: string;
  data: uPlot.AlignedData;
  lines: Line[];
  height: number;
  isTime: boolean;
  format: (value: number) => string;
  /** A moment to mark. */
  mark?: number | null;
  onPick?: (x: number) => void;
  onPoint?: (index: number | null) => void;
  isSmall?: boolean;
  /** The space at the right, in pixels. */
  right?: (width: number) => number;
}

export function Plot(given: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const colours = useColours();
  const drawn = useRef<uPlot | null>(null);
  const now = useRef(given);
  now.current = given;

  useLayoutEffect(() => {
    if (!box.current || width < 40) return;
    const plot = new uPlot(optionsOf(now, width, box.current), now.current.data, box.current);
    drawn.current = plot;
    return () => {
      plot.destroy();
      drawn.current = null;
    };
  }, [width, colours, given.isTime, given.height]);

  useEffect(() => {
    if (!document.hidden) drawn.current?.setData(given.data);
  }, [given.data]);
  useEffect(() => drawn.current?.redraw(false), [given.mark]);

  return <div class="plot" ref={box} role="img" aria-label={given.label} style={{ height: `${given.height}px` }} />;
}

/** A filled area starts at zero, so that its size is not misleading. */
function fromZero(_plot: uPlot, _low: number | null, high: number | null): [number, number] {
  return [0, high !== null && high > 0 ? high * 1.1 : 1];
}

function optionsOf(now: { current: Props }, width: number, box: HTMLElement): uPlot.Options {
  const style = getComputedStyle(box);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const { lines, height, isTime, isSmall } = now.current;
  const font = `11px ${style.fontFamily}`;
  const axis: uPlot.Axis = {
    stroke: colour("--muted"),
    font,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    gap: 6,
  };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, now.current.right?.(width) ?? 8, isSmall ? 4 : 0, 0],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { x: { time: isTime }, ...(isSmall && { y: { range: fromZero } }) },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 6 },
      bind: {
        click: (plot, _target, handler) => (event) => {
          handler(event);
          const index = plot.cursor.idx;
          const x = typeof index === "number" ? plot.data[0][index] : undefined;
          if (x !== undefined) now.current.onPick?.(x);
          return null;
        },
      },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        space: 54,
        values: (_plot, splits, _axis, _space, distance) =>
          splits.map((value) => (isTime ? formatTick(value, distance) : formatAmount(value))),
      },
      { ...axis, size: AXIS, space: isSmall ? 26 : 36, values: (_plot, splits) => splits.map((value) => now.current.format(value)) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: line.width ?? 1.5,
        ...(line.dash && { dash: line.dash }),
        ...(line.isFilled && { fill: colour("--accent-faint") }),
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: {
      setCursor: [(plot) => now.current.onPoint?.(plot.cursor.idx ?? null)],
      draw: [
        (plot) => {
          const mark = now.current.mark;
          if (mark === null || mark === undefined) return;
          const x = Math.round(plot.valToPos(mark, "x", true));
          const pen = plot.ctx;
          pen.save();
          pen.strokeStyle = colour("--text");
          pen.lineWidth = devicePixelRatio;
          pen.beginPath();
          pen.moveTo(x, plot.bbox.top);
          pen.lineTo(x, plot.bbox.top + plot.bbox.height);
          pen.stroke();
          pen.restore();
        },
      ],
    },
  };
}
