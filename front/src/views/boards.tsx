/** Leaderboards: the list of queries at the side, and a card for each selected query. */

import { useCallback, useEffect, useMemo } from "preact/hooks";
import { useKey, usePage } from "../context";
import { pairKey, type Route } from "../logic/route";
import { findQueries } from "../logic/search";
import { clip } from "../logic/values";
import { Card } from "../parts/card";
import { QueryList } from "../parts/query_list";
import { CopyLink } from "../parts/take_away";
import { Icon } from "../parts/text";
import type { Group, Pair, Query } from "../types";

const AT_FIRST = 6;
const AT_MOST = 48;

export function Boards({ route }: { route: Route }) {
  const { store, link, go, announce } = usePage();
  useKey("state");
  const queries = store.state?.queries ?? NONE;
  const found = useMemo(() => findQueries(queries, route.find), [queries, route.find]);
  const wanted = useMemo(
    () => route.cards ?? queries.slice(0, AT_FIRST).map(({ name }) => ({ query: name, group: null })),
    [route.cards === null ? null : JSON.stringify(route.cards), queries],
  );
  const cards = wanted.slice(0, AT_MOST);
  const names = useMemo(() => new Set(wanted.map((card) => card.query)), [wanted]);

  useEffect(() => {
    link.watch(cards);
    store.keepOnly(cards.map((card) => store.settle(card)));
  }, [cards.map(pairKey).join("\n")]);

  const toggle = (name: string) => {
    const isShown = names.has(name);
    const next = isShown ? wanted.filter((card) => card.query !== name) : [{ query: name, group: null }, ...wanted];
    go({ cards: next }, "push");
    announce(`${clip(name, 80)}: card ${isShown ? "removed" : "added"}`);
  };
  const close = useCallback(
    (name: string) => {
      go({ cards: wanted.filter((card) => card.query !== name) }, "push");
      announce(`${clip(name, 80)}: card removed`);
    },
    [wanted],
  );
  const choose = useCallback(
    (name: string, group: Group) =>
      go({ cards: wanted.map((card) => (card.query === name ? { query: name, group } : card)) }, "push"),
    [wanted],
  );

  return (
    <div class="boards">
      <h1 class="unseen">Leaderboards</h1>
      <Side
        queries={queries}
        found={found}
        find={route.find}
        shown={names}
        onToggle={toggle}
        link={() => ({ ...route, cards: cards.map((card) => store.settle(card)), row: null })}
      />
      <section class="cards" aria-label="Leaderboards">
        {cards.map((card) => (
          <StableCard key={card.query} pair={card} query={store.queries.get(card.query)} onClose={close} onGroup={choose} />
        ))}
        {wanted.length > AT_MOST && <p class="muted">Only the first {AT_MOST} cards are shown.</p>}
        {store.state && cards.length === 0 && (
          <p class="hint">
            {queries.length === 0 ? "No queries yet." : "No cards. Select queries in the list to see their rankings."}
          </p>
        )}
      </section>
    </div>
  );
}

const NONE: Query[] = [];
const pairs = new Map<string, Pair>();

/** Pass the same pair object each time, so that a card is not redrawn when another one changes. */
function StableCard({ pair, ...others }: { pair: Pair; query: Query | undefined; onClose: (name: string) => void; onGroup: (name: string, group: Group) => void }) {
  const key = pairKey(pair);
  if (!pairs.has(key)) pairs.set(key, pair);
  return <Card pair={pairs.get(key) as Pair} {...others} />;
}

interface SideProps {
  queries: readonly Query[];
  found: readonly Query[];
  find: string;
  shown: ReadonlySet<string>;
  onToggle: (name: string) => void;
  /** The address of what is shown. */
  link: () => Route;
}

function Side({ queries, found, find, shown, onToggle, link }: SideProps) {
  const { go } = usePage();
  const count = queries.length.toLocaleString("en-GB");
  return (
    <aside class="side" aria-label="Queries">
      <div class="search">
        <Icon name="search" />
        <label class="unseen" for="find">
          Find queries
        </label>
        <input
          id="find"
          type="search"
          placeholder="Find queries"
          autocomplete="off"
          spellcheck={false}
          dir="auto"
          value={find}
          onInput={(event) => go({ find: event.currentTarget.value }, "replace")}
        />
      </div>
      <p class="muted count" role="status">
        {find ? `${found.length.toLocaleString("en-GB")} of ${count} queries` : `${count} ${queries.length === 1 ? "query" : "queries"}`}
      </p>
      <QueryList queries={found} shown={shown} onToggle={onToggle} />
      <p class="side-line">
        <CopyLink route={link} />
      </p>
    </aside>
  );
}
