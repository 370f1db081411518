// Charts over time: lines, or rows stacked on rows, with a limit to hold. Read by pointer, by arrow keys, or as words.

import { clock, h, s } from "./parts.js";

const LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 22;

// Points in groups, so that there are no more of them than can be told apart.
export function grouped(points, most) {
  const size = Math.ceil(points.length / Math.max(most, 1)) || 1;
  const found = [];
  let before = null;
  for (let at = 0; at < points.length; at += size) {
    const some = points.slice(at, at + size);
    const first = some[0], last = some[some.length - 1];
    const began = first.t - first.d;
    // A pause is no part of the batch that ends it.
    const from = before === null || began - before > 10 ? began : before;
    found.push({ from, t: last.t, d: Math.max(last.t - from, 1e-3), some, first, last });
    before = last.t;
  }
  return found;
}

export const sum = (group, of) => group.some.reduce((all, one) => all + (of(one) || 0), 0);

export function mean(group, of, weight = () => 1) {
  let all = 0, weights = 0;
  for (const one of group.some) {
    const value = of(one), share = weight(one);
    if (value !== null && value !== undefined) { all += share * value; weights += share; }
  }
  return weights ? all / weights : null;
}

export const most = (group, of) => group.some.reduce((best, one) => (of(one) === null || of(one) === undefined ? best : Math.max(best ?? of(one), of(one))), null);

function ticks(top) {
  const rough = top / 4, power = 10 ** Math.floor(Math.log10(rough)), steps = [1, 2, 2.5, 5, 10];
  const step = power * steps.find((one) => one * power >= rough * 0.999);
  const found = [];
  for (let at = 0; at <= top * 1.0001; at += step) found.push(at);
  return found;
}

