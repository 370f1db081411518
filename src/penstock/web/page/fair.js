// Fairness of all queries on the page, by the source information content that each reports.

import { Chart } from "./chart.js";
import { mean } from "./grouped.js";

const COLORS = 6;
// What a query told longer ago than this says nothing about now.
const OLD_S = 60;

export class Fairness {
  constructor() {
    this.chart = new Chart("Fairness between queries", "Source information content of each query's results, and Jain's index over them; 1 means equal.", {
      format: (value) => (value === null ? "–" : Number(value.toFixed(2)).toString()),
      series: (queries) => [
        ...queries.map((query, at) => ({ name: `SIC ${query}`, kind: "line", faint: queries.length > COLORS, color: `var(--shed-${at % COLORS})`, of: (group) => mean(group, (one) => one.sic[query]) })),
        { name: "Jain's index", kind: "line", color: "var(--ink)", of: (group) => mean(group, (one) => one.jain) },
      ],
    });
    this.panel = this.chart.panel;
    this.panel.classList.add("wide");
  }

  // For one query's log, of those of all, and the time from which on it is shown.
  update(log, logs, since) {
    this.panel.hidden = !log.points.some(tells);
    if (this.panel.hidden) return;
    const points = together(logs).filter((one) => one.t >= since);
    this.chart.update(points, log.head.starts, [...new Set(points.flatMap((one) => Object.keys(one.sic)))]);
  }
}

const tells = (point) => Object.keys(point.sic).length > 0;

// What was known of every query at the end of each batch of any.
function together(logs) {
  const told = logs.filter((one) => one.kind !== "network").flatMap((one) => one.points.filter(tells)).sort((one, other) => one.t - other.t);
  const known = new Map();
  return told.map((point) => {
    for (const [query, sic] of Object.entries(point.sic)) known.set(query, { sic, t: point.t });
    for (const [query, last] of known) if (last.t < point.t - OLD_S) known.delete(query);
    const sic = Object.fromEntries([...known].map(([query, last]) => [query, last.sic]));
    return { t: point.t, d: point.d, sic, jain: jain(Object.values(sic)) };
  });
}

function jain(shares) {
  const squares = shares.length * shares.reduce((all, one) => all + one * one, 0);
  return squares ? shares.reduce((all, one) => all + one, 0) ** 2 / squares : 1;
}
