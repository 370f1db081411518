// Round numbers and round times for the axes of charts: a label says exactly where its line is.

import { clock, day, hour } from "./parts.js";

// What is shown of a kind of number: in which unit, from which size on.
export const SECONDS = [[3600, " h", 36000], [60, " min", 600], [1, " s", 1], [1e-3, " ms", 0]];
export const COUNTS = [[1e9, " G", 1e9], [1e6, " M", 1e6], [1, "", 0]];

const DECIMAL = [1, 2, 2.5, 5, 10];
const CLOCK_S = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200];
const DAY_S = 86400, DAYS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
// Pixels that a label takes with seconds, without, and how many more if it names a day. More labels than this are too many.
const WITH_SECONDS = 58, WITHOUT = 46, WITH_DAY = 24, MOST = 8;

// [where, label] from 0 up to the highest number that is shown.
export function valueTicks(top, units) {
  const [unit, name] = units.find(([, , from]) => top >= from), step = decimal(top / unit / 4), found = [];
  for (let at = 0; at * step * unit <= top * 1.0001; at += 1) {
    const value = Number((at * step).toPrecision(12));
    found.push([value * unit, value ? value.toLocaleString("en", { maximumFractionDigits: 12 }) + name : "0"]);
  }
  return found;
}

// [when, label] between two times, as many as fit the pixels. Simulated time begins at 0.
export function timeTicks(from, to, pixels) {
  const room = (label) => Math.min(Math.max(pixels / label, 1), MOST);
  if (from < 1e8) return rounds(from, to, decimal((to - from) / room(WITH_SECONDS)), 0).map((time) => [time, `${Number(time.toPrecision(12))} s`]);
  const zone = -60 * new Date(1000 * from).getTimezoneOffset(), times = (step) => rounds(from, to, step, zone);
  const step = [...CLOCK_S, ...DAYS.map((days) => days * DAY_S)].find((one) => times(one).length <= room((one < 60 ? WITH_SECONDS : WITHOUT) + (day(from) ? WITH_DAY : 0))) || DAY_S;
  let before = ""; // today goes without saying
  const found = times(step).map((time) => {
    const date = day(time), named = date !== before ? [date || "today"] : [];
    before = date;
    return [time, step >= DAY_S ? date || "today" : [...named, hour(time, step < 60)].join(", ")];
  });
  return found.length ? found : [[to, clock(to)]];
}

function decimal(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * DECIMAL.find((one) => one * power >= rough * 0.999);
}

// Multiples of a step, by the clock of a time zone.
function rounds(from, to, step, zone) {
  const found = [];
  for (let at = Math.ceil((from + zone) / step - 1e-9); at * step - zone <= to + 1e-9 * step; at += 1) found.push(at * step - zone);
  return found;
}
