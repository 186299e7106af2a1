/** The services shared by all components, and the hooks that connect components to them. */

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
  /** Navigate; "replace" does not add an entry to the browser history. */
  go: (change: Partial<Route>, how?: "push" | "replace") => void;
  /** Announce a text to screen readers. */
  announce: (words: string) => void;
}

export const PageContext = createContext<Page>(null as unknown as Page);

export function usePage(): Page {
  return useContext(PageContext);
}

/** Redraw this component when the data behind the key changes; null disables it. */
export function useKey(key: Key | null): void {
  const { store } = usePage();
  const [, again] = useReducer((count: number) => count + 1, 0);
  useLayoutEffect(() => (key === null ? undefined : store.subscribe(key, () => again(undefined as never))), [key]);
}

const observers = new WeakMap<Element, (isVisible: boolean) => void>();
const intersections = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) observers.get(entry.target)?.(entry.isIntersecting);
  },
  { rootMargin: "160px" },
);

/** Whether an element is in or near the viewport. Others need not be drawn. */
export function useVisible<E extends Element>(): [{ current: E | null }, boolean] {
  const ref = useRef<E | null>(null);
  const [isVisible, see] = useState(true);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    observers.set(element, see);
    intersections.observe(element);
    return () => intersections.unobserve(element);
  }, []);
  return [ref, isVisible];
}

/** The response to a request, which is repeated when the key changes. The last response stays until the next arrives. */
export function useRequest<T>(key: string, request: () => Promise<T>): { answer: T | null; error: string | null } {
  const [held, hold] = useState<{ key: string; answer: T | null; error: string | null }>({ key: "", answer: null, error: null });
  useEffect(() => {
    let isCurrent = true;
    request().then(
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

/** A virtual list with rows of equal height: only visible rows are in the document. */
export function useVirtual(count: number, height: number, head = 0): Virtual {
  const scroller = useRef<HTMLDivElement | null>(null);
  const [view, look] = useState({ top: 0, room: 600 });
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const measure = () =>
      look((before) => {
        // Rounded to whole rows, so that most scroll events need no redraw.
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

/** The current theme. It changes with the colours, so that canvas charts are redrawn. */
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
