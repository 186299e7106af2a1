/** The plan on a time line: one lane per view or scheduled run, with the queries it serves. */

import { useMemo, useState } from "preact/hooks";
import { useVirtual } from "../context";
import { formatAmount, formatClock, formatSeconds, positionOf } from "../logic/values";
import { step } from "../logic/virtual";
import type { Lane, Plan } from "../types";
import { Data } from "./text";

const HEIGHT = 30;
const MOST = 60;

export function PlanLines({ plan }: { plan: Plan }) {
  const { lanes } = plan;
  const [at, point] = useState(0);
  const [hovered, hover] = useState<number | null>(null);
  const { scroller, span, show } = useVirtual(lanes.length, HEIGHT);
  const range = useMemo(() => {
    const begin = Math.min(...lanes.map((lane) => positionOf(lane.begin)));
    const end = Math.max(...lanes.map((lane) => positionOf(lane.end)));
    return { begin, width: Math.max(end - begin, 1e-9) };
  }, [lanes]);
  const hasNow = range.begin < 0 && range.begin + range.width > 0;
  const here = Math.min(at, lanes.length - 1);
  const chosen = lanes[hovered ?? here];
  const others = chosen ? Math.max(0, chosen.queries.length - MOST) + (chosen.more_queries ?? 0) : 0;
  const served = useMemo(() => new Set(chosen?.queries), [chosen]);
  const place = (lane: Lane) => {
    const from = (positionOf(lane.begin) - range.begin) / range.width;
    const to = (positionOf(lane.end) - range.begin) / range.width;
    return { left: `${from * 100}%`, width: `max(3px, ${(to - from) * 100}%)` };
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const next = step(event.key, here, lanes.length, 8);
    if (next === null) return;
    event.preventDefault();
    hover(null);
    show(next);
    point(next);
  };

  return (
    <div class="plan">
      <div class="lanes-scroll" ref={scroller} tabIndex={-1} style={{ height: `${Math.min(12, lanes.length) * HEIGHT}px` }}>
        <ul
          class="lanes"
          role="listbox"
          aria-label={lanes[0]?.kind === "group" ? "Scheduled runs" : "Views of the meta query"}
          tabIndex={0}
          aria-activedescendant={`lane-${here}`}
          style={{ height: `${lanes.length * HEIGHT}px` }}
          onKeyDown={onKeyDown}
          onMouseLeave={() => hover(null)}
        >
          {lanes.slice(span.first, span.last).map((lane, offset) => {
            const index = span.first + offset;
            const isAgain = index > span.first && lanes[index - 1]?.label === lane.label;
            const count = lane.queries.length + (lane.more_queries ?? 0);
            const isRelated = index !== (hovered ?? here) && lane.queries.some((name) => served.has(name));
            return (
              <li
                key={index}
                id={`lane-${index}`}
                role="option"
                class={`lane${lane === chosen ? " chosen" : ""}${isRelated ? " related" : ""}`}
                aria-selected={index === here}
                aria-posinset={index + 1}
                aria-setsize={lanes.length}
                style={{ transform: `translateY(${index * HEIGHT}px)` }}
                onMouseEnter={() => hover(index)}
                onClick={() => point(index)}
              >
                <span class={isAgain ? "lane-label again" : "lane-label"}>
                  <Data value={lane.label} longest={40} />
                </span>
                <span class="lane-track">
                  {hasNow && <span class="lane-now" style={{ left: `${(-range.begin / range.width) * 100}%` }} />}
                  <span class="lane-bar" style={place(lane)} />
                </span>
                <span class="lane-facts number muted">
                  k {lane.k.toLocaleString("en-GB")} · {count.toLocaleString("en-GB")} {count === 1 ? "query" : "queries"}
                </span>
              </li>
            );
          })}
        </ul>
      </div>
      <div class="lane-axis number muted" aria-hidden="true">
        {ticksOf(range.begin, range.begin + range.width).map((position) => (
          <span key={position} style={{ left: `${((position - range.begin) / range.width) * 100}%` }}>
            {tick(plan, position)}
          </span>
        ))}
      </div>
      {chosen && (
        <p class="served">
          <span class="muted">
            <Data value={chosen.label} longest={60} /> serves{" "}
          </span>
          {chosen.queries.slice(0, MOST).map((name) => (
            <span key={name} class="chip">
              <Data value={name} longest={60} />
            </span>
          ))}
          {others > 0 && <span class="muted">and {others.toLocaleString("en-GB")} more</span>}
        </p>
      )}
    </div>
  );
}

/** Both ends, and between them the current time or the middle. */
function ticksOf(begin: number, end: number): number[] {
  const hasNow = begin < 0 && end > 0;
  const middle = hasNow ? 0 : (begin + end) / 2;
  const width = end - begin;
  return [begin, middle, end].filter((one, index) => index !== 1 || (one - begin > 0.1 * width && end - one > 0.1 * width));
}

function tick(plan: Plan, position: number): string {
  if (plan.unit === "objects") return formatAmount(Math.round(position));
  if (typeof plan.lanes[0]?.begin === "string") return formatClock(new Date(position * 1000).toISOString());
  if (position > 1e8) return formatClock(new Date(position * 1000).toISOString());
  return Math.abs(position) < 1e-6 && plan.lanes[0]?.kind === "view" ? "now" : formatSeconds(position);
}
