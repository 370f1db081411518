"""`penstock whatif`: a recorded progress log of Spark, replayed under each policy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Column, Table

from penstock.cli.printing import json_bytes, plain
from penstock.core.control.bucket_costs import BucketCosts
from penstock.core.control.targets import MeanQueueLatency
from penstock.errors import PenstockError
from penstock.sim.whatif.recorded import Batch, Keys, Recorded, recorded
from penstock.sim.whatif.replay import NOTHING, GuardCost, Outcome, what_if
from penstock.spark.progress import partition_costs
from penstock.spark.progress_file import Recording, read
from penstock.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console

    from penstock.spark.progress import Progress

#: Names of a guard's observed metrics.
_GATE, _PROBE = "penstock_gate_", "penstock_probe_"
#: If the replay differs from the recording by more than this, a note says so.
_TRUSTED = 0.25
_CAPPED_BATCHES, _FEW_BATCHES = 5, 10
#: A query without a name has a long id.
_MOST_NAME = 20


@dataclass(frozen=True)
class Answer:
    """What the command found."""

    log: str  #: the log file and the query
    target: MeanQueueLatency  #: the target
    query: Recorded  #: the recorded query
    outcomes: list[Outcome]  #: the outcome of each policy, no shedding first
    notes: list[str]  #: assumptions and caveats, one line each


@dataclass(frozen=True)
class Settings:
    """The options of the command."""

    target_s: float
    query: str | None = None
    spread: float = 1.0
    trigger_s: float | None = None
    seed: int = 0
    guard_s: float | None = None
    quarantine: bool = False


def answer(path: Path, settings: Settings, done: Callable[[], None] = lambda: None) -> Answer:
    """Read the log and replay it."""
    recording = read(path, settings.query)
    if any(progress.real_time for progress in recording.progress):
        raise PenstockError(
            f"{path} is from real-time mode, in which batches last as long as their trigger and do not show costs: "
            "give a log of micro-batches"
        )
    batches, measured, unread = _measured(recording)
    if not batches:
        raise PenstockError(f"{path} has {unread[0]}: give a log of this release, or leave observedMetrics out of it")
    keys, about_keys = _keys(measured, settings)
    query = recorded(batches, keys, trigger_s=settings.trigger_s, seed=settings.seed)
    target = MeanQueueLatency(settings.target_s)
    guard, about_guard = _guard(recording, settings)
    outcomes = what_if(query, target, guard, seed=settings.seed, done=done)
    notes = [about_keys, about_guard, *_notes(batches, query, outcomes, given=settings.trigger_s is not None)]
    if unread:
        parts, which = ("1 part", "") if len(unread) == 1 else (f"{len(unread)} parts", ", the first")
        notes.insert(0, f"skipped: {parts} of the log that cannot be read{which}: {unread[0]}")
    return Answer(f"{path}, query {recording.query[:_MOST_NAME]}", target, query, outcomes, notes)


def _measured(recording: Recording) -> tuple[list[Batch], BucketCosts, list[str]]:
    """The batches, a guard's measurements in them, and unreadable parts of the log."""
    batches, measured, unread = [], BucketCosts(), list(recording.unread)
    for progress in recording.progress:
        try:
            probes = [name for name in progress.observed if name.startswith(_PROBE)]
            costs = [one for name in probes for one in partition_costs(progress, name).values()]
            batches.append(_batch(progress))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            unread.append(f"measures of a guard that cannot be read, of batch {progress.batch} ({why})")
            continue
        for one in costs:
            measured.merge(one)
    return batches, measured, unread


def _batch(progress: Progress) -> Batch:
    shed = measured = 0
    for name, seen in progress.observed.items():
        if name.startswith(_GATE):  # a guard shed some of them, or, in a dry run, would have
            shed += sum(int(rows or 0) for field, rows in seen.items() if field.startswith("shed_"))
        elif name.startswith(_PROBE):
            measured += round(sum(float(costs.rows.sum()) for costs in partition_costs(progress, name).values()))
    return Batch(
        start_s=progress.start_s,
        duration_s=progress.duration_s,
        work_s=progress.work_s,
        rows=progress.rows,
        worked_rows=max(progress.rows - shed, min(measured, progress.rows), 0),
        behind=progress.behind,
    )


def _keys(measured: BucketCosts, settings: Settings) -> tuple[Keys, str]:
    """The spread of row costs: measured by a guard, given as an option, or none."""
    if settings.spread > 1.0:
        assumed = f"assumed: Zipf-1 keys, max/min cost ratio {settings.spread:g} (--spread)"
        return Keys.spread(settings.spread, settings.seed), assumed
    if measured.known:
        shares, costs_s = measured.frequencies(), measured.costs_s()
        return Keys(shares, costs_s / max(float(shares @ costs_s), 1e-12)), "cost by key: as a guard measured it"
    return Keys.alike(), "assumed: rows of a batch cost alike, since the log has no cost by key; try --spread 64"


