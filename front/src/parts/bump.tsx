/** A chart of ranks over time: one line for each object of the newest windows. */

import { useMemo } from "preact/hooks";
import { useWidth } from "../context";
import { keysOf } from "../logic/moves";
import { bumpTrace, nearest, spread, ticksOf } from "../logic/shapes";
import { clip, formatAxis, formatDay, nameOf, positionOf } from "../logic/values";
import type { History, Moment } from "../types";
import { AXIS } from "./plot";

interface Props {
  history: History;
  k: number;
  at: Moment;
  marked: string | null;
  onMark: (key: string | null) => void;
  onPick: (moment: Moment) => void;
}

const LEFT = AXIS; // aligns the time axes of both charts of the time view
const TOP = 14;
const FOOT = 24;
const NAME = 12; // the distance of a name from the end of its line, and from the edge
const LONGEST = 40; // characters of a name

/** The width of the names at the right. */
export function labelRoom(width: number): number {
  return width > 560 ? 120 : 76;
}

export function Bump({ history, k, at, marked, onMark, onPick }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const right = labelRoom(width);
  const { moments, objects } = history;
  const lowest = useMemo(() => Math.max(1, ...objects.flatMap(({ ranks }) => ranks.map((rank) => rank ?? 0))), [history]);
  const ranks = Math.min(Math.max(lowest, Math.min(k, 50)), 50);
  const height = Math.min(520, Math.max(200, ranks * 24)) + TOP + FOOT;
  const inner = Math.max(10, width - LEFT - right);
  const places = useMemo(() => moments.map(positionOf), [history]);
  const first = places[0] ?? 0;
  const length = (places.at(-1) ?? 0) - first;
  const x = (index: number) => LEFT + (length > 0 ? (((places[index] ?? 0) - first) * inner) / length : inner);
  const gaps = useMemo(() => new Set(history.gaps ?? []), [history]);
  const y = (rank: number) => TOP + ((rank - 0.5) * (height - TOP - FOOT)) / ranks;
  const keys = useMemo(() => keysOf(objects), [history]);
  const traces = useMemo(
    () => objects.map(({ ranks: own }) => bumpTrace(own.map((rank) => (rank !== null && rank <= ranks ? rank : null)), x, y, gaps)),
    [history, width, height],
  );
  const names = useMemo(() => objects.map((object) => fitting(nameOf(object), right - NAME)), [history, right]);
  const now = moments.findIndex((moment) => String(moment) === String(at));
  const leader = objects.findIndex(({ ranks: own }) => own[now < 0 ? own.length - 1 : now] === 1);
  const chosen = marked ?? keys[leader] ?? null;
  const labels = spread(ranks, Math.floor((height - TOP - FOOT) / 20));

  const indexAt = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const place = event.clientX - event.currentTarget.getBoundingClientRect().left;
    return nearest(places, first + ((place - LEFT) * length) / inner);
  };
  const objectAt = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const place = event.clientY - event.currentTarget.getBoundingClientRect().top;
    const index = indexAt(event);
    let best: string | null = null;
    let distance = 14;
    objects.forEach(({ ranks: own }, object) => {
      const rank = own[index];
      if (rank === null || rank === undefined || rank > ranks) return;
      const away = Math.abs(y(rank) - place);
      if (away < distance) [best, distance] = [keys[object] as string, away];
    });
    return best;
  };

  return (
    <div class="bump" ref={box} style={{ minHeight: `${height}px` }}>
      {width > 0 && (
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={`Ranks of ${objects.length} objects over ${moments.length} windows. The table lists the ranks of one window.`}
          onMouseMove={(event) => onMark(objectAt(event))}
          onMouseLeave={() => onMark(null)}
          onClick={(event) => {
            const moment = moments[indexAt(event)];
            if (moment !== undefined) onPick(moment);
          }}
        >
          {labels.map((index) => (
            <text key={index} class="axis" x={LEFT - 10} y={y(index + 1)} text-anchor="end" dominant-baseline="central">
              {index + 1}
            </text>
          ))}
          {ticksOf(places, Math.max(2, Math.floor(inner / 110))).map((index) => (
            <text key={`t${index}`} class="axis" x={x(index)} y={height - 6} text-anchor={index === 0 ? "start" : index === moments.length - 1 ? "end" : "middle"}>
              {formatAxis(moments[index], length)}
              {index === 0 && <title>{formatDay(moments[index])}</title>}
            </text>
          ))}
          {now >= 0 && <line class="now" x1={x(now)} x2={x(now)} y1={TOP - 6} y2={height - FOOT + 2} />}
          {traces.map((trace, index) => {
            const key = keys[index] as string;
            return <Trace key={key} {...trace} isChosen={key === chosen} isQuiet={marked !== null && key !== marked} text={names[index] ?? ""} />;
          })}
          {traces.map((trace, index) => keys[index] === chosen && <Trace key="chosen" {...trace} isChosen isQuiet={false} text={names[index] ?? ""} />)}
        </svg>
      )}
    </div>
  );
}

let pen: CanvasRenderingContext2D | null = null;
const fitted = new Map<string, string>();

/** The beginning of a name that fits into so many pixels in the font of the chosen line, which is the widest. */
function fitting(name: string, room: number): string {
  const key = `${room} ${clip(name, LONGEST)}`;
  const known = fitted.get(key);
  if (known !== undefined) return known;
  if (!pen) {
    pen = document.createElement("canvas").getContext("2d");
    if (pen) pen.font = `600 12px ${getComputedStyle(document.body).fontFamily}`;
  }
  let text = clip(name, LONGEST);
  for (let end = text.length - 1; pen && end > 0 && pen.measureText(text).width > room; end -= 1) text = clip(name, end);
  if (fitted.size > 1000) fitted.clear();
  fitted.set(key, text);
  return text;
}

interface TraceProps {
  path: string;
  dots: [number, number][];
  end: [number, number] | null;
  isChosen: boolean;
  isQuiet: boolean;
  text: string;
}

function Trace({ path, dots, end, isChosen, isQuiet, text }: TraceProps) {
  return (
    <g class={isChosen ? "trace chosen" : isQuiet ? "trace quiet" : "trace"}>
      <path d={path} />
      {dots.map(([x, y], index) => (
        <circle key={index} cx={x} cy={y} r={isChosen ? 3 : 2} />
      ))}
      {end && <circle cx={end[0]} cy={end[1]} r={isChosen ? 4 : 2.5} />}
      {end && (
        <text x={end[0] + NAME - 2} y={end[1]} dominant-baseline="central">
          {text}
        </text>
      )}
    </g>
  );
}
