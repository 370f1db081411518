"""A simulated run on disk, in the form in which a guard on Spark leaves one: for the dashboard to replay."""

from pathlib import Path

from penstock.core.control.policies import BaseLine, LoadAware, Policy
from penstock.core.control.targets import MeanQueueLatency
from penstock.sim.microbatch import Query, Run, simulate
from penstock.sim.workload import under_loads
from penstock.store.logs import PlanLog
from penstock.store.report_log import Alarms, End, ReportLog, Watch

#: The sample: phases of a length in seconds and a load as a multiple of capacity.
_PHASES = ((30.0, 0.7), (80.0, 1.8), (40.0, 0.7))
_ITEMS, _CORES = 1024, 2


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
    stream = under_loads(_PHASES, seed, items=_ITEMS, cores=_CORES)
    target = MeanQueueLatency("2 s")
    policies: dict[str, Policy] = {"guarded": LoadAware(prefer="cheap"), "unguarded": BaseLine(drop_share=0.0)}
    for name, policy in policies.items():
        run = simulate(policy.planner(target), stream, Query(seed=seed), must_keep=stream.keys % 50 == 0)
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
