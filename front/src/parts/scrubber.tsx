/** Navigation through past windows: a slider with dates, step buttons, playback, and a button back to live. */

import { useEffect, useRef, useState } from "preact/hooks";
import { spread } from "../logic/shapes";
import { formatClock, formatDay, formatMoment, plural } from "../logic/values";
import type { Moment } from "../types";
import { Icon } from "./text";

const SPEEDS = [1, 2, 5, 20];

interface Props {
  moments: readonly Moment[];
  index: number;
  isLive: boolean;
  /** Windows that are no longer in memory. */
  dropped?: number;
  isRunning: boolean;
  onChoose: (index: number | null) => void;
  onAnnounce: (words: string) => void;
}

export function Scrubber({ moments, index, isLive, dropped = 0, isRunning, onChoose, onAnnounce }: Props) {
  const [isPlaying, play] = useState(false);
  const [speed, setSpeed] = useState(2);
  const last = moments.length - 1;
  const now = useRef({ index, last, isLive, isPlaying });
  now.current = { index, last, isLive, isPlaying };

  const move = (by: number) => {
    const next = now.current.index + by;
    if (next >= 0) onChoose(next >= now.current.last && by > 0 ? null : next);
  };
  const toggle = () => {
    if (!now.current.isPlaying && now.current.isLive) onChoose(0);
    play(!now.current.isPlaying);
  };
  const goLive = () => {
    play(false);
    onChoose(null);
    onAnnounce(isRunning ? "Live" : "Newest window");
  };

  useEffect(() => {
    if (!isPlaying) return;
    const timer = setInterval(() => {
      if (document.hidden) return;
      if (now.current.isLive || now.current.index >= now.current.last) play(false);
      else move(1);
    }, 1000 / speed);
    return () => clearInterval(timer);
  }, [isPlaying, speed]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
      const target = event.target as HTMLElement;
      const isSlider = target.matches("input[type=range]");
      if (isSlider ? event.key.startsWith("Arrow") : target.closest("input, textarea, select")) return;
      if (event.key === "ArrowLeft") move(-1);
      else if (event.key === "ArrowRight") move(1);
      else if (event.key === " " && !target.closest("button, a, [role=listbox]")) toggle();
      else if (event.key === "l" || event.key === "L") goLive();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });

  const labels = spread(moments.length, 5);
  return (
    <section class="scrubber panel" aria-label="Past windows">
      <div class="scrub-buttons">
        <button type="button" class="quiet framed" aria-label="Previous window" title="Previous window (←)" disabled={index <= 0} onClick={() => move(-1)}>
          <Icon name="back" />
        </button>
        <button type="button" class="quiet framed" aria-label={isPlaying ? "Pause" : "Play"} title={isPlaying ? "Pause (space)" : "Play (space)"} disabled={last < 1} onClick={toggle}>
          <Icon name={isPlaying ? "pause" : "play"} />
        </button>
        <button type="button" class="quiet framed" aria-label="Next window" title="Next window (→)" disabled={isLive || index >= last} onClick={() => move(1)}>
          <Icon name="forth" />
        </button>
        <label class="muted">
          <span class="unseen">Windows per second</span>
          <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
            {SPEEDS.map((one) => (
              <option key={one} value={one}>
                {one}/s
              </option>
            ))}
          </select>
        </label>
      </div>
      <div class="scrub-track">
        <input
          type="range"
          aria-label="Window"
          aria-valuetext={formatMoment(moments[index])}
          min={0}
          max={Math.max(0, last)}
          step={1}
          value={index}
          onInput={(event) => {
            const next = Number(event.currentTarget.value);
            onChoose(next >= last ? null : next);
          }}
        />
        <div class="scrub-labels number" aria-hidden="true">
          {labels.map((one, place) => (
            <span key={one}>
              {(place === 0 || formatDay(moments[one]) !== formatDay(moments[labels[place - 1] as number])) && (
                <span class="day">{formatDay(moments[one])} </span>
              )}
              {formatClock(moments[one])}
            </span>
          ))}
        </div>
        {dropped > 0 && (
          <p class="muted scrub-note">
            {plural(moments.length, "window")} in memory; {plural(dropped, "older window")} dropped. A folder of answers keeps all.
          </p>
        )}
      </div>
      <button type="button" class={isLive ? "live-button on" : "live-button"} aria-pressed={isLive} title="Back to live (L)" onClick={goLive}>
        <span class="dot" aria-hidden="true" />
        {isRunning ? (isLive ? "Live" : "Back to live") : "Newest"}
      </button>
    </section>
  );
}
