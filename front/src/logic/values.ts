/** Values as text: numbers, moments, groups and cells. Pure functions. */

import type { Amount, Group, Moment, Value } from "../types";

const LONGEST = 160;
const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
const formats = new Map<number, Intl.NumberFormat>();

/** The number of an amount; NaN if there is none. */
export function numberOf(amount: Amount | undefined): number {
  if (amount === null || amount === undefined || amount === "") return NaN;
  return typeof amount === "number" ? amount : Number(amount);
}

/** A factor for two finite numbers, so that their difference is finite, too. */
export function unitOf(low: number, high: number): number {
  return Number.isFinite(high - low) ? 1 : 0.5;
}

function grouped(decimals: number): Intl.NumberFormat {
  let found = formats.get(decimals);
  if (!found) {
    found = new Intl.NumberFormat("en-GB", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    formats.set(decimals, found);
  }
  return found;
}

/** The number of decimals to show, at most six. */
function decimalsOf(value: number): number {
  if (!Number.isFinite(value) || Number.isInteger(value)) return 0;
  const size = Math.abs(value);
  if (size >= 1e6) return 2;
  if (size >= 1e4) return Math.min(3, written(value));
  return Math.min(6, written(value));
}

/** The decimals of the shortest form, after rounding to six. */
function written(value: number): number {
  const text = String(Number(value.toFixed(6)));
  if (text.includes("e-")) return 6;
  const point = text.indexOf(".");
  return point < 0 ? 0 : text.length - point - 1;
}

/** The number of decimals for a column, so that its decimal points are aligned. */
export function columnDecimals(amounts: Iterable<Amount | undefined>): number {
  let most = 0;
  for (const amount of amounts) {
    const value = numberOf(amount);
    if (isExtreme(value)) continue;
    most = Math.max(most, decimalsOf(value));
  }
  return most;
}

function isExtreme(value: number): boolean {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e15 || size < 1e-6);
}

/** A number with separators. Integers that are too large for a browser arrive as text and keep every digit. */
export function formatAmount(amount: Amount | undefined, decimals?: number): string {
  if (amount === null || amount === undefined) return "–";
  if (typeof amount === "string") {
    if (amount === "Infinity") return "∞";
    if (amount === "-Infinity") return "−∞";
    return /^-?\d+$/.test(amount) ? separated(amount) : amount;
  }
  if (!Number.isFinite(amount)) return Number.isNaN(amount) ? "NaN" : amount > 0 ? "∞" : "−∞";
  if (isExtreme(amount)) return amount.toExponential(4).replace("e+", "e").replaceAll("-", "−");
  return grouped(decimals ?? decimalsOf(amount)).format(amount).replace("-", "−");
}

