/** What every part of the page may use, and the hooks that tie parts to it. */

import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Api } from "./live/api";
import type { Link } from "./live/link";
import type { Key, Store } from "./live/store";
import type { Route } from "./logic/route";
import { reveal, type Span, visible } from "./logic/virtual";

export interface Page {
  store: Store;
  api: Api;
  link: Link;
  /** Another place; replaces the present one in the history where it is only a refinement of it. */
  go: (change: Partial<Route>, how?: "push" | "replace") => void;
  /** Said to those who listen instead of looking. */
  say: (words: string) => void;
}

export const PageContext = createContext<Page>(null as unknown as Page);

export function usePage(): Page {
  return useContext(PageContext);
}

/** Draw this part again when the thing behind the key has changed; null: it need not be for now. */
export function useKey(key: Key | null): void {
  const { store } = usePage();
  const [, again] = useReducer((count: number) => count + 1, 0);
  useLayoutEffect(() => (key === null ? undefined : store.subscribe(key, () => again(undefined as never))), [key]);
}

const seers = new WeakMap<Element, (isSeen: boolean) => void>();
const seeing = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) seers.get(entry.target)?.(entry.isIntersecting);
  },
  { rootMargin: "160px" },
);

/** Whether an element is in sight, or nearly. What is not need not be drawn. */
export function useSeen<E extends Element>(): [{ current: E | null }, boolean] {
  const ref = useRef<E | null>(null);
  const [isSeen, see] = useState(true);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    seers.set(element, see);
    seeing.observe(element);
    return () => seeing.unobserve(element);
  }, []);
  return [ref, isSeen];
}

/** The answer of a request, asked again when the key changes; the last answer stays until the next is there. */
export function useAsked<T>(key: string, ask: () => Promise<T>): { answer: T | null; error: string | null } {
  const [held, hold] = useState<{ key: string; answer: T | null; error: string | null }>({ key: "", answer: null, error: null });
  useEffect(() => {
    let isCurrent = true;
    ask().then(
      (answer) => isCurrent && hold({ key, answer, error: null }),
      (error: Error) => isCurrent && hold((before) => ({ key, answer: before.answer, error: error.message })),
    );
    return () => {
      isCurrent = false;
    };
  }, [key]);
  return held;
}

export interface Virtual {
  scroller: { current: HTMLDivElement | null };
  span: Span;
  show: (index: number) => void;
  room: () => number;
}

/** A scrolled list whose rows are all of one height: only those in sight are in the document. */
export function useVirtual(count: number, height: number, head = 0): Virtual {
  const scroller = useRef<HTMLDivElement | null>(null);
  const [view, look] = useState({ top: 0, room: 600 });
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const measure = () =>
      look((before) => {
        // In steps of one row, so that most movements need no drawing here.
        const top = Math.floor(box.scrollTop / height) * height;
        const room = Math.max(0, box.clientHeight - head);
        return before.top === top && before.room === room ? before : { top, room };
      });
    measure();
    box.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => {
      box.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, [height, head]);
  return {
    scroller,
    span: visible(count, height, view.top, view.room + height),
    show: (index) => {
      const box = scroller.current;
      if (box) box.scrollTop = reveal(index, height, box.scrollTop, box.clientHeight - head);
    },
    room: () => scroller.current?.clientHeight ?? 0,
  };
}

export function useMedia(query: string): boolean {
  const [matches, match] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const follow = () => match(list.matches);
    follow();
    list.addEventListener("change", follow);
    return () => list.removeEventListener("change", follow);
  }, [query]);
  return matches;
}

/** The width of an element, as it changes. */
export function useWidth<E extends Element>(): [{ current: E | null }, number] {
  const ref = useRef<E | null>(null);
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    if (!ref.current) return;
    const observer = new ResizeObserver(([entry]) => entry && set(Math.floor(entry.contentRect.width)));
    observer.observe(ref.current);
    set(Math.floor(ref.current.getBoundingClientRect().width));
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** Changes with the colours, so that what is drawn by hand is drawn anew. */
export function useColours(): string {
  const isDark = useMedia("(prefers-color-scheme: dark)");
  const [chosen, choose] = useState(() => document.documentElement.dataset["theme"]);
  useEffect(() => {
    const follow = () => choose(document.documentElement.dataset["theme"]);
    addEventListener("theme", follow);
    return () => removeEventListener("theme", follow);
  }, []);
  return chosen ?? (isDark ? "dark" : "light");
}
