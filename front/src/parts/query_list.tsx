/** The list of queries at the side, with the score of the last rank over time. It can have thousands of entries. */

import { useLayoutEffect, useState } from "preact/hooks";
import { useKey, usePage, useVirtual } from "../context";
import { formatShort, shortWindow } from "../logic/values";
import { step } from "../logic/virtual";
import type { Query } from "../types";
import { Sparkline } from "./sparkline";
import { Data } from "./text";

const HEIGHT = 54; // as --entry in the style sheet

interface Props {
  queries: readonly Query[];
  shown: ReadonlySet<string>;
  onToggle: (name: string) => void;
}

export function QueryList({ queries, shown, onToggle }: Props) {
  const { scroller, span, show, room } = useVirtual(queries.length, HEIGHT);
  const [at, point] = useState(0);
  const here = Math.min(at, Math.max(0, queries.length - 1));
  useLayoutEffect(() => show(here), [here]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      const query = queries[here];
      if (query) onToggle(query.name);
      return;
    }
    const next = step(event.key, here, queries.length, Math.max(1, Math.floor(room() / HEIGHT) - 1));
    if (next === null) return;
    event.preventDefault();
    point(next);
  };

  return (
    <div class="query-list" ref={scroller} tabIndex={-1}>
      <ul
        role="listbox"
        aria-label="Queries to show as cards"
        aria-multiselectable="true"
        tabIndex={0}
        aria-activedescendant={queries[here] ? `query-${here}` : undefined}
        style={{ height: `${queries.length * HEIGHT}px` }}
        onKeyDown={onKeyDown}
      >
        {queries.slice(span.first, span.last).map((query, offset) => {
          const index = span.first + offset;
          return (
            <Entry
              key={query.name}
              query={query}
              index={index}
              count={queries.length}
              isHere={index === here}
              isShown={shown.has(query.name)}
              onToggle={() => {
                point(index);
                onToggle(query.name);
              }}
            />
          );
        })}
      </ul>
    </div>
  );
}

interface EntryProps {
  query: Query;
  index: number;
  count: number;
  isHere: boolean;
  isShown: boolean;
  onToggle: () => void;
}

function Entry({ query, index, count, isHere, isShown, onToggle }: EntryProps) {
  const { store } = usePage();
  useKey(`summary ${query.name}`);
  const summary = store.summaries.get(query.name);
  return (
    <li
      id={`query-${index}`}
      role="option"
      class={isHere ? "entry here" : "entry"}
      aria-selected={isShown}
      aria-posinset={index + 1}
      aria-setsize={count}
      style={{ transform: `translateY(${index * HEIGHT}px)` }}
      onClick={onToggle}
    >
      <span class="tick" aria-hidden="true" />
      <span class="entry-name">
        <Data value={query.name} longest={80} />
        <span class="muted">
          Top {query.k.toLocaleString("en-GB")} over {shortWindow(query.window)}
        </span>
      </span>
      {summary && (
        <span class="entry-trend">
          <Sparkline values={summary.trend} width={64} height={20} />
          <span class="muted number">{formatShort(summary.last)}</span>
        </span>
      )}
    </li>
  );
}