export class Chart {
  // series(): [{name, color, fill, kind: "line" | "area" | "stack", of: (group) => number | null}], bottom first
  constructor(title, note, { format, series, limit = () => null, height = 208 }) {
    this.title = title;
    this.format = format;
    this.series = series;
    this.limit = limit;
    this.height = height;
    this.groups = [];
    this.at = null;
    this.svg = s("svg", { role: "img", tabindex: "0", "aria-label": title });
    this.tip = h("div", { class: "tip", hidden: true });
    this.said = h("div", { class: "unseen", "aria-live": "polite" });
    this.legend = h("ul", { class: "legend" });
    this.place = h("div", { class: "chart" }, this.svg, this.tip, this.said);
    this.panel = h("section", { class: "panel", "aria-label": title }, h("h3", {}, title), note ? h("p", { class: "note" }, note) : null, this.legend, this.place);
    this.svg.addEventListener("pointermove", (event) => this.point(this.nearest(event)));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.place);
  }

  update(points, starts, head) {
    this.points = points;
    this.starts = starts;
    this.head = head;
    this.draw();
  }

  draw() {
    const width = this.place.clientWidth, height = this.svg.clientHeight || this.height;
    if (!width || !this.points) return;
    this.width = width;
    this.groups = grouped(this.points, (width - LEFT - RIGHT) / 3);
    const groups = this.groups, series = this.series(this.head), limit = this.limit(this.head);
    this.shown = series;
    const stacked = series.filter((one) => one.kind === "stack");
    let top = limit ? 1.25 * limit : 0;
    for (const group of groups) {
      top = Math.max(top, stacked.reduce((all, one) => all + (one.of(group) || 0), 0));
      for (const one of series) if (one.kind !== "stack") top = Math.max(top, one.of(group) || 0);
    }
    top = top ? top * 1.06 : 1;
    const from = groups.length ? groups[0].from : 0, to = groups.length ? Math.max(groups[groups.length - 1].t, from + 1e-3) : 1;
    const x = (time) => LEFT + ((time - from) / (to - from)) * (width - LEFT - RIGHT);
    const y = (value) => height - BOTTOM - (value / top) * (height - TOP - BOTTOM);
    this.x = x;
    const parts = ticks(top).map((at) => [
      s("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) }),
      s("text", { x: LEFT - 8, y: y(at) + 4, "text-anchor": "end" }, this.format(at)),
    ]);
    if (groups.length) {
      const marks = width > 480 ? 5 : 3;
      for (let at = 0; at < marks; at += 1) {
        const anchor = at === 0 ? "start" : at === marks - 1 ? "end" : "middle", time = from + ((to - from) * at) / (marks - 1);
        parts.push(s("text", { x: x(time), y: height - 5, "text-anchor": anchor }, clock(time)));
      }
    }
    let floor = groups.map(() => 0);
    for (const one of series) {
      const values = groups.map((group) => one.of(group));
      if (one.kind === "stack") {
        const above = floor.map((low, at) => low + (values[at] || 0));
        parts.push(s("path", { d: steps(groups, floor, above, x, y), fill: one.color, "data-series": one.name }));
        floor = above;
      } else {
        if (one.fill) parts.push(s("path", { d: area(groups, values, x, y), fill: one.fill, stroke: "none" }));
        parts.push(s("path", { class: "line", d: line(groups, values, x, y), stroke: one.color, "stroke-opacity": one.faint ? 0.45 : 1, "data-series": one.name }));
      }
    }
    for (const start of (this.starts || []).slice(1)) {
      if (start > from && start < to) parts.push(s("line", { class: "start", x1: x(start), x2: x(start), y1: TOP, y2: height - BOTTOM }, s("title", {}, `started again at ${clock(start)}`)));
    }
    if (limit) {
      parts.push(s("line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: y(limit), y2: y(limit) }));
      parts.push(s("text", { class: "limit-name", x: width - RIGHT, y: y(limit) - 6, "text-anchor": "end" }, `target ${this.format(limit)}`));
    }
    this.cross = s("g");
    parts.push(this.cross);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts.flat());
    this.svg.setAttribute("aria-label", this.words());
    const names = series.map((one) => h("li", {}, h("i", { class: one.kind === "stack" ? "" : "thin", style: { background: one.color, opacity: one.faint ? 0.45 : 1 } }), one.name));
    this.legend.replaceChildren(...names);
    this.legend.hidden = names.length < 2;
    if (this.at !== null) this.point(Math.min(this.at, groups.length - 1));
  }

  words() {
    if (!this.groups.length) return `${this.title}: nothing yet`;
    const last = this.groups[this.groups.length - 1];
    return `${this.title}. At ${clock(last.t)}: ${this.values(last).map(([name, value]) => `${name} ${value}`).join(", ")}. Arrow keys read other times.`;
  }

  values(group) {
    return this.shown.map((one) => [one.name, this.format(one.of(group) ?? null)]);
  }

  nearest(event) {
    if (!this.groups.length) return null;
    const box = this.svg.getBoundingClientRect(), at = event.clientX - box.left;
    let best = 0;
    this.groups.forEach((group, number) => { if (Math.abs(this.x(group.t) - at) < Math.abs(this.x(this.groups[best].t) - at)) best = number; });
    return best;
  }

  key(event) {
    const last = this.groups.length - 1, step = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }[event.key];
    if (step === undefined || last < 0) return;
    event.preventDefault();
    this.point(Math.min(Math.max((this.at ?? (step > 0 ? -1 : last + 1)) + step, 0), last));
    this.said.textContent = this.tip.textContent;
  }

  point(at) {
    this.at = at;
    this.tip.hidden = at === null || !this.groups[at];
    this.cross?.replaceChildren();
    if (this.tip.hidden) return;
    const group = this.groups[at], left = this.x(group.t);
    this.cross.append(s("line", { class: "cross", x1: left, x2: left, y1: TOP, y2: (this.svg.clientHeight || this.height) - BOTTOM }));
    const batches = group.last.n === undefined ? "" : group.some.length > 1 ? `, batches ${group.first.n} to ${group.last.n}` : `, batch ${group.last.n}`;
    this.tip.replaceChildren(h("b", {}, `${clock(group.t)}${batches}`), ...this.values(group).map(([name, value]) => h("div", {}, `${name}: ${value}`)));
    const room = this.tip.offsetWidth;
    this.tip.style.left = `${left + 14 + room > this.width ? Math.max(left - room - 14, 0) : left + 14}px`;
  }
}

function line(groups, values, x, y) {
  let path = "", pen = "M";
  groups.forEach((group, at) => {
    if (values[at] === null || values[at] === undefined) { pen = "M"; return; }
    path += `${pen}${x(group.t).toFixed(1)} ${y(values[at]).toFixed(1)}${pen === "M" ? "h0" : ""}`; // a point alone is a dot
    pen = "L";
  });
  return path;
}

function area(groups, values, x, y) {
  const there = groups.map((group, at) => [group, values[at]]).filter(([, value]) => value !== null && value !== undefined);
  if (there.length < 2) return "";
  const above = there.map(([group, value]) => `${x(group.t).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
  return `M${x(there[0][0].t).toFixed(1)} ${y(0)}L${above}L${x(there[there.length - 1][0].t).toFixed(1)} ${y(0)}Z`;
}

function steps(groups, low, high, x, y) {
  return groups.map((group, at) => {
    if (high[at] <= low[at]) return "";
    const left = x(group.from).toFixed(1), right = Math.max(x(group.t) - 0.6, x(group.from) + 0.8).toFixed(1);
    return `M${left} ${y(low[at]).toFixed(1)}V${y(high[at]).toFixed(1)}H${right}V${y(low[at]).toFixed(1)}Z`;
  }).join("");
}
