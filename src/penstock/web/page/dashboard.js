// The page: listens to the server, keeps the state of each log, and shows the chosen one.

import { GuardView } from "./guard.js";
import { NetworkView } from "./network.js";
import { h, put } from "./parts.js";

const MOST_POINTS = 3000, MOST_DECISIONS = 300;
const RANGES = [["5 min", 300], ["1 h", 3600], ["All", Infinity]];
const THEMES = ["auto", "light", "dark"];
const STATES = { running: "running", quiet: "quiet: no sign of life for a while", ended: "ended", gone: "gone", waiting: "waiting for its first batch" };

const $ = (id) => document.getElementById(id);
const logs = new Map();
let chosen = location.hash.slice(1), range = Infinity, view = null, answers = null;

function take(message) {
  if (message.first) logs.clear();
  for (const one of message.logs) {
    const known = one.reset || !logs.has(one.id) ? { points: [], decisions: [] } : logs.get(one.id);
    known.points = [...known.points, ...one.points].slice(-MOST_POINTS);
    known.decisions = [...known.decisions, ...one.decisions].slice(-MOST_DECISIONS);
    logs.set(one.id, Object.assign(known, { id: one.id, kind: one.kind, name: one.name, head: one.head }));
  }
  show();
}

const shown = () => logs.get(chosen) || [...logs.values()].find((one) => one.head.state === "running") || logs.values().next().value;

function show() {
  const log = shown();
  $("empty").hidden = logs.size > 0;
  $("empty").textContent = "No log yet. It appears here as soon as a query runs.";
  $("view").hidden = !log;
  tabs(log);
  linked();
  if (!log) { notice(""); return; }
  notice(log.head.trouble);
  if (!view || view.id !== log.id) {
    const body = log.kind === "network" ? new NetworkView() : new GuardView();
    view = { id: log.id, body, hero: h("div", { class: "hero" }), ranges: ranges() };
    $("view").replaceChildren(view.hero, body.node);
  }
  const head = log.head;
  put(view.hero, [head.verdict, head.state, head.target, head.policy, head.mode, head.folder, head.alarms, head.errors, head.unreadable, range], () => hero(log));
  const last = log.points[log.points.length - 1];
  view.body.update(log, last && range !== Infinity ? log.points.filter((one) => one.t >= last.t - range) : log.points, [...logs.values()]);
  document.title = `${log.name}: ${head.verdict.text}`;
}

function hero(log) {
  const { head } = log;
  const facts = [["Query", log.name], ["State", STATES[head.state] || head.state], ["Target", head.target], ["Policy", head.policy], ["Mode", head.mode === "dry_run" ? "dry run" : head.mode], ["Log", head.folder]];
  const more = [...head.alarms];
  if (head.errors) more.push(`The guard caught ${head.errors} error${head.errors > 1 ? "s" : ""}.`);
  if (head.unreadable) more.push(`${head.unreadable} line${head.unreadable > 1 ? "s" : ""} of the journal could not be read and ${head.unreadable > 1 ? "are" : "is"} left out.`);
  return [
    h("h2", {}, h("span", { class: "dot", "data-level": head.state === "gone" ? "bad" : head.verdict.level, "aria-hidden": "true" }), h("span", {}, head.verdict.text)),
    h("p", { class: "facts" }, facts.filter(([, value]) => value).flatMap(([name, value], at) => [at ? " · " : "", `${name} `, h("b", {}, value)])),
    more.length ? h("ul", { class: "alarms", "aria-label": "Alarms" }, more.map((line) => h("li", {}, line))) : null,
    ranges(),
  ];
}

function ranges() {
  return h("div", { class: "ranges", role: "group", "aria-label": "How much time the charts show" }, RANGES.map(([name, seconds]) =>
    h("button", { type: "button", "aria-pressed": `${range === seconds}`, onclick: () => { range = seconds; show(); $("view").querySelector(".ranges [aria-pressed=true]")?.focus(); } }, name)));
}

function tabs(log) {
  const bar = $("tabs");
  bar.hidden = logs.size < 2;
  put(bar, [[...logs.values()].map((one) => [one.id, one.name, one.head.state, one.head.verdict.level]), log?.id], () => [...logs.values()].map((one) => {
    const level = one.head.state === "gone" ? "bad" : one.head.state === "running" ? one.head.verdict.level : "none";
    return h("button", {
      type: "button", role: "tab", id: `tab-${one.id}`, "aria-selected": `${one === log}`, "aria-controls": "view", tabindex: one === log ? "0" : "-1", title: one.name,
      onclick: () => choose(one.id), onkeydown: (event) => step(event, one.id),
    }, h("span", { class: "dot", "data-level": level, "aria-hidden": "true" }), h("span", {}, one.name));
  }));
}

function choose(id) {
  chosen = id;
  history.replaceState(null, "", `#${id}`);
  show();
}

function step(event, id) {
  const ids = [...logs.keys()], move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  event.preventDefault();
  const next = ids[(ids.indexOf(id) + move + ids.length) % ids.length];
  choose(next);
  $(`tab-${next}`)?.focus();
}

function notice(text) {
  const place = $("notice");
  place.hidden = !text;
  if (place.textContent !== text) place.textContent = text;
}

// Whether the page is up to date: the server must answer and have a log.
function linked() {
  const gone = shown()?.head.state === "gone";
  const [state, words] = answers === null ? ["waiting", "connecting"] : !answers ? ["lost", "the server does not answer"] : gone ? ["gone", "connected, but the log is gone"] : ["live", "live"];
  $("link").dataset.state = state;
  if ($("link").textContent !== words) $("link").textContent = words;
}

function heard(whether) {
  answers = whether;
  linked();
}

function listen() {
  const source = new EventSource("api/events");
  source.onopen = () => heard(true);
  source.onmessage = (event) => { take(JSON.parse(event.data)); heard(true); };
  source.onerror = () => {
    heard(false);
    // A browser reconnects unless it was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

function themed(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = $("theme");
  button.textContent = theme[0].toUpperCase() + theme.slice(1);
  button.setAttribute("aria-label", `Colours: ${theme === "auto" ? "as the system has them" : theme}`);
  button.dataset.theme = theme;
}

function kept(theme) {
  try {
    if (theme) localStorage.setItem("penstock-theme", theme);
    return localStorage.getItem("penstock-theme");
  } catch {
    return null; // a browser that keeps nothing
  }
}

themed(THEMES.includes(kept()) ? kept() : "auto");
$("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf($("theme").dataset.theme) + 1) % THEMES.length];
  themed(next);
  kept(next);
});
addEventListener("hashchange", () => { chosen = location.hash.slice(1); show(); });
listen();
