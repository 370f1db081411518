// A query network: load against what is allowed, drops on its arcs, and each output's cursor on its QoS graph.

import { Chart } from "./chart.js";
import { mean, most } from "./grouped.js";
import { clock, count, h, many, put, s, share, table, tile, times, total } from "./parts.js";

const number = (value) => (value === null || value === undefined ? "–" : value < 100 ? Number(value.toFixed(2)).toString() : count(value));

export class NetworkView {
  constructor() {
    this.tiles = h("dl", { class: "tiles" });
    this.load = new Chart("Load", "Work due per second, and the allowed work, in seconds of a task.", {
      format: number,
      series: () => [
        { name: "due without drops", kind: "line", color: "var(--shed-1)", of: (group) => most(group, (one) => one.load) },
        { name: "done with drops", kind: "area", color: "var(--kept)", fill: "color-mix(in srgb, var(--kept) 16%, transparent)", of: (group) => mean(group, (one) => one.done) },
        { name: "allowed", kind: "line", color: "var(--target)", of: (group) => mean(group, (one) => one.allowed) },
      ],
    });
    this.utility = new Chart("Utility", "Utility of the outputs with the rows they get; 1 is the maximum.", {
      format: number,
      series: () => [{ name: "mean over outputs", kind: "line", color: "var(--wait)", fill: "var(--wait-fill)", of: (group) => mean(group, (one) => one.utility) }],
    });
    this.drawing = h("div", { class: "panel wide" });
    this.outputs = h("div", { class: "panel wide" });
    this.places = h("div", { class: "panel" });
    this.plans = h("div", { class: "panel" });
    this.node = h("div", {}, this.tiles, h("div", { class: "grid" }, this.drawing, this.load.panel, this.utility.panel, this.outputs, this.places, this.plans));
  }

  update(log, points) {
    const head = log.head, last = head.last, point = points[points.length - 1];
    const dropped = total(head.rows_shed);
    put(this.tiles, [head.batches, head.state, dropped], () => [
      tile("Load due", number(point?.load), point ? `of ${number(point.allowed)} allowed` : ""),
      tile("Load done", number(point?.done), "with the drops in force"),
      tile("Rows in", count(head.rows_in), `in all, in ${many(head.batches, "batch", "batches")}`),
      tile("Rows dropped", count(dropped), head.rows_in ? `in all, at ${many(Object.keys(head.rows_shed).length, "place")}` : ""),
      tile("Mean utility", number(point?.utility), "over all outputs"),
      tile("Road map", last ? `entry ${last.entry}` : "–", last ? `of ${last.entries}; built ${times(head.rebuilt)}` : ""),
    ]);
    this.load.update(points, [], head);
    this.utility.update(points, [], head);
    put(this.drawing, [head.drawing, last?.batch], () => drawn(head.drawing, last));
    put(this.outputs, [last?.delivered, last?.utilities], () => qos(head.drawing, last));
    put(this.places, head.rows_shed, () => places(head));
    put(this.plans, [log.decisions.length, log.decisions[log.decisions.length - 1]], () => plans(log.decisions));
  }
}

function places(head) {
  const rows = Object.entries(head.rows_shed).sort((one, two) => two[1] - one[1]).map(([place, dropped]) => [place, count(dropped), head.last?.drops[place] || "no drop now"]);
  return [h("h3", {}, "Rows dropped, by place"), table("Rows dropped by place", [["place", "words"], ["rows", "number"], ["now", "words"]], rows, "No row was dropped.")];
}

function plans(decisions) {
  const rows = [...decisions].reverse().map((one) => [clock(one.t), `${one.version}`, Object.entries(one.drops).map(([place, words]) => `${place}: ${words}`).join("; ") || "nothing is dropped"]);
  return [h("h3", {}, "Plans, newest first"), table("Plans", [["time", "number"], ["entry", "number"], ["drops", "words"]], rows, "No plan yet.")];
}