function separated(digits: string): string {
  return digits.replace("-", "−").replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A number in few characters: 1,234 stays, 1,234,567 becomes 1.23 M. */
export function formatShort(amount: Amount | undefined): string {
  const value = numberOf(amount);
  if (Number.isNaN(value)) return "–";
  if (value < 0) return `−${formatShort(-value)}`;
  if (!Number.isFinite(value)) return "∞";
  const size = value;
  if (size >= 1e15 || (size !== 0 && size < 0.005)) return value.toExponential(2).replace("e+", "e").replace("-", "−");
  for (const [limit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"]] as const) {
    if (size >= limit) return `${grouped(digitsFor(size / limit)).format(value / limit)} ${name}`;
  }
  if (size >= 1e4) return grouped(0).format(value);
  if (Number.isInteger(value)) return grouped(0).format(value);
  return grouped(size >= 100 ? 0 : size >= 10 ? 1 : 2).format(value);
}

function digitsFor(value: number): number {
  return value >= 100 ? 0 : value >= 10 ? 1 : 2;
}

export function formatBytes(amount: Amount | undefined): string {
  let value = numberOf(amount);
  if (Number.isNaN(value)) return "–";
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${grouped(unit === 0 ? 0 : digitsFor(Math.abs(value))).format(value)} ${UNITS[unit]}`;
}

/** A duration in seconds, in a suitable unit. */
export function formatSeconds(amount: Amount | undefined): string {
  const value = numberOf(amount);
  if (Number.isNaN(value)) return "–";
  if (value < 0) return `−${formatSeconds(-value)}`;
  const size = value;
  if (size === 0) return "0 s";
  if (size < 1) return `${grouped(0).format(value * 1000)} ms`;
  if (size < 120) return `${grouped(size < 10 ? 2 : 1).format(value)} s`;
  if (size < 7200) return `${grouped(0).format(value / 60)} min`;
  if (size < 172_800) return `${grouped(1).format(value / 3600)} h`;
  return `${grouped(1).format(value / 86_400)} d`;
}

/** A percentage. What is rounded does not look like certain or impossible. */
export function formatShare(amount: Amount | undefined): string {
  const value = numberOf(amount);
  if (Number.isNaN(value)) return "–";
  if (value > 0 && value < 0.0005) return "< 0.1 %";
  if (value < 1 && value >= 0.9995) return "> 99.9 %";
  return `${grouped(1).format(value * 100)} %`;
}

/** An ISO time. Fractions of a second are shown unless they are zero. */
const ISO = /^(\d{4,}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?(?:Z|[+-]\d\d:?\d\d)?$/;

export function isTime(text: string): boolean {
  return text.length < 40 && ISO.test(text);
}

interface Parts {
  day: string;
  clock: string;
}

function partsOf(moment: Moment): Parts | null {
  if (typeof moment !== "string") return null;
  const found = ISO.exec(moment);
  if (!found) return null;
  const fraction = (found[3] ?? "").replace(/0+$/, "");
  return { day: found[1] as string, clock: fraction ? `${found[2]}.${fraction}` : (found[2] as string) };
}

/** "14:05:00" of a time, "12,000" of a count. */
export function formatClock(moment: Moment | null | undefined): string {
  if (moment === null || moment === undefined) return "–";
  if (typeof moment === "number") return grouped(0).format(moment);
  return partsOf(moment)?.clock ?? moment;
}

/** "2 Jan 2024", or nothing on the count axis. */
export function formatDay(moment: Moment | null | undefined): string {
  const parts = moment === null || moment === undefined ? null : partsOf(moment);
  if (!parts) return "";
  const [year, month, day] = parts.day.split("-");
  const names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  return `${Number(day)} ${names[Number(month) - 1] ?? month} ${year}`;
}

/** Day and time together, as shown above a ranking. */
export function formatMoment(moment: Moment | null | undefined): string {
  const day = formatDay(moment);
  return day ? `${day}, ${formatClock(moment)}` : formatClock(moment);
}

/** The position of a moment on a chart: seconds since 1970, or the sequence number. */
export function positionOf(moment: Moment): number {
  if (typeof moment === "number") return moment;
  if (/^-?\d+$/.test(moment)) return Number(moment);
  return Date.parse(moment) / 1000;
}

/** Any value from the data as one line of text. */
export function textOf(value: Value | undefined): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return JSON.stringify(value);
}

/** The beginning of a long text. Surrogate pairs are not split. */
export function clip(text: string, longest = LONGEST): string {
  if (text.length <= longest) return text;
  let end = longest - 1;
  const code = text.charCodeAt(end - 1);
  if (code >= 0xd800 && code <= 0xdbff) end -= 1;
  return `${text.slice(0, end)}…`;
}

/** A short form of a window: "10 min, every 1 min". */
export function shortWindow(window: string): string {
  return window
    .replace(/\bmilliseconds?\b/g, "ms")
    .replace(/\bseconds?\b/g, "s")
    .replace(/\bminutes?\b/g, "min")
    .replace(/\bhours?\b/g, "h")
    .replace(/\bdays?\b/g, "d");
}

/** The time of a tick on an axis, as precise as the distance between ticks. */
export function formatTick(seconds: number, distance: number): string {
  const text = new Date(seconds * 1000).toISOString();
  if (distance >= 86_400) return formatDay(text).replace(/ \d+$/, "");
  return distance >= 60 ? text.slice(11, 16) : text.slice(11, distance >= 1 ? 19 : 23);
}

/** "1 window", "1,200 windows". */
export function plural(count: number, noun: string): string {
  return `${grouped(0).format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A moment on an axis of this length: with the day, where the axis is longer than a day. */
export function formatAxis(moment: Moment | null | undefined, length: number): string {
  const day = formatDay(moment).replace(/ \d+$/, "");
  if (!day || length < 86_400) return formatClock(moment);
  return length < 40 * 86_400 ? `${day}, ${formatClock(moment).slice(0, 5)}` : formatDay(moment);
}

/** A moment beside another one: the day only where it differs. */
export function formatBeside(moment: Moment | null | undefined, other: Moment | null | undefined): string {
  return formatDay(moment) === formatDay(other) ? formatClock(moment) : formatMoment(moment);
}

/** The text that names an object: its label, or its id if it has none. */
export function nameOf({ id, label }: { id: Value; label?: Value }): string {
  return visibleText(label === undefined || label === null || label === "" ? id : label);
}

export function groupLabel(group: Group | null): string {
  return group === null ? "" : group.map(visibleText).join(" · ");
}

/** A text that can be seen and clicked, even of a value without visible characters. */
function visibleText(value: Value): string {
  const text = textOf(value);
  return text.trim() === "" ? "(empty)" : text;
}
