"""A simulated run on disk, in the form in which a guard on Spark leaves one: for the dashboard to replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.control.policies import BaseLine, LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.sim.microbatch import Query, simulate
from penstock.sim.workload import Stream, cumulated, draw_keys, item_costs
from penstock.store.logs import PlanLog
from penstock.store.report_log import Alarms, End, ReportLog, Watch

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from penstock.core.control.policies import Policy
    from penstock.sim.microbatch import Run

#: The sample: phases of a length in seconds and a load as a multiple of capacity.
_PHASES = ((30.0, 0.7), (80.0, 1.8), (40.0, 0.7))
_ITEMS, _CORES, _KEYS = 1024, 2, "zipf-1.0"


def record(run: Run, folder: Path, watch: Watch) -> None:
    """Write a run's plans and reports to a folder; `watch` says what was held, and by what."""
    plans, reports = PlanLog(folder / "plans"), ReportLog(folder, watch.query)
    for plan in run.plans:
        plans.add(plan.version, plan)
    reports.write(watch)
    told: tuple[str, ...] = ()
    for report, alarms in zip(run.reports, run.alarms, strict=True):
        reports.write(report)
        if alarms != told:
            told = alarms
            reports.write(Alarms(report.end_s, alarms))
    reports.write(End(run.reports[-1].end_s if run.reports else 0.0, "simulated"))


def sample(folder: Path, seed: int = 0) -> None:
    """Write runs to look at: a query whose load is too high for a while, held by the gate and not held at all."""
    rng = np.random.default_rng(seed)
    costs_s = item_costs(rng, items=_ITEMS)
    mean_s = float(np.diff(cumulated(_KEYS, _ITEMS), prepend=0.0) @ costs_s)
    arrivals: list[NDArray[np.float64]] = []
    start_s = 0.0
    for length_s, load in _PHASES:
        rate = load * _CORES / mean_s
        arrivals.append(start_s + np.arange(1.0, int(length_s * rate) + 1.0) / rate)
        start_s += length_s
    arrivals_s = np.concatenate(arrivals)
    keys = draw_keys(_KEYS, len(arrivals_s), _ITEMS, rng)
    stream = Stream(keys, costs_s[keys], arrivals_s, _ITEMS)
    target = MeanQueueLatency("2 s")
    policies: dict[str, Policy] = {"guarded": LoadAware(prefer="cheap"), "unguarded": BaseLine(drop_share=0.0)}
    for name, policy in policies.items():
        run = simulate(policy.planner(target), stream, Query(seed=seed), must_keep=keys % 50 == 0)
        watch = Watch(
            guard=name,
            query=f"simulated-{name}",
            began_s=0.0,
            mode="enforce",
            policy=type(policy).__name__,
            target=type(target).__name__,
            target_s=target.limit_s,
            key=("key",),
            key_types=("bigint",),
            row=("row",),
            row_types=("bigint",),
            keep="key % 50 = 0",
        )
        record(run, folder / name / "penstock", watch)
