// A guarded query, or a site of a federation, of which less is known: latency against its target, rows kept and shed, backlog, costs, plans, and why a row was dropped.

import { SECONDS } from "./axis.js";
import { Chart } from "./chart.js";
import { Fairness } from "./fair.js";
import { mean, most, sum } from "./grouped.js";
import { bar, clock, count, h, many, put, seconds, share, table, tile, times, total } from "./parts.js";
import { Why } from "./why.js";

const SHED = 6;
const RECENT_S = 10;
const rate = (of) => (group) => sum(group, of) / group.d;

// The reasons in the order in which they were met, so that each keeps its colour.
const reasons = (head) => [...new Set([...Object.keys(head.rows_shed), ...Object.keys(head.rows_would_shed)])];

export class GuardView {
  constructor() {
    this.tiles = h("dl", { class: "tiles" });
    this.latency = new Chart("Queuing latency", "Wait of rows from arrival to the start of processing.", {
      format: seconds,
      units: SECONDS,
      limit: (head) => head.target_s,
      series: () => [
        { name: "longest wait", kind: "line", faint: true, color: "var(--wait)", of: (group) => most(group, (one) => one.max_s) },
        { name: "mean wait", kind: "line", color: "var(--wait)", fill: "var(--wait-fill)", of: (group) => mean(group, (one) => one.mean_s, (one) => one.kept) },
      ],
    });
    this.latency.panel.classList.add("wide");
    this.rows = new Chart("Rows a second", "Every incoming row is kept, or shed with a reason.", {
      format: count,
      limit: (head) => head.target_rows_per_s,
      series: (head) => [
        { name: "must be kept", kind: "stack", color: "var(--must)", of: rate((one) => one.must) },
        { name: "kept", kind: "stack", color: "var(--kept-fill)", of: rate((one) => one.kept - one.must - total(one.would)) },
        ...reasons(head).map((reason, at) => ({
          name: head.mode === "dry_run" ? `would be shed: ${reason}` : `shed: ${reason}`, kind: "stack", color: `var(--shed-${at % SHED})`,
          of: rate((one) => (one.shed[reason] || 0) + (one.would[reason] || 0)),
        })),
      ].filter((one) => one.name !== "must be kept" || head.rows_must_keep),
    });
    const purple = { kind: "line", color: "var(--shed-2)", fill: "color-mix(in srgb, var(--shed-2) 16%, transparent)" };
    this.age = new Chart("Age of the backlog", "Wait of the oldest row at the source.", {
      format: seconds,
      units: SECONDS,
      series: () => [{ ...purple, name: "oldest row", of: (group) => most(group, (one) => one.age_s) }],
    });
    this.waiting = new Chart("Backlog", "Rows that wait at the source when a batch ends; their age was not measured.", {
      format: count,
      series: () => [{ ...purple, name: "rows", of: (group) => most(group, (one) => one.waiting) }],
    });
    this.fair = new Fairness();
    this.reasons = h("div", { class: "panel" });
    this.costs = h("div", { class: "panel" });
    this.plans = h("div", { class: "panel wide" });
    this.why = new Why();
    this.node = h("div", {}, this.tiles, h("div", { class: "grid" }, this.latency.panel, this.rows.panel, this.age.panel, this.waiting.panel, this.fair.panel, this.reasons, this.costs, this.why.panel, this.plans));
  }

  update(log, points, logs) {
    const head = log.head, site = log.kind === "site";
    put(this.tiles, [head.batches, head.state, head.plan], () => (site ? tiles(head, log.points).slice(1, 4) : tiles(head, log.points)));
    for (const panel of [this.latency.panel, this.costs, this.plans, this.why.panel]) panel.hidden = site;
    this.latency.update(points, head.starts, head);
    this.rows.update(points, head.starts, head);
    const aged = points.some((one) => one.age_s) || !points.some((one) => one.waiting);
    this.age.panel.hidden = site || !aged;
    this.waiting.panel.hidden = site || aged;
    (aged ? this.age : this.waiting).update(points, head.starts, head);
    this.fair.update(log, logs, points.length ? points[0].t : 0);
    put(this.reasons, [head.rows_shed, head.rows_would_shed, head.rows_in], () => byReason(head));
    put(this.costs, head.costs, () => costs(head));
    put(this.plans, [log.decisions.length, log.decisions[log.decisions.length - 1], head.renewals], () => plans(log, head));
    this.why.update(log);
  }
}

