/** A text field with a list of suggestions. */

import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useVirtual } from "../context";
import { step } from "../logic/virtual";
import { Data, Icon } from "./text";

const HEIGHT = 32;

export interface Choice {
  key: string;
  label: string;
}

interface Props {
  label: string;
  value: string;
  /** Return the choices for the typed text. */
  offer: (text: string) => Promise<{ total: number; choices: Choice[] }>;
  onPick: (choice: Choice) => void;
}

export function Combobox({ label, value, offer, onPick }: Props) {
  const id = useId();
  const field = useRef<HTMLInputElement | null>(null);
  const box = useRef<HTMLDivElement | null>(null);
  const [text, type] = useState<string | null>(null);
  const [offered, take] = useState<{ total: number; choices: Choice[] }>({ total: 0, choices: [] });
  const [at, point] = useState(0);
  const isOpen = text !== null;

  useEffect(() => {
    if (text === null) return;
    let isCurrent = true;
    const wait = setTimeout(() => {
      offer(text).then(
        (found) => {
          if (!isCurrent) return;
          take(found);
          point(0);
        },
        () => isCurrent && take({ total: 0, choices: [] }),
      );
    }, text === "" ? 0 : 80);
    return () => {
      isCurrent = false;
      clearTimeout(wait);
    };
  }, [text]);

  useEffect(() => {
    if (!isOpen) return;
    const leave = (event: Event) => !box.current?.contains(event.target as Node) && type(null);
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, [isOpen]);

  const pick = (choice: Choice | undefined) => {
    if (!choice) return;
    type(null);
    onPick(choice);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && isOpen) {
      event.stopPropagation();
      type(null);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (isOpen) pick(offered.choices[at]);
      else type("");
    } else if (!isOpen && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      type("");
    } else if (isOpen && !["Home", "End"].includes(event.key)) {
      const next = step(event.key, at, offered.choices.length, 8);
      if (next === null) return;
      event.preventDefault();
      point(next);
    }
  };

  return (
    <div class="combobox" ref={box} onFocusOut={(event) => !box.current?.contains(event.relatedTarget as Node) && event.relatedTarget && type(null)}>
      <label class="unseen" for={`${id}-field`}>
        {label}
      </label>
      <input
        ref={field}
        id={`${id}-field`}
        type="text"
        role="combobox"
        dir="auto"
        autocomplete="off"
        spellcheck={false}
        aria-expanded={isOpen}
        aria-controls={isOpen ? `${id}-list` : undefined}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && offered.choices[at] ? `${id}-${at}` : undefined}
        value={text ?? value}
        placeholder={isOpen ? value : label}
        onClick={() => text === null && type("")}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <Icon name="chevron" />
      {isOpen && <Suggestions id={id} label={label} offered={offered} at={at} onPick={pick} />}
    </div>
  );
}

interface OfferedProps {
  id: string;
  label: string;
  offered: { total: number; choices: Choice[] };
  at: number;
  onPick: (choice: Choice) => void;
}

function Suggestions({ id, label, offered, at, onPick }: OfferedProps) {
  const { choices, total } = offered;
  const { scroller, span, show } = useVirtual(choices.length, HEIGHT);
  useLayoutEffect(() => show(at), [at, choices]);
  return (
    <div class="offered">
      <div class="offered-scroll" ref={scroller} tabIndex={-1}>
        <ul id={`${id}-list`} role="listbox" aria-label={label} style={{ height: `${choices.length * HEIGHT}px` }}>
          {choices.slice(span.first, span.last).map((choice, offset) => {
            const index = span.first + offset;
            return (
              <li
                key={choice.key}
                id={`${id}-${index}`}
                role="option"
                class={index === at ? "at" : ""}
                aria-selected={index === at}
                aria-posinset={index + 1}
                aria-setsize={choices.length}
                style={{ transform: `translateY(${index * HEIGHT}px)` }}
                onMouseDown={(event) => event.preventDefault()}
                onClick={() => onPick(choice)}
              >
                <Data value={choice.label} longest={80} />
              </li>
            );
          })}
        </ul>
      </div>
      {choices.length === 0 && <p class="muted">No matches</p>}
      {total > choices.length && (
        <p class="muted">
          {choices.length} of {total.toLocaleString("en-GB")} shown. Type to search.
        </p>
      )}
    </div>
  );
}
