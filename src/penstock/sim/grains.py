"""What each grain of shedding contributes to a micro-batch query: the gate, the row-by-row machine, or both.

The gate decides between batches, the machine inside the operator when it comes to a row, from what the rows before it
have cost. Four overloads on virtual time have the same stream for each, from a source that does not say how many rows a
batch has. From one that does, the gate cuts a burst itself (`core.control.batch_size`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.core.control.policies import BaseLine, LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.sim.microbatch import Query, Run, simulate
from penstock.sim.workload import Stream, under_loads

TARGET = MeanQueueLatency("2 s")
ITEMS, CORES, WINDOW_S, LEARN_S = 1024, 2, 10.0, 20.0
#: When costs rise, or a core is lost.
_TROUBLE_S = 40.0, 60.0


@dataclass(frozen=True)
class Scenario:
    """What happens: phases of a length in seconds and a load as a multiple of capacity, and how the query runs."""

    name: str
    phases: tuple[tuple[float, float], ...]
    query: Query = field(default_factory=Query)
    cost_factor: Callable[[float], float] = lambda _now_s: 1.0


def _in_trouble(now_s: float) -> bool:
    return _TROUBLE_S[0] < now_s < _TROUBLE_S[1]


SCENARIOS = (
    Scenario("twice the load", ((90.0, 2.0),)),
    Scenario("ten times the load for 5 s", ((40.0, 0.8), (5.0, 10.0), (45.0, 0.8))),
    Scenario("costs times four for 20 s", ((90.0, 1.2),), cost_factor=lambda s: 1.0 + 3.0 * _in_trouble(s)),
    Scenario("half the cores for 20 s", ((90.0, 1.2),), Query(cores=lambda s: 2 - _in_trouble(s))),
)
_GRAINS = ("gate", "machine", "both")
#: Simulations that `bench_grains` runs.
GRAIN_RUNS = len(SCENARIOS) * len(_GRAINS)


def bench_grains(seed: int, done: Callable[[], None]) -> dict[str, Any]:
    """One row for each scenario and grain."""
    rows = []
    for scenario in SCENARIOS:
        stream = _stream(scenario, seed)
        for grain in _GRAINS:
            rows.append({"scenario": scenario.name, "grain": grain, **_measured(_run(scenario, stream, grain))})
            done()
    return {"rows": rows, "parameters": {"target_s": TARGET.limit_s, "seed": seed, "window_s": WINDOW_S}}


def _run(scenario: Scenario, stream: Stream, grain: str) -> Run:
    keep_all = BaseLine(drop_share=0.0)
    planner = (keep_all if grain == "machine" else LoadAware()).planner(TARGET)
    row_gate = None if grain == "gate" else lambda: LoadAware().machines(TARGET)
    return simulate(planner, stream, replace(scenario.query, row_gate=row_gate, counted=False))


def _stream(scenario: Scenario, seed: int) -> Stream:
    stream = under_loads(scenario.phases, seed, items=ITEMS, cores=CORES)
    factors = np.array([scenario.cost_factor(float(arrival_s)) for arrival_s in stream.arrivals_s])
    return replace(stream, costs_s=stream.costs_s * factors)


def _measured(run: Run) -> dict[str, Any]:
    end_s = run.reports[-1].end_s
    means_s = [
        float(waits_s.mean())
        for start_s, waits_s in run.waits_by_window(WINDOW_S).items()
        if start_s >= LEARN_S and start_s + WINDOW_S <= end_s
    ]
    return {
        "windows_within_target": sum(mean_s <= TARGET.limit_s for mean_s in means_s) / len(means_s),
        "worst_window_s": max(means_s),
        "kept_share": float(run.kept.mean()),
        "shed_by_the_machine": sum(report.rows_shed.get("too late", 0) for report in run.reports) / run.stream.rows,
    }