function text(x, y, words, kind = "", anchor = "start") {
  return s("text", { x, y, class: kind, "text-anchor": anchor }, words);
}

const cut = (words, letters) => (words.length > letters ? `${words.slice(0, Math.ceil(letters / 2) - 1)}…${words.slice(-Math.floor(letters / 2))}` : words);

function folded(words, letters) {
  const lines = [""];
  for (const word of words.split(" ")) {
    const joined = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (joined.length <= letters || !lines[lines.length - 1]) lines[lines.length - 1] = joined;
    else lines.push(word);
  }
  return lines.slice(0, 2).map((line, at) => cut(at === 1 && lines.length > 2 ? `${line} …` : line, letters));
}

function disc(x, y) {
  return s("g", {}, s("circle", { class: "disc", cx: x, cy: y, r: 7 }), s("path", { class: "cross", d: `M${x - 3} ${y - 3}l6 6m0-6l-6 6` }));
}

function drawn(network, last) {
  const title = last ? `The network after batch ${last.batch}` : "The network";
  if (!network) return [h("h3", {}, title)];
  const loads = last?.loads || {}, heaviest = Math.max(...Object.values(loads).map((one) => one || 0), 1e-12);
  const parts = network.arcs.map((arc) => arcDrawn(arc, last, loads, heaviest, new Set(network.outputs.map((one) => one.name))));
  const all = Object.values(loads).reduce((sum, one) => sum + (one || 0), 0);
  for (const name of network.inputs) parts.push(node(network, name, "input", [last ? `${count(last.rates[name])} rows/s` : "input"], last?.drops[name]));
  for (const box of network.boxes) {
    const own = network.arcs.filter((arc) => arc.target === box.name).reduce((sum, arc) => sum + (loads[arc.name] || 0), 0);
    parts.push(node(network, box.name, "box", [own && all ? `${box.op} ${share(own / all)}` : box.op], null, all ? own / all : 0));
  }
  for (const output of network.outputs) {
    const percent = last?.delivered[output.name], worth = last?.utilities[output.name];
    parts.push(node(network, output.name, "output", percent === undefined || percent === null ? ["no rows"] : [`${Math.round(percent)}% delivered`, `utility ${number(worth)}`], null, 0, percent));
  }
  const drops = Object.entries(last?.drops || {}).map(([place, words]) => `${place}: ${words}`);
  const told = `${title}. ${drops.length ? `Drops: ${drops.join("; ")}` : "Nothing is dropped"}.`;
  return [
    h("h3", {}, title),
    h("p", { class: "note" }, "Rows a second above each arc, load below it; the thicker the arc, the more load. A red disc is a drop. A dashed arc carries no rows."),
    h("div", { class: "net scroll", tabindex: "0", role: "region", "aria-label": "Drawing of the network", style: { maxHeight: "none" } },
      s("svg", { role: "img", "aria-label": told, style: { maxWidth: `${network.width}px`, minWidth: `${Math.min(network.width, 760)}px` }, viewBox: `0 0 ${network.width} ${network.height}` }, parts)),
  ];
}

function arcDrawn(arc, last, loads, heaviest, outputs) {
  const [[startX, startY], ...rest] = arc.points, flow = last?.flows[arc.name], drop = last?.drops[arc.name];
  let path = `M${startX} ${startY}`, x = startX, y = startY;
  rest.forEach(([right, below], at) => {
    const half = (x + right) / 2;
    path += at % 2 ? `H${right}` : `C${half} ${y} ${half} ${below} ${right} ${below}`;
    [x, y] = [right, below];
  });
  const left = arc.label[0] + (drop ? 18 : 4), below = [];
  if (last && !outputs.has(arc.target)) below.push([`load ${number(loads[arc.name])}`, "dim"]);
  if (drop) for (const line of folded(drop, 16)) below.push([line, "drop"]);
  const told = `${arc.name}${last ? `: ${count(flow)} rows/s` : ""}${drop ? `; ${drop}` : ""}`;
  return s("g", { class: last && !flow ? "dry" : "", "data-place": arc.name },
    s("title", {}, told),
    s("path", { class: "flow", d: path, "stroke-width": 1.2 + (4 * (loads[arc.name] || 0)) / heaviest }),
    s("polygon", { class: "head", points: `${x},${y} ${x - 7},${y - 4} ${x - 7},${y + 4}` }),
    last ? text(left, y - 5, `${count(flow)} rows/s`) : null,
    below.map(([words, kind], at) => text(left, y + 13 * (at + 1), words, kind)),
    drop ? disc(arc.label[0] + 6, y) : null);
}