def _guard(recording: Recording, settings: Settings) -> tuple[GuardCost, str]:
    """The cost of a guard: as given, or as measured elsewhere; zero if the log includes it."""
    seen = any(name.startswith(_GATE) for progress in recording.progress for name in progress.observed)
    if seen and settings.guard_s is None and not settings.quarantine:
        return GuardCost(0.0), "the log is of a guarded query, so its times include the guard"
    guard = GuardCost() if settings.guard_s is None else GuardCost(settings.guard_s)
    if not settings.quarantine:
        return guard, f"assumed: a guard takes {1e3 * guard.batch_s:.0f} ms a batch (--guard-overhead)"
    whole = guard.quarantined
    return whole, (
        f"assumed: a guard with a quarantine takes {1e3 * whole.batch_s:.0f} ms a batch (--guard-overhead) and "
        f"{1e6 * whole.row_s:.0f} us for each row that comes, which is read twice"
    )


def _notes(batches: list[Batch], query: Recorded, outcomes: list[Outcome], *, given: bool) -> list[str]:
    """Assumptions and findings; `given` is true if the trigger was given."""
    notes = [
        "assumed: the rows of a batch came evenly between the start of the batch before it and its own",
        (
            f"estimated: a batch takes {query.overhead_s:.2f} s plus the work of its rows, "
            f"{1e3 * query.stream.mean_cost_s / query.rows_each:.3g} ms each, all cores together"
        ),
    ]
    if query.cold:
        left_out = "the first batch" if query.cold == 1 else f"the first {query.cold} batches"
        notes.append(f"left out: {left_out}, in which the query was warming up")
    if query.trigger_s:
        notes.append(f"{'given' if given else 'found'}: a trigger every {query.trigger_s:g} s")
    if query.cap_rows is not None:
        cap = query.cap_rows * query.rows_each
        notes.append(f"found: the source hands out {cap} rows at most; only '{NOTHING}' is replayed with that limit")
    elif _looks_capped(batches):
        notes.append(
            "doubtful: all batches have the same size and the source does not report its backlog; if a limit such as "
            "maxOffsetsPerTrigger was set, more rows arrived, and waited longer, than this replay assumes"
        )
    if query.batches < _FEW_BATCHES:
        notes.append(f"doubtful: {query.batches} batches are few to tell overhead and work apart, or to learn from")
    if query.rows_each > 1:
        notes.append(f"simulated: one row for {query.rows_each} recorded ones")
    replayed_s, recorded_s = outcomes[0].facts["whole_mean_s"], query.mean_wait_s
    check = f"the recorded batches give a mean latency of {recorded_s:.2f} s, their replay {replayed_s:.2f} s"
    close = abs(replayed_s - recorded_s) <= _TRUSTED * max(recorded_s, 0.1)
    notes.append(
        f"checked: {check}" if close else f"doubtful: {check}; trust the following figures as far as these agree"
    )
    return notes


def _looks_capped(batches: list[Batch]) -> bool:
    sizes = [one.rows for one in batches if one.rows]
    return len(sizes) >= _CAPPED_BATCHES and float(np.ptp(sizes[1:-1])) == 0.0 and batches[0].behind is None


def to_json(found: Answer) -> dict[str, Any]:
    """As data."""
    query = asdict(found.query)
    del query["stream"]
    return {
        "log": found.log,
        "target_s": found.target.limit_s,
        "query": query,
        "notes": found.notes,
        "policies": [{"policy": one.policy, **one.facts, "series": one.series} for one in found.outcomes],
    }


def files(folder: Path, found: Answer) -> dict[Path, bytes]:
    """The plot and the data, by path."""
    from penstock.sim.whatif.plot import plot

    title = f"{found.log}: what if the target were {found.target.limit_s:g} s"
    picture = plot(found.outcomes, found.target.limit_s, title)
    return {folder / "whatif.png": picture, folder / "whatif.json": json_bytes(to_json(found))}


def show(out: Console, found: Answer) -> None:
    """A table, and its assumptions."""
    query, limit_s = found.query, found.target.limit_s
    plain(
        out,
        f"{found.log}: {counted(query.recorded_rows, 'row')} in {counted(query.batches, 'batch', 'batches')} over "
        f"{query.length_s:.0f} s, "
        f"{query.load:.2f} s of work a second on average; target {limit_s:g} s.",
    )
    names = ("shed", "mean s", "p95 s", "max s", "mean\nheld", "mean of\nnothing")
    table = Table(Column("policy", no_wrap=True), *names)
    nothing_s = found.outcomes[0].facts["latency_s"]["mean"]
    for one in found.outcomes:
        facts, latency_s = one.facts, one.facts["latency_s"]
        against = "" if one.policy == NOTHING else f"{latency_s['mean'] / max(nothing_s, 1e-9):.0%}"
        table.add_row(
            one.policy,
            f"{facts['shed_share']:.1%}",
            *(f"{latency_s[name]:.2f}" for name in ("mean", "p95", "max")),
            f"{facts['windows_within_target']:.0%}",
            against,
        )
    out.print(table)
    for note in found.notes:
        plain(out, f"- {note}")
    alarmed: dict[str, list[str]] = {}
    for one in found.outcomes:
        for alarm in one.facts["alarms"]:
            alarmed.setdefault(alarm, []).append(one.policy)
    for alarm, policies in alarmed.items():
        plain(out, f"- alarm, {', '.join(policies)}: {alarm}")
