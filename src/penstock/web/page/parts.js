// Small parts that all panels are made of. Text from data only ever becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";
// A table of more rows than this scrolls.
const LONG = 12;

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const h = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export function seconds(length) {
  if (length === null || length === undefined) return "–";
  if (length === 0) return "0 s";
  if (length < 1) return `${Number((1e3 * length).toPrecision(3))} ms`;
  if (length < 600) return `${Number(length.toFixed(length < 10 ? 2 : length < 100 ? 1 : 0))} s`;
  return length < 36000 ? `${Math.round(length / 60)} min` : `${(length / 3600).toFixed(1)} h`;
}

export function count(number) {
  if (number === null || number === undefined) return "–";
  if (number >= 1e9) return `${(number / 1e9).toFixed(2)} G`;
  if (number >= 1e6) return `${(number / 1e6).toFixed(2)} M`;
  return number >= 100 || Number.isInteger(number) ? Math.round(number).toLocaleString("en") : number.toFixed(1);
}

// All is said only of all, and none of none.
export function share(part) {
  if (part === null || part === undefined) return "–";
  if (part < 1 && part > 0.99) return ">99%";
  if (part > 0 && part < 0.01) return "<1%";
  return `${Math.round(100 * part)}%`;
}

// The day of a time, unless that is today.
export function day(time) {
  const then = new Date(1000 * time);
  return then.toDateString() === new Date().toDateString() ? "" : then.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

export const hour = (time, withSeconds = true) => new Date(1000 * time).toLocaleTimeString("en-GB").slice(0, withSeconds ? 8 : 5);

// Simulated time begins at 0; real time is in seconds since 1970.
export function clock(time) {
  if (time < 1e8) return `${Number(time.toFixed(1))} s`;
  return [day(time), hour(time)].filter(Boolean).join(", ");
}

// A count of something: 1 batch, 2 batches.
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;
export const times = (number) => (number === 1 ? "once" : `${count(number)} times`);

export const total = (rows) => Object.values(rows).reduce((sum, one) => sum + one, 0);

export function tile(name, value, of = [], level = "") {
  return h("div", { class: "tile", "data-level": level }, h("dt", {}, name), h("dd", {}, value, [of].flat().filter(Boolean).map((line) => h("span", { class: "of" }, line))));
}

export function bar(part, color = "var(--kept)") {
  const width = `${Math.min(Math.max(100 * part, 0), 100)}%`;
  return h("div", { class: "bar" }, h("span", { "aria-hidden": "true" }, h("i", { style: { width, background: color } })), h("em", {}, share(part)));
}

// A column with nothing in it is left out. On a phone rows are stacked, each cell with its column's name, and roles say that it is a table still.
export function table(label, heads, rows, empty) {
  if (!rows.length) return h("p", { class: "note" }, empty);
  const used = heads.map((head, at) => [head, at]).filter(([, at]) => rows.some((row) => row[at] !== "" && row[at] !== "–"));
  return h("div", { class: rows.length > LONG ? "scroll long" : "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", { role: "table" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, used.map(([[name, kind]]) => h("th", { class: kind, scope: "col", role: "columnheader" }, name)))),
      h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row" }, used.map(([[name, kind], at]) => h("td", { class: row[at] === "" ? `${kind} none` : kind, role: "cell", "data-name": name }, row[at])))))));
}

// Replaces what a place shows, unless it shows the same already: a reader in the middle of it is not disturbed.
export function put(place, key, make) {
  const text = JSON.stringify(key);
  if (place.dataset.shown === text) return;
  const before = place.querySelector(".scroll"), active = document.activeElement;
  const [left, top] = [before?.scrollLeft || 0, before?.scrollTop || 0];
  const focused = place.contains(active) ? (active === before ? ".scroll" : active.id && `#${CSS.escape(active.id)}`) : "";
  place.replaceChildren(...[make()].flat().filter(Boolean));
  place.dataset.shown = text;
  place.querySelector(".scroll")?.scrollTo(left, top);
  if (focused) place.querySelector(focused)?.focus({ preventScroll: true });
}
