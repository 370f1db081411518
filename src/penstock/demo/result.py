"""The numbers of a finished run, as plain data: latency by window, the account, what was shed, and the answers.

Incoming rows are known exactly, because the source is deterministic; kept rows are read from the query's results. So
the guard's account can be checked batch by batch.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.demo.workload import CALM_LOAD, CORES, MUST_KEEP, OVERLOAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from penstock.demo.run import Run
    from penstock.demo.workload import Workload
    from penstock.messages.report import Report

WINDOW_S = 10.0
TOP_KEYS = 10
#: Edges of the cost classes.
CLASSES_MS = (0.0, 0.8, 1.6, 3.2, 4.8, 6.4)


def workload_facts(workload: Workload) -> dict[str, Any]:
    """The workload: what arrived and what it cost."""
    calm, overload = workload.profile.rows_per_s
    population = workload.population
    return {
        "cores": CORES,
        "keys": population.keys,
        "skew": population.skew,
        "min_cost_ms": population.min_cost_ms,
        "max_cost_ms": population.max_cost_ms,
        "mean_cost_ms": workload.mean_cost_ms,
        "calm_s": workload.calm_s,
        "calm_load": CALM_LOAD,
        "calm_rows_per_s": calm,
        "overload": OVERLOAD,
        "overload_rows_per_s": overload,
        "rows_per_batch": workload.rows_per_batch,
        "must_keep": MUST_KEEP,
    }


class Outcome:
    """A finished run as arrays: one entry a row that came in, one a row that was kept."""

    def __init__(self, run: Run) -> None:
        if run.rows is None:
            raise ValueError("the run has not been executed")
        self.run, self.rows_in = run, run.rows_in
        truth, workload = run.workload.rows(self.rows_in), run.workload
        self.keys, self.costs_ms, self.values = (truth[name].to_numpy() for name in ("key", "cost_ms", "value"))
        self.must_keep = workload.must_keep(self.keys)
        self.arrivals_s = workload.profile.arrival_s(np.arange(self.rows_in))
        self.kept_rows, self.weights, taken_s = (run.rows[name].to_numpy() for name in ("row", "weight", "taken_s"))
        self.taken_s = taken_s - run.start_s
        self.waits_s = np.maximum(self.taken_s - self.arrivals_s[self.kept_rows], 0.0)

    def facts(self) -> dict[str, Any]:
        """The numbers of the run."""
        run = self.run
        return {
            "name": run.name,
            "mode": run.mode,
            "end_s": run.end_s,
            "windows": windows(self.taken_s, self.waits_s, run.workload.seconds),
            "account": self.account(),
            "answers": self.answers(),
            "by_cost": self.by_cost(),
            "keys": self.by_key(),
            "seconds": self.by_second(),
            "batches": [_batch(report, run.start_s) for report in run.reports],
            "alarms": list(run.alarms),
            "errors": run.errors,
        }

    def account(self) -> dict[str, Any]:
        """Rows in, kept and shed by reason; `exact` if each batch's count agrees with the rows found in the results."""
        shed: Counter[str] = Counter()
        for report in self.run.reports:
            shed.update(report.rows_shed)
        kept = sum(report.rows_kept for report in self.run.reports)
        return {
            "rows_in": self.rows_in,
            "kept": kept,
            "shed": dict(shed),
            "batches": len(self.run.reports),
            "exact": exact(self.run.reports, self.kept_rows),
            "must_keep_in": int(self.must_keep.sum()),
            "must_keep_kept": int(self.must_keep[self.kept_rows].sum()),
        }

    def answers(self) -> list[dict[str, Any]]:
        """What the weighted rows say about all rows, beside the truth."""
        kept, weights = self.kept_rows, self.weights
        total = float(weights.sum())
        count_error = math.sqrt(max(float((weights * (weights - 1.0)).sum()), 0.0))
        found = [_answer("rows", float(self.rows_in), total, count_error, float(len(kept)))]
        for name, column in (("mean value", self.values), ("mean cost, ms", self.costs_ms)):
            mean = float(weights @ column[kept]) / total if total else math.nan
            spread = weights * (weights - 1.0) * (column[kept] - mean) ** 2
            error = math.sqrt(max(float(spread.sum()), 0.0)) / total if total else math.nan
            plain = float(column[kept].mean()) if len(kept) else math.nan
            found.append(_answer(name, float(column.mean()), mean, error, plain))
        return found

    def by_cost(self) -> list[dict[str, Any]]:
        """Rows in and kept by class of cost, and how many the weights say there were; rows that must be kept apart."""
        count = len(CLASSES_MS)
        class_of = np.where(self.must_keep, count - 1, np.searchsorted(CLASSES_MS, self.costs_ms, side="left") - 1)
        kept_class = class_of[self.kept_rows]
        rows_in, kept = np.bincount(class_of, minlength=count), np.bincount(kept_class, minlength=count)
        weight = np.bincount(kept_class, self.weights, minlength=count)
        above_ms, to_ms = zip(*pairwise(CLASSES_MS), (CLASSES_MS[0], CLASSES_MS[-1]), strict=True)
        last = np.arange(count) == count - 1
        return _rows(above_ms=above_ms, to_ms=to_ms, must_keep=last, rows_in=rows_in, kept=kept, weight=weight)

    def by_key(self) -> list[dict[str, Any]]:
        """Every key, the one with most shed rows first."""
        keys = self.run.workload.population.keys
        rows_in = np.bincount(self.keys, minlength=keys)
        kept = np.bincount(self.keys[self.kept_rows], minlength=keys)
        cost_ms = np.zeros(keys)
        cost_ms[self.keys] = self.costs_ms
        order = np.argsort(kept - rows_in, kind="stable")
        key = order[rows_in[order] > 0]
        must_keep = self.run.workload.must_keep(key)
        return _rows(key=key, cost_ms=cost_ms[key], rows_in=rows_in[key], kept=kept[key], must_keep=must_keep)

    def by_second(self) -> list[dict[str, Any]]:
        """Of each second: rows that arrived and how many of those were kept, rows taken up and how long they waited."""
        length = math.ceil(self.run.workload.seconds)
        arrived = _per_second(self.arrivals_s, length)
        kept = _per_second(self.arrivals_s[self.kept_rows], length)
        taken, waits_s = _per_second(self.taken_s, length), _per_second(self.taken_s, length, self.waits_s)
        means_s = [float(wait_s / rows) if rows else None for wait_s, rows in zip(waits_s, taken, strict=True)]
        counts = {name: own.astype(np.int64) for name, own in (("arrived", arrived), ("kept", kept), ("taken", taken))}
        return _rows(second=range(length), **counts, mean_wait_s=means_s)