function node(network, name, kind, lines, drop, heat = 0, percent = null) {
  const [x, y, width, height] = network.nodes[name], written = [[cut(name, 20), "name"], ...lines.map((line) => [line, kind === "output" ? "cursor" : "dim"])];
  if (drop) for (const line of folded(drop, 20)) written.push([line, "drop"]);
  const top = y + height / 2 - (written.length * 13 + (percent === null ? 0 : 8)) / 2;
  const full = width - 16;
  return s("g", { class: kind, "data-place": name },
    s("title", {}, [name, ...lines, drop || ""].filter(Boolean).join(", ")),
    s("rect", { class: "body", x, y, width, height, rx: kind === "box" ? 3 : 10, style: heat ? { fill: `color-mix(in srgb, var(--shed-0) ${Math.min(Math.round(120 * heat), 80)}%, var(--panel))` } : null }),
    written.map(([words, as], at) => text(x + 8, top + 13 * (at + 1) - 3, words, as)),
    percent === null || percent === undefined ? null : [
      s("rect", { x: x + 8, y: top + 13 * written.length + 2, width: full, height: 4, rx: 2, style: { fill: "var(--hair)", stroke: "none" } }),
      s("rect", { x: x + 8, y: top + 13 * written.length + 2, width: (full * Math.min(Math.max(percent, 0), 100)) / 100, height: 4, rx: 2, style: { fill: "var(--wait)", stroke: "none" } }),
    ],
    drop ? disc(x + width, y + height / 2) : null);
}

function qos(network, last) {
  if (!network) return [];
  return [
    h("h3", {}, "Quality of service"),
    h("p", { class: "note" }, "Utility by percent of rows delivered. The dot is the output's cursor now."),
    h("div", { class: "graphs" }, network.outputs.map((output) => graph(output, last?.delivered[output.name], last?.utilities[output.name]))),
  ];
}

function graph(output, percent, utility) {
  const left = 28, top = 8, wide = 180, high = 90, x = (at) => left + wide * (1 - at / 100), y = (at) => top + high * (1 - at);
  const known = percent !== null && percent !== undefined && utility !== null && utility !== undefined;
  const told = known ? `${Math.round(percent)}% delivered, utility ${number(utility)}` : "no rows yet";
  return h("figure", {},
    h("figcaption", {}, h("b", {}, output.name), told),
    s("svg", { viewBox: "0 0 216 124", role: "img", "aria-label": `${output.name}: ${told}` },
      s("rect", { class: "frame", x: left, y: top, width: wide, height: high }),
      s("polyline", { class: "curve", points: output.qos.map(([at, worth]) => `${x(at)},${y(worth)}`).join(" ") }),
      [0, 0.5, 1].map((at) => text(left - 6, y(at) + 3.5, `${at}`, "", "end")),
      [100, 50, 0].map((at) => text(x(at), top + high + 14, `${at}`, "", "middle")),
      known ? [s("path", { class: "reach", d: `M${x(percent)} ${y(0)}V${y(utility)}H${left}` }), s("circle", { class: "cursor", cx: x(percent), cy: y(utility), r: 5 })] : null));
}
