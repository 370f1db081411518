// Charts over time: lines, or rows stacked on rows, with a limit to hold. Read by pointer, by arrow keys, or as words.

import { COUNTS, timeTicks, valueTicks } from "./axis.js";
import { grouped } from "./grouped.js";
import { clock, h, s } from "./parts.js";

const RIGHT = 10, TOP = 10, BOTTOM = 22;
// About what a letter of a label takes.
const LETTER = 6.2;

export class Chart {
  // series(): [{name, color, fill, kind: "line" | "area" | "stack", of: (group) => number | null}], bottom first
  constructor(title, note, { format, units = COUNTS, series, limit = () => null, height = 208 }) {
    this.title = title;
    this.format = format;
    this.units = units;
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
    this.groups = grouped(this.points, (width - 50) / 3, this.starts);
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
    const values = valueTicks(top, this.units), left = 12 + LETTER * Math.max(4, ...values.map(([, name]) => name.length));
    const x = (time) => left + ((time - from) / (to - from)) * (width - left - RIGHT);
    const y = (value) => height - BOTTOM - (value / top) * (height - TOP - BOTTOM);
    this.x = x;
    const parts = values.map(([at, name]) => [
      s("line", { class: "rule", x1: left, x2: width - RIGHT, y1: y(at), y2: y(at) }),
      s("text", { class: "value", x: left - 8, y: y(at) + 4, "text-anchor": "end" }, name),
    ]);
    for (const [time, name] of groups.length ? timeTicks(from, to, width - left - RIGHT) : []) {
      const half = (LETTER * name.length) / 2, middle = Math.min(Math.max(x(time), half), width - half);
      parts.push(s("line", { class: "mark", x1: x(time), x2: x(time), y1: height - BOTTOM, y2: height - BOTTOM + 4 }));
      parts.push(s("text", { class: "time", x: middle, y: height - 4, "text-anchor": "middle" }, name));
    }
    let floor = groups.map(() => 0);
    for (const one of series) {
      const values = groups.map((group) => one.of(group) ?? null);
      if (one.kind === "stack") {
        const above = floor.map((low, at) => low + (values[at] || 0));
        parts.push(s("path", { d: steps(groups, floor, above, x, y), fill: one.color, "data-series": one.name }));
        floor = above;
      } else {
        if (one.fill) parts.push(s("path", { d: area(groups, values, x, y), fill: one.fill, stroke: "none" }));
        parts.push(s("path", { class: "line", d: line(groups, values, x, y), stroke: one.color, "stroke-opacity": one.faint ? 0.45 : 1, "data-series": one.name }));
        for (const [time, value] of alone(groups, values)) parts.push(s("circle", { class: "alone", cx: x(time), cy: y(value), r: 3, fill: one.color, "fill-opacity": one.faint ? 0.45 : 1 }));
      }
    }
    for (const start of this.starts.slice(1)) {
      if (start > from && start < to) parts.push(s("line", { class: "start", x1: x(start), x2: x(start), y1: TOP, y2: height - BOTTOM }, s("title", {}, `started again at ${clock(start)}`)));
    }
    if (limit) parts.push(s("line", { class: "limit", x1: left, x2: width - RIGHT, y1: y(limit), y2: y(limit) }));
    this.cross = s("g");
    parts.push(this.cross);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts.flat());
    this.svg.setAttribute("aria-label", this.words());
    const names = series.map((one) => h("li", {}, h("i", { class: one.kind === "stack" ? "" : "thin", style: { background: one.color, opacity: one.faint ? 0.45 : 1 } }), one.name));
    // Not beside its line: on a narrow chart that lies on others.
    if (limit) names.push(h("li", { class: "limit-name" }, h("i", { class: "dashed" }), `target ${this.format(limit)}`));
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

// What hangs together: nothing lies between its batches, and each has a value.
function runs(groups, values) {
  const found = [];
  groups.forEach((group, at) => {
    if (values[at] === null) return;
    if (!at || !group.joined || values[at - 1] === null) found.push([]);
    found[found.length - 1].push([group.t, values[at]]);
  });
  return found;
}

const alone = (groups, values) => runs(groups, values).filter((run) => run.length === 1).flat();

const drawn = (run, x, y) => run.map(([time, value]) => `${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("L");

const line = (groups, values, x, y) => runs(groups, values).map((run) => `M${drawn(run, x, y)}`).join("");

function area(groups, values, x, y) {
  return runs(groups, values).filter((run) => run.length > 1)
    .map((run) => `M${x(run[0][0]).toFixed(1)} ${y(0)}L${drawn(run, x, y)}L${x(run[run.length - 1][0]).toFixed(1)} ${y(0)}Z`).join("");
}

function steps(groups, low, high, x, y) {
  return groups.map((group, at) => {
    if (high[at] <= low[at]) return "";
    const left = x(group.from).toFixed(1), right = Math.max(x(group.t) - 0.6, x(group.from) + 0.8).toFixed(1);
    return `M${left} ${y(low[at]).toFixed(1)}V${y(high[at]).toFixed(1)}H${right}V${y(low[at]).toFixed(1)}Z`;
  }).join("");
}