def windows(taken_s: NDArray[np.float64], waits_s: NDArray[np.float64], seconds: float) -> list[dict[str, Any]]:
    """How long rows waited, by the window in which they were taken up."""
    found = []
    for start_s in np.arange(0.0, seconds, WINDOW_S):
        end_s = min(start_s + WINDOW_S, seconds)
        part = waits_s[(taken_s >= start_s) & (taken_s < end_s)]
        found.append(
            {
                "start_s": float(start_s),
                "end_s": float(end_s),
                "rows": len(part),
                "mean_wait_s": float(part.mean()) if len(part) else None,
                "max_wait_s": float(part.max()) if len(part) else None,
            }
        )
    return found


def exact(reports: Sequence[Report], kept_rows: NDArray[np.int64]) -> bool:
    """Whether every batch's rows in = kept + shed, and its results hold exactly the rows it says were kept, each once.

    The source numbers its rows, so a batch that took in n rows took the n numbers after those of the batch before it.
    """
    if len(np.unique(kept_rows)) != len(kept_rows):
        return False
    ends = np.cumsum([report.rows_in for report in reports])
    found = np.bincount(np.searchsorted(ends, kept_rows, side="right"), minlength=len(reports))
    told = [report.rows_kept for report in reports]
    balanced = all(report.rows_in == report.rows_kept + report.shed_total for report in reports)
    return balanced and found.tolist() == told


def _rows(**columns: Iterable[Any]) -> list[dict[str, Any]]:
    """Columns as plain rows."""
    plain = [own.tolist() if isinstance(own, np.ndarray) else own for own in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]


def _answer(name: str, truth: float, weighted: float, standard_error: float, plain: float) -> dict[str, Any]:
    return {"name": name, "truth": truth, "weighted": weighted, "standard_error": standard_error, "plain": plain}


def _per_second(
    times_s: NDArray[np.float64], length: int, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    within = (times_s >= 0.0) & (times_s < length)
    chosen = np.ones(int(within.sum())) if weights is None else weights[within]
    return np.bincount(times_s[within].astype(np.int64), chosen, minlength=length).astype(np.float64)


def _batch(report: Report, start_s: float) -> dict[str, Any]:
    return {
        "batch": report.sequence,
        "start_s": report.start_s - start_s,
        "end_s": report.end_s - start_s,
        "rows_in": report.rows_in,
        "kept": report.rows_kept,
        "shed": dict(report.rows_shed),
        "must_keep": report.rows_must_keep,
        "plan_version": report.plan_version,
        "busy_s": report.busy_s,
        "mean_wait_s": report.queuing.mean_s if report.queuing else None,
    }
