"""What each policy would have done to a recorded query: the same arrivals and the same work, on virtual time.

A guard costs time of its own, and its quarantine more. Each batch takes longer, and with a quarantine each row that
comes is read a second time. Rows that had come before the first batch are replayed and not counted: they waited for the
query to start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.core.control.bucket_costs import cost_classes
from penstock.core.control.policies import BaseLine, FullKnowledge, LoadAware, Policy, RandomShed, StrawMan
from penstock.core.control.targets import MeanQueueLatency
from penstock.sim.microbatch import Query, Run, simulate
from penstock.sim.whatif.recorded import Recorded

NOTHING = "nothing"
#: Steps of time that the series have.
_STEPS = 200
_WINDOW_S = 10.0
#: What a quarantine adds to a batch, and for each row that comes, as measured on two cores.
QUARANTINE_BATCH_S, QUARANTINE_ROW_S = 0.2, 10e-6


class GuardCost(NamedTuple):
    """What a guard adds to a batch, and to it for each row that comes; `penstock bench idle` measures the first."""

    batch_s: float = 0.05
    row_s: float = 0.0

    @property
    def quarantined(self) -> "GuardCost":
        """The same with a quarantine, roughly: the rows are read again, and those that are shed are written."""
        return GuardCost(self.batch_s + QUARANTINE_BATCH_S, self.row_s + QUARANTINE_ROW_S)


@dataclass(frozen=True)
class Outcome:
    """A policy's run."""

    policy: str  #: its name, as it is shown
    facts: dict[str, Any]  #: what it comes to, as plain data
    #: Mean wait of rows taken up, and rows that came and that were kept, by steps of time.
    series: list[dict[str, float | None]]


def policies(query: Recorded, seed: int) -> dict[str, Policy]:
    """What is compared, by the name under which it is shown."""
    # The excess share of the whole log, which a fixed-share shedder must know.
    too_much = min(max(1.0 - 1.0 / query.load, 0.0), 0.99) if query.load > 0.0 else 0.0
    return {
        NOTHING: BaseLine(drop_share=0.0),
        "base_line": BaseLine(drop_share=too_much, seed=seed),
        "straw_man": StrawMan(mean_cost_s=max(query.stream.mean_cost_s, 1e-9), seed=seed),
        "random": RandomShed(seed=seed),
        "load_aware": LoadAware(seed=seed),
        "load_aware, cheap": LoadAware(prefer="cheap", seed=seed),
        # Where keys do not differ, the cheapest rows would be those of batches that happened to be quick.
        "full_knowledge": FullKnowledge(cost_column="cost_s", prefer="any" if query.alike else "cheap", seed=seed),
    }


def what_if(
    query: Recorded,
    target: MeanQueueLatency,
    guard: GuardCost = GuardCost(),  # noqa: B008 - immutable
    *,
    seed: int = 0,
    done: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """Run the recorded query under each policy, which costs what `guard` says."""
    outcomes = []
    for name, policy in policies(query, seed).items():
        cost = GuardCost(0.0) if name == NOTHING else guard
        run = simulate(policy.planner(target), query.stream, _settings(query, name, cost, seed))
        outcomes.append(Outcome(name, _facts(run, query, target), _series(run, query)))
        done()
    return outcomes


def _settings(query: Recorded, name: str, cost: GuardCost, seed: int) -> Query:
    return Query(
        cores=lambda _now_s: 1,
        overhead_s=query.overhead_s + cost.batch_s,
        read_s=cost.row_s * query.rows_each,
        delay_share=1.0,
        noise=0.0,
        first_start_s=query.first_start_s,
        trigger_s=query.trigger_s,
        # A limit at the source is what a guard replaces.
        rows_per_batch=query.cap_rows if name == NOTHING else None,
        gate_hashes=lambda stream: cost_classes(stream.costs_s) if name == "full_knowledge" else stream.keys,
        seed=seed,
    )


def _facts(run: Run, query: Recorded, target: MeanQueueLatency) -> dict[str, Any]:
    counted = run.stream.arrivals_s >= query.first_start_s
    if not (counted & run.kept).any():
        counted[:] = True
    waits_s = run.waits_s[run.kept & counted]
    windows = ((run.starts_s[run.kept & counted]) // _WINDOW_S).astype(np.int64)
    windows_s = [float(waits_s[windows == number].mean()) for number in np.unique(windows)]
    shed = int((counted & ~run.kept).sum())
    # The last batch takes what is left when the log has ended: its rows are older than those of any other.
    alarms = next((alarms for alarms in reversed(run.alarms[:-1]) if alarms), ())
    return {
        "shed_rows": shed * query.rows_each,
        "shed_share": shed / int(counted.sum()),
        "latency_s": {
            "mean": float(waits_s.mean()),
            "p95": float(np.quantile(waits_s, 0.95)),
            "max": float(waits_s.max()),
        },
        "mean_over_target": float(waits_s.mean()) / target.limit_s,
        "whole_mean_s": float(np.nanmean(run.waits_s)),
        "windows_within_target": float(np.mean([mean_s <= target.limit_s for mean_s in windows_s])),
        "worst_window_s": max(windows_s),
        "batches": len(run.reports),
        "end_s": run.reports[-1].end_s - query.first_start_s,
        "alarms": list(alarms),
    }


def _series(run: Run, query: Recorded) -> list[dict[str, float | None]]:
    begin_s = query.first_start_s
    step_s = max((run.reports[-1].end_s - begin_s) / _STEPS, query.length_s / _STEPS)
    taken = ((run.starts_s[run.kept] - begin_s) // step_s).astype(np.int64)
    came = ((run.stream.arrivals_s - begin_s) // step_s).astype(np.int64)
    seen = came >= 0  # what waited when the query started came before the picture begins
    steps = int(max(taken.max(initial=0), came.max(initial=0))) + 1
    rows, waits_s = np.bincount(taken, minlength=steps), np.bincount(taken, run.waits_s[run.kept], minlength=steps)
    arrived = np.bincount(came[seen], minlength=steps) * query.rows_each
    kept = np.bincount(came[seen & run.kept], minlength=steps) * query.rows_each
    return [
        {
            "time_s": (step + 0.5) * step_s,
            "mean_wait_s": float(waits_s[step] / rows[step]) if rows[step] else None,
            "arrived_rows_per_s": float(arrived[step]) / step_s,
            "kept_rows_per_s": float(kept[step]) / step_s,
        }
        for step in range(steps)
    ]