function tiles(head, points) {
  const last = points[points.length - 1];
  const recent = { some: last ? points.filter((one) => one.t >= last.t - RECENT_S) : [] };
  // From the end of the batch before them, as far as the query ran: a trigger may leave time between batches.
  const before = points[points.length - recent.some.length - 1], started = head.starts[head.starts.length - 1] || 0;
  const first = last ? recent.some[0].t - recent.some[0].d : 0, from = before ? Math.min(Math.max(before.t, started), first) : first;
  const span = last && last.t > from ? last.t - from : 1, lately = last ? (recent.some.length > 1 ? `last ${RECENT_S} s` : "last batch") : "";
  const waited = mean(recent, (one) => one.mean_s, (one) => one.kept), longest = most(recent, (one) => one.max_s);
  const lag = head.target_kind === "MaxLag", held = lag ? longest : waited;
  const level = head.target_s && held !== null ? head.verdict.level : "";
  const shed = total(head.rows_shed), would = total(head.rows_would_shed), taken = sum(recent, (one) => one.in);
  const since = head.since_s === null ? "" : ` since ${clock(head.since_s)}`;
  return [
    tile(lag ? "Longest wait" : "Mean wait", seconds(held), [held === null ? "" : lately, head.target_s ? `target ${seconds(head.target_s)}` : "no latency target"], level),
    tile("Rows in", `${count(taken / span)}/s`, [lately, `in all: ${count(head.rows_in)} in ${many(head.batches, "batch", "batches")}${since}`]),
    tile("Kept", share(taken ? sum(recent, (one) => one.kept) / taken : null), [taken ? lately : "", head.rows_in ? `in all: ${share(head.rows_kept / head.rows_in)}, ${many(head.rows_kept, "row")}` : ""]),
    head.mode === "dry_run" ? tile("Would be shed", count(would), ["in all", "a dry run keeps every row"]) : tile("Shed", count(shed), ["in all", head.rows_in ? `${share(shed / head.rows_in)} of all rows` : ""]),
    last && last.waiting && !last.age_s ? tile("Backlog", count(last.waiting), "rows wait at the source") : tile("Oldest in backlog", seconds(last ? last.age_s : null), last ? `${many(last.waiting, "row waits", "rows wait")}` : ""),
    tile("Plan", head.plan === null ? "none" : `${head.plan}`, last && last.plan !== null ? `the last batch met ${last.plan}` : "every row is kept"),
  ];
}

function byReason(head) {
  const dry = head.mode === "dry_run", all = dry ? head.rows_would_shed : head.rows_shed, order = reasons(head);
  const rows = Object.entries(all).sort((one, two) => two[1] - one[1])
    .map(([reason, rows]) => [reason, count(rows), bar(head.rows_in ? rows / head.rows_in : 0, `var(--shed-${order.indexOf(reason) % SHED})`)]);
  return [
    h("h3", {}, dry ? "Rows that would be shed, by reason" : "Rows shed, by reason"),
    h("p", { class: "note" }, `${count(head.rows_in)} in = ${count(head.rows_kept)} kept + ${count(head.rows_in - head.rows_kept)} shed.` + (head.rows_must_keep ? ` ${count(head.rows_must_keep)} had to be kept.` : "")),
    table("Rows by reason", [["reason", "words"], ["rows", "number"], ["of all rows", ""]], rows, "No row was shed."),
  ];
}

function costs(head) {
  const rows = head.costs.map((one) => [`${seconds(one.from_s)} to ${seconds(one.to_s)}`, bar(one.rows, "var(--wait)"), bar(one.work, "var(--shed-0)"), bar(one.kept)]);
  return [
    h("h3", {}, "Cost of a row, by class of keys"),
    h("p", { class: "note" }, "Classes of keys by recently measured cost, and their keep share in the newest plan."),
    table("Costs", [["cost of a row", "words"], ["rows in", ""], ["work", ""], ["kept", ""]], rows, "Nothing was measured yet."),
  ];
}

// Each reason once, with how much is kept for it: costly keys (1 of the key buckets keeps 25%, 3 keep 50%).
function explained(all) {
  const keeps = (why, at) => `${count(why.buckets)} ${at ? "" : "of the key buckets "}${why.buckets === 1 ? "keeps" : "keep"} ${share(why.keep)}`;
  return [...new Set(all.map((why) => why.reason))].map((reason) => `${reason} (${all.filter((why) => why.reason === reason).map(keeps).join(", ")})`).join("; ");
}

function plans(log, head) {
  const rows = [...log.decisions].reverse().slice(0, 200).map((one) => [
    clock(one.t), `${one.version}`, one.keep === null ? "–" : share(one.keep), seconds(one.latency_s),
    explained(one.reasons) || "every row is kept", one.note,
  ]);
  const renewed = head.renewals ? ` The newest was renewed ${times(head.renewals)} since.` : "";
  return [
    h("h3", {}, "Plans, newest first"),
    h("p", { class: "note" }, `A plan is on disk before any row is judged by it.${renewed}`),
    table("Plans", [["decided", "number"], ["plan", "number"], ["keeps", "number"], ["expects", "number"], ["why", "words"], ["note", "words"]], rows, "No plan yet: every row is kept."),
  ];
}
