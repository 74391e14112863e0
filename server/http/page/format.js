// Figures as people read them: three significant digits, units always there.

const THIN = "\u202f";  // a narrow space that does not break

function significant(value) {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value.toFixed(0) : significant(value)}${THIN}${units[unit]}`;
}

export const count = (value) => Math.round(value).toLocaleString("en-US");

export const rate = (value) => (value === null ? "–" : significant(value));

export const byteRate = (value) => (value === null ? "–" : `${bytes(value)}/s`);

export const share = (value) =>
  `${value > 0 && value < 0.0995 ? (100 * value).toFixed(1) : (100 * value).toFixed(0)}${THIN}%`;

// A duration inside a round.
export function time(seconds) {
  if (seconds >= 0.9995) return `${significant(seconds)}${THIN}s`;
  if (seconds >= 0.0009995) return `${significant(1e3 * seconds)}${THIN}ms`;
  return `${(1e6 * seconds).toFixed(0)}${THIN}µs`;
}

// A duration of a life.
export function span(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole}${THIN}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}${THIN}min ${whole % 60}${THIN}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}${THIN}h ${Math.floor((whole % 3600) / 60)}${THIN}min`;
  return `${Math.floor(whole / 86400)}${THIN}d ${Math.floor((whole % 86400) / 3600)}${THIN}h`;
}

// The same in one unit.
export function age(seconds) {
  if (seconds < 120) return span(Math.max(0, seconds));
  if (seconds < 7200) return `${Math.round(seconds / 60)}${THIN}min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)}${THIN}h` : `${Math.round(seconds / 86400)}${THIN}d`;
}

// When something was, for people here: "2026-11-27 05:51:07".
export function date(unixSeconds) {
  const local = new Date(1000 * unixSeconds);
  const two = (value) => String(value).padStart(2, "0");
  return `${local.getFullYear()}-${two(local.getMonth() + 1)}-${two(local.getDate())} `
    + `${two(local.getHours())}:${two(local.getMinutes())}:${two(local.getSeconds())}`;
}

const unseen = /[\p{DI}\p{Zl}\p{Zp}\u2800\ufff9-\ufffb]|(?![\n\t])\p{Cc}/gu;

// A text with an escape, such as "\ufeff", in place of each character that nobody sees or that
// moves others. So names that differ look different. phubctl does alike (common/base/visible.h).
export const visible = (text) => text.replace(unseen, (character) => character.split("").map((unit) =>
  `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
