/** Hooks for the windows of a query: their moments, the ranking of one of them, and the window in the URL. */

import { useEffect, useRef, useState } from "preact/hooks";
import { usePage } from "./context";
import { isEarlier } from "./logic/inbox";
import { pairKey } from "./logic/route";
import { positionOf } from "./logic/values";
import type { Board, Moment, Pair, Query } from "./types";

const ONE_MOVE = 1500; // ms

/** The index of a moment that is written in a URL, or of the nearest one. */
export function nearestIndex(moments: readonly Moment[], wanted: string): number {
  const exact = moments.findIndex((moment) => String(moment) === wanted);
  if (exact >= 0) return exact;
  const place = positionOf(wanted);
  let best = moments.length - 1;
  moments.forEach((moment, index) => {
    if (Math.abs(positionOf(moment) - place) < Math.abs(positionOf(moments[best] as Moment) - place)) best = index;
  });
  return best;
}

/** All moments in the history: requested once, then extended by new boards. */
export function useMoments(query: Query, pair: Pair, newest: Board | undefined): { moments: readonly Moment[]; dropped: number } {
  const { api, store } = usePage();
  const [moments, set] = useState<Moment[]>([]);
  const [dropped, drop] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    if (store.link === "lost") return;
    api.moments(query.name, pair.group).then(
      (answer) => {
        if (!isCurrent) return;
        set(answer.moments);
        drop(answer.dropped);
      },
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [pairKey(pair), store.link === "lost"]);
  const last = moments[moments.length - 1];
  useEffect(() => {
    if (!newest) return;
    set((held) => {
      const end = held[held.length - 1];
      return end === undefined || isEarlier(end, newest.moment) ? [...held, newest.moment] : held;
    });
  }, [newest?.moment, last]);
  return { moments, dropped };
}

const boardCache = new Map<string, Board>();

/** The board of a past moment. While the slider moves, there is one request at a time, for its latest position. */
export function useBoard(pair: Pair, moment: Moment | null, label: string | null): Board | undefined {
  const { api } = usePage();
  const [board, show] = useState<Board | undefined>(undefined);
  const wanted = useRef<Moment | null>(null);
  const isLoading = useRef(false);
  const asked = useRef(label);
  wanted.current = moment;
  asked.current = label;
  useEffect(() => {
    const load = async () => {
      while (wanted.current !== null) {
        const current = wanted.current;
        const label = asked.current;
        const key = `${pairKey(pair)} ${label} ${current}`;
        let found = boardCache.get(key);
        if (!found) {
          found = await api.board(pair.query, pair.group, current, label).catch(() => undefined);
          if (found?.rows.every((row) => row.final !== false)) boardCache.set(key, found);
          if (boardCache.size > 300) boardCache.delete(boardCache.keys().next().value as string);
        }
        if (found) show(found);
        if (wanted.current === current && asked.current === label) return;
      }
    };
    if (moment === null || isLoading.current) return;
    isLoading.current = true;
    void load().finally(() => {
      isLoading.current = false;
    });
  }, [moment, label]);
  return board;
}

/**
 * A value that is used at once and written to the URL after a delay. A change of the URL overrides it. Changes shortly
 * after one another, as by a slider, are one entry of the browser history.
 */
export function useHeld(
  given: string | null,
  write: (value: string | null, how: "push" | "replace") => void,
): [string | null, (value: string | null) => void] {
  const [value, set] = useState(given);
  const at = useRef(-Infinity);
  const written = useRef(given);
  const wait = useRef(0);
  if (given !== written.current) {
    written.current = given;
    if (given !== value) set(given);
  }
  useEffect(() => () => clearTimeout(wait.current), []);
  return [
    value,
    (next) => {
      set(next);
      clearTimeout(wait.current);
      wait.current = window.setTimeout(() => {
        written.current = next;
        const now = performance.now();
        write(next, now - at.current > ONE_MOVE ? "push" : "replace");
        at.current = now;
      }, 250);
    },
  ];
}

export function useThrottled<T>(value: T, pause: number): T {
  const [held, hold] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    const wait = setTimeout(
      () => {
        last.current = Date.now();
        hold(value);
      },
      Math.max(0, last.current + pause - Date.now()),
    );
    return () => clearTimeout(wait);
  }, [value]);
  return held;
}
