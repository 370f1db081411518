"""Latency under overload: each policy on the same overloaded stream, in turn.

A stream brings 25, 50 and 100 percent more work than two cores can do. Each policy gets its own query, 20 s to learn,
and is measured for 60 s. Measures are mean queuing latency in every window of 10 s, and rows kept. All of that is
repeated, round by round.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.bench.spread import spread
from penstock.bench.workload import RESULT, busy, mean_cost_s, parameters, running, stream
from penstock.core.control.policies import FullKnowledge, LoadAware, Policy, RandomShed, StrawMan
from penstock.core.control.targets import MeanQueueLatency
from penstock.spark.guard.guard import Guard
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.core.row.load_aware import Prefer
    from penstock.messages.report import Report

CORES = 2
WINDOW_S = 10.0
#: The longest wait for the first batch of a run.
PATIENCE_S = 60.0
#: The stream: 1,024 Zipf keys, costs of 0.1 to 6.4 ms by key.
OPTIONS = {"seed": 1, "keys": 1024, "skew": 1.0, "partitions": CORES}


@dataclass(frozen=True)
class Effort:
    """Length and load of the benchmark."""

    repeats: int = 1
    warm_s: float = 8.0  #: the warm-up of the JVM
    overloads: Sequence[float] = (0.25, 0.5, 1.0)
    learn_s: float = 20.0
    measure_s: float = 60.0
    target: str = "2 s"
    prefer: Prefer = "cheap"
    policies: Sequence[str] = ("unguarded", "random", "straw_man", "las", "full_knowledge")


def bench_latency(folder: Path, effort: Effort, done: Callable[[], None]) -> dict[str, Any]:
    """One row for each overload and policy."""
    spark = local_session(folder)
    cost_s = mean_cost_s(spark, OPTIONS)
    capacity = CORES / cost_s
    policies: dict[str, Policy | None] = {
        "unguarded": None,
        "random": RandomShed(),
        "straw_man": StrawMan(mean_cost_s=cost_s),
        "las": LoadAware(prefer=effort.prefer),
        "full_knowledge": FullKnowledge(cost_column="cost_s", prefer=effort.prefer),
    }
    _run(spark, policies["unguarded"], Effort(learn_s=0.0, measure_s=effort.warm_s), rate=capacity / 4.0)
    runs: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for _ in range(effort.repeats):
        for overload in effort.overloads:
            for name in effort.policies:
                reports, begin_s = _run(spark, policies[name], effort, rate=(1.0 + overload) * capacity)
                runs.setdefault((overload, name), []).append(_measured(reports, begin_s, effort))
                done()
    spark.stop()
    return {
        "rows": [{"overload": overload, "policy": name, **all_runs(own)} for (overload, name), own in runs.items()],
        "parameters": {
            **parameters(effort, "warm_s", "overloads", "policies", cores=CORES, window_s=WINDOW_S),
            "mean_cost_ms": 1000.0 * cost_s,
            "capacity_rows_per_s": capacity,
        },
    }


def _run(spark: SparkSession, policy: Policy | None, effort: Effort, rate: float) -> tuple[list[Report], float]:
    """The reports of one query, and when its measurement began. Without a policy nothing is shed: a dry run."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        guard = Guard(
            MeanQueueLatency(effort.target),
            policy or LoadAware(),
            key="key",
            row="row",
            checkpoint=checkpoint,
            mode="dry_run" if policy is None else "enforce",
        )
        begin_s = time.time() + effort.learn_s
        rows = stream(spark, {**OPTIONS, "rate": rate}).transform(guard.admit)
        with running(rows.transform(guard.measured(busy, RESULT, form="row")), guard, checkpoint) as query:
            # One extra batch, so that the last window is complete; without a guard that batch may never end.
            query.awaitTermination(int(effort.learn_s + effort.measure_s + 3.0))
            deadline_s = time.monotonic() + PATIENCE_S
            while query.isActive and not _with_rows(guard) and time.monotonic() < deadline_s:
                time.sleep(0.1)
        # The measurement starts with the first processed row.
        first_s = min((one.start_s + one.delay_s for one in _with_rows(guard)), default=begin_s)
        return guard.history(), max(begin_s, first_s)


def _with_rows(guard: Guard) -> list[Report]:
    return [report for report in guard.history() if report.rows_in]


def _measured(reports: list[Report], begin_s: float, effort: Effort) -> dict[str, Any]:
    windows = windows_s(reports, begin_s, round(effort.measure_s / WINDOW_S))
    limit_s = MeanQueueLatency(effort.target).limit_s
    end_s = begin_s + effort.measure_s
    return {
        "within": sum(latency is not None and latency <= limit_s for latency in windows),
        "kept": round(sum(report.rows_kept * _overlap(report, begin_s, end_s) for report in reports)),
        "rows_in": round(sum(report.rows_in * _overlap(report, begin_s, end_s) for report in reports)),
        "queuing_latency_s": windows,
    }


def all_runs(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Every window of every run, and the median run's rows with their spread."""
    windows = [latency for run in runs for latency in run["queuing_latency_s"]]
    kept = [run["kept"] for run in runs]
    return {
        "windows_within_target": sum(run["within"] for run in runs) / len(windows),
        "kept": round(statistics.median(kept)),
        "kept_spread": spread(kept),
        "rows_in": round(statistics.median(run["rows_in"] for run in runs)),
        "queuing_latency_s": windows,
    }


def windows_s(reports: Sequence[Report], begin_s: float, count: int) -> list[float | None]:
    """Mean queuing latency in each of this many windows."""
    return [window_latency_s(reports, begin_s + at * WINDOW_S, begin_s + (at + 1) * WINDOW_S) for at in range(count)]


def window_latency_s(reports: Sequence[Report], begin_s: float, end_s: float) -> float | None:
    """Mean queuing latency of the rows processed in a window; None if no batch that ended reaches into it."""
    waited_s = rows = 0.0
    for report in reports:
        if report.queuing is not None:
            part = report.queuing.rows * _overlap(report, begin_s, end_s)
            waited_s += part * report.queuing.mean_s
            rows += part
    return waited_s / rows if rows else None


def _overlap(report: Report, begin_s: float, end_s: float) -> float:
    """The share of a batch's rows that was processed in a window."""
    first_s = report.start_s + report.delay_s
    last_s = first_s + report.span_s
    if last_s <= first_s:
        return float(begin_s <= first_s < end_s)
    return max(min(last_s, end_s) - max(first_s, begin_s), 0.0) / (last_s - first_s)
