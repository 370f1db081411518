"""A query's progress as plain data, the same on classic Spark and on Spark Connect, and the Report made of it.

All knowledge of what Spark's progress looks like is in this file.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, Self

from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.control.batch_size import rows_between
from penstock.core.control.bucket_costs import BucketCosts
from penstock.core.control.gate import MOST_REASONS
from penstock.core.control.planner import SOURCE
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.messages.report import Latency, Report
from penstock.spark.probe.ages import Ages
from penstock.spark.probe.meter import TaskSums
from penstock.spark.probe.row_gate import TOO_LATE
from penstock.spark.quarantine.rows import reason_names

#: Some rows always have an implausible arrival time; more than this share raises an alarm.
STRANGE_SHARE = 0.01


#: Rows that arrived later than their batch was read by more than this were stamped by another clock.
CLOCKS_DIFFER_S = 1.0


@dataclass(frozen=True)
class Progress:
    """One trigger of a streaming query."""

    batch: int  #: number of the micro-batch
    start_s: float  #: when the trigger fired, in seconds since 1970
    duration_s: float  #: how long it took
    planning_s: float  #: how long it was planned
    work_s: float  #: how long the batch itself ran, planning left out
    rows: int  #: rows read from all sources
    observed: Mapping[str, Mapping[str, Any]]  #: what was observed, by name
    behind: int | None = None  #: rows beyond the batch that sources know of; None if none of them says
    real_time: bool = False  #: whether the batch took in rows that came while it ran, as only real-time mode does
    moved: bool = False  #: whether it took a source on from where the batch before had ended
    #: Whether a batch ran. A trigger that finds nothing to do shows progress too, under the number of the batch that
    #: is to come.
    ran: bool = True
    late_rows: int = 0  #: rows that stateful operators dropped because they came behind the watermark
    #: Rows between the offsets of the one source; None if there are several, or offsets do not count rows.
    offsets: int | None = None
    #: Batches like this one that the rows beyond it take; None if the sources do not count rows.
    batches_behind: float | None = None
    replayed_s: float = 0.0  #: how long before `start_s` it began in a run that was killed

    @classmethod
    def of(cls, given: Any) -> Self:  # noqa: ANN401 - a StreamingQueryProgress or a dictionary, by engine and version
        """Read what `lastProgress` or `recentProgress` gave."""
        found: dict[str, Any] = json.loads(given.json) if hasattr(given, "json") else dict(given)
        times_ms, sources = found.get("durationMs") or {}, found.get("sources") or ()
        rows = found.get("numInputRows")
        if rows is None:
            rows = sum(int(source.get("numInputRows") or 0) for source in sources)
        observed = found.get("observedMetrics") or {}
        offsets = [one for source in sources if (one := _offsets(source)) is not None]
        states = found.get("stateOperators") or ()
        return cls(
            batch=int(found["batchId"]),
            start_s=datetime.fromisoformat(found["timestamp"]).timestamp(),
            duration_s=float(times_ms.get("triggerExecution", found.get("batchDuration") or 0)) / 1000.0,
            planning_s=float(times_ms.get("queryPlanning", 0)) / 1000.0,
            work_s=float(times_ms.get("addBatch", 0)) / 1000.0,
            rows=int(rows),
            observed={name: _fields(row) for name, row in observed.items()},
            behind=sum(behind for behind, _ in offsets) if offsets else None,
            real_time=any(real_time for _, real_time in offsets),
            moved=any(source.get("startOffset") not in (None, source.get("endOffset")) for source in sources),
            ran="addBatch" in times_ms or bool(rows) or bool(observed),
            late_rows=sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in states),
            offsets=_offset_rows(sources),
            batches_behind=_batches_behind(sources),
        )

    @property
    def read_s(self) -> float:
        """When sources had been asked for what there is, at the latest."""
        return self.start_s + max(self.duration_s - self.work_s, 0.0)

    @property
    def empty(self) -> bool:
        """Whether no row was counted: neither by a source nor by a gate, which may count where Spark cannot."""
        return not self.rows and not any(counts.get("rows_in") for counts in self.observed.values())


def _offsets(source: Mapping[str, Any]) -> tuple[int, bool] | None:
    """Rows that Kafka's connector left behind in a batch, and whether it read in real time; None for other sources."""
    end, latest = _by_partition(source.get("endOffset")), _by_partition(source.get("latestOffset"))
    if not end or not latest:
        return None
    # Looked up when the batch was planned. Only in real-time mode does a batch read on from there. What is behind then
    # stands in the metrics alone, as a mean over the partitions.
    real_time = any(end.get(partition, 0) > offset for partition, offset in latest.items())
    mean = (source.get("metrics") or {}).get("avgOffsetsBehindLatest")
    if mean is not None:
        return max(round(float(mean) * len(latest)), 0), real_time
    return sum(max(offset - end.get(partition, offset), 0) for partition, offset in latest.items()), real_time


def _offset_rows(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """Rows between the offsets of the one source, which is listed twice where shed rows go into quarantine."""
    with suppress(TypeError, ValueError):
        found = [[_parsed(source.get(end)) for end in ("startOffset", "endOffset")] for source in sources]
        if found and all(one == found[0] for one in found):
            return rows_between(*found[0])
    return None


def _batches_behind(sources: Sequence[Mapping[str, Any]]) -> float | None:
    """The rows that sources had beyond a batch, as a multiple of its own; None if one of them does not count rows."""
    behind, own = 0, 0
    with suppress(TypeError, ValueError):
        for source in sources:
            start, end, latest = (_parsed(source.get(f"{which}Offset")) for which in ("start", "end", "latest"))
            left = None if latest is None else rows_between(end, latest)
            if left is None:
                return None
            behind += left
            own += rows_between(start, end) or int(source.get("numInputRows") or 0)
        return behind / own if own else None
    return None


def _parsed(offset: Any) -> Any:  # noqa: ANN401 - by source and engine
    return json.loads(offset) if isinstance(offset, str) else offset


def _by_partition(offsets: Any) -> dict[tuple[str, str], int] | None:  # noqa: ANN401 - by source and engine
    """Offsets as Kafka's connector gives them, by topic and partition; None if they are another source's."""
    with suppress(TypeError, ValueError, AttributeError):
        found = _parsed(offsets)
        return {(topic, part): int(offset) for topic, parts in found.items() for part, offset in parts.items()}
    return None


def _fields(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a Row, a dictionary, or values with their schema
    if hasattr(row, "asDict"):
        return dict(row.asDict())
    if isinstance(row, dict) and "schema" in row and "values" in row:
        names = [field["name"] for field in row["schema"]["fields"]]
        return dict(zip(names, row["values"], strict=True))
    return dict(row)


def arrival_trouble(progress: Progress, gates: Iterable[str], probe: str) -> str | None:
    """What is wrong with the times of arrival, in one line; None if they can be right."""
    counts = [found for gate in gates if (found := progress.observed.get(gate)) is not None]
    ages = [(found["rows_in"], own) for found in counts if (own := Ages.of(found)) is not None]
    sums = [(rows, own.timed, own.ahead, own.ancient) for rows, own in ages]
    if not ages:
        sums = [(task.rows, task.queued_rows, task.ahead, task.ancient) for task in _tasks(progress, probe)]
    rows, timed, ahead, ancient = map(sum, zip((0, 0, 0, 0), *sums, strict=True))
    # In real-time mode rows arrive long after the batch has begun.
    if ahead > STRANGE_SHARE * rows and not progress.real_time:
        return (
            f"arrival is ahead of the workers' clock in {ahead} of {rows} rows, so their wait is not measured: give "
            "timestamps or seconds since 1970, not milliseconds, and synchronize the clocks"
        )
    if ancient > STRANGE_SHARE * rows:
        return (
            f"arrival is more than 30 days old in {ancient} of {rows} rows, so their wait is not measured: name the "
            "column with the arrival time of rows, not their event time, as timestamps or seconds since 1970"
        )
    early_s = max((own.newest_s - progress.read_s for _, own in ages if own.newest_s is not None), default=0.0)
    if early_s > CLOCKS_DIFFER_S and not progress.real_time:
        return (
            f"arrival is up to {early_s:.1f} s ahead of the time at which its batch was read, so measured waits are "
            "too short: synchronize the clocks of this machine and of those that stamp rows"
        )
    if rows and not timed and not ahead:
        return "arrival is null in every row, so no wait can be measured: name the column with a row's time of arrival"
    return None


def _tasks(progress: Progress, probe: str) -> list[TaskSums]:
    return [TaskSums.from_text(text) for text in (progress.observed.get(probe) or {}).get("tasks") or ()]


def _costs(progress: Progress, probe: str, tasks: list[TaskSums]) -> BucketCosts:
    """Costs of rows by bucket over all tasks: as summed by Spark, or as reported by each task."""
    text = (progress.observed.get(probe) or {}).get("costs")
    if text is not None:
        return BucketCosts.from_cells(text)
    found = BucketCosts()
    for task in tasks:
        found.merge(task.bucket_costs())
    return found


def partition_costs(progress: Progress, probe: str) -> dict[int, BucketCosts]:
    """What rows cost by bucket, for each partition of the measured operator."""
    return costs_of_tasks(_tasks(progress, probe))


def costs_of_tasks(tasks: Iterable[TaskSums]) -> dict[int, BucketCosts]:
    """What rows cost by bucket, for each partition, as the sums of tasks have it."""
    found: dict[int, BucketCosts] = {}
    for task in tasks:
        found.setdefault(task.partition, BucketCosts()).merge(task.bucket_costs())
    return found


def report_of(
    progress: Progress, before: Progress | None, *, gate: str | None, probe: str, plan: Plan | None, dry: bool
) -> Report | None:
    """The batch as a Report; None if no row came to the gate.

    `before` is the batch before it: rows came in while that one ran. `gate` and `probe` name what was observed; without
    a gate all rows that were measured are the batch. `plan` is what the batch was judged by.
    """
    if gate is None:
        counts: Mapping[str, Any] | None = {"rows_in": sum(task.rows for task in _tasks(progress, probe))}
    else:
        counts = progress.observed.get(gate)
    if counts is None or not counts["rows_in"]:
        return None
    names = reason_names(plan, SOURCE)
    shed = {
        names.get(number, "a plan that can no longer be read"): rows
        for number in range(MOST_REASONS)
        if (rows := counts.get(f"shed_{number}") or 0)
    }
    tasks = _tasks(progress, probe)
    if late := sum(task.late for task in tasks):
        if late + sum(task.rows for task in tasks) > counts["rows_in"] - sum(shed.values()):
            raise PenstockError(
                "more rows reach the row gate than pass the gate, so they cannot be accounted for: put the measured "
                "function right behind guard.admit, before anything that multiplies rows, or give row_gate=False"
            )
        shed[TOO_LATE] = late
    if counts.get("dry") is not None:  # A batch that is replayed is dry as it was the first time.
        dry = bool(counts["dry"])
    rows_in, shed_rows = counts["rows_in"], 0 if dry else sum(shed.values())
    ages = Ages.of(counts)
    work = _work(progress, probe, tasks, ages)
    interval_s = _interval_s(tasks, ages, progress, before)
    untimed = sum(task.rows - task.queued_rows for task in tasks)  # rows whose wait is not measured
    if not tasks and ages is not None:
        untimed = rows_in - shed_rows - ages.kept_timed
    return Report(
        sequence=progress.batch,
        start_s=progress.start_s,
        end_s=progress.start_s + progress.duration_s,
        rows_in=rows_in,
        rows_kept=rows_in - shed_rows,
        rows_shed={} if dry else shed,
        rows_would_shed=shed if dry else {},
        rows_must_keep=counts.get("rows_must_keep") or 0,
        plan_version=plan.version if plan else None,
        control_s=(counts.get("read_us") or 0) / 1e6,
        backlog_rows=round(rows_in * progress.duration_s / interval_s) if interval_s > 0 else 0,
        backlog_age_s=progress.duration_s + work["lag_s"],
        source_rows_behind=progress.behind,
        batches_behind=progress.batches_behind,
        overhead_s=max(progress.duration_s - work["span_s"], 0.0),
        rows_untimed=untimed,
        replayed_s=progress.replayed_s,
        **work,
    )


def _work(progress: Progress, probe: str, tasks: list[TaskSums], ages: Ages | None) -> dict[str, Any]:
    """What the measured operator did in a batch and how long rows waited, as fields of a Report.

    The gate says how long rows waited if they came to the operator without a time of arrival.
    """
    lag_s = (ages and ages.lag_s(progress.start_s)) or 0.0
    if not tasks and probe in progress.observed:
        # No row came as far as the operator: rows waited for their batch, and no more is known.
        queuing = ages and ages.waits(progress.start_s, 0.0, 0.0)
        return {"busy_s": 0.0, "span_s": 0.0, "delay_s": progress.duration_s, "lag_s": lag_s, "queuing": queuing}
    if not tasks:
        # No operator is measured, so the batch itself is the work: rows are taken up while it runs, evenly for all
        # that is known.
        work_s = progress.work_s
        delay_s = max(progress.duration_s - work_s, 0.0)
        queuing = ages and ages.waits(progress.start_s, delay_s, work_s)
        return {"busy_s": work_s, "span_s": work_s, "delay_s": delay_s, "lag_s": lag_s, "queuing": queuing}
    if not ages:
        newest_s = max((task.newest_s for task in tasks if task.newest_s is not None), default=progress.start_s)
        lag_s = max(progress.start_s - newest_s, 0.0)
    delay_s, span_s = max(min(task.start_s for task in tasks) - progress.start_s, 0.0), _union_s(tasks)
    queuing = ages and ages.waits(progress.start_s, delay_s, span_s)
    if rows := sum(task.queued_rows for task in tasks):
        mean_s = sum(task.queued_s for task in tasks) / rows
        queuing = Latency(rows, mean_s, max(task.queued_max_s for task in tasks))
    return {
        "busy_s": sum(task.busy_s for task in tasks),
        "span_s": span_s,
        "delay_s": delay_s,
        "lag_s": lag_s,
        "slots": _at_once(tasks),
        "queuing": queuing,
        "cost_sketch": _costs(progress, probe, tasks).to_bytes(),
    }


def _union_s(tasks: list[TaskSums]) -> float:
    """How long any of the tasks worked.

    A pause between two rounds of tasks is overhead. As lost capacity it would shed rows, and the shorter the work, the
    more it would seem to lose.
    """
    total_s, until_s = 0.0, -math.inf
    for task in sorted(tasks, key=lambda one: one.start_s):
        total_s += max(task.end_s - max(task.start_s, until_s), 0.0)
        until_s = max(until_s, task.end_s)
    return total_s


def _at_once(tasks: list[TaskSums]) -> int:
    """The most tasks that worked at the same time."""
    return max(sum(other.start_s <= task.start_s < other.end_s or other is task for other in tasks) for task in tasks)


def _interval_s(tasks: list[TaskSums], ages: Ages | None, progress: Progress, before: Progress | None) -> float:
    """The time in which the batch's rows came in."""
    if before is not None and before.batch == progress.batch - 1:
        return progress.start_s - (before.start_s - before.replayed_s)
    times = [(ages.oldest_s, ages.newest_s)] if ages else [(task.oldest_s, task.newest_s) for task in tasks]
    arrivals = [time_s for pair in times for time_s in pair if time_s is not None]
    return max(arrivals) - min(arrivals) if arrivals else 0.0


#: Gives what was observed in a batch besides its progress, in a function for `foreachBatch`, by name.
Observed = Callable[[int], Mapping[str, Mapping[str, Any]]]


class News(NamedTuple):
    """What a look at a query found."""

    newest: Progress | None = None  #: the newest trigger, whether a batch ran in it or not; None before the first
    first: bool = False  #: whether this is the first trigger that was found
    batches: tuple[Progress, ...] = ()  #: the batches that ran since the last look, oldest first
    forgotten: range = range(0)  #: numbers of batches that ran since the last look and that Spark no longer knows


class ProgressFeed:
    """Reads the progress of one run of a query: every batch that ran, once, and which ones Spark had forgotten.

    Spark keeps the last hundred triggers. Among them are triggers that found nothing to do: at the start of a query,
    then every ten seconds. They carry the number of the batch that is to come, so a number alone does not identify a
    batch.
    """

    def __init__(self, query: StreamingQuery, inside: Observed = lambda _: {}) -> None:
        self._query, self._inside = query, inside
        self._next: int | None = None  # number of the batch that is to run next, as far as is known

    def news(self) -> News:
        """Look once; one call to Spark, or two if several batches have run."""
        found = self._news()
        whole = tuple(
            replace(one, observed={**one.observed, **inside}) if (inside := self._inside(one.batch)) else one
            for one in found.batches
        )
        return found._replace(batches=whole)

    def _news(self) -> News:
        last = self._query.lastProgress
        if last is None:
            return News()
        newest, expected = Progress.of(last), self._next
        if expected is not None and newest.batch + newest.ran <= expected:
            return News(newest)
        if newest.batch == expected:
            self._next = expected + 1
            return News(newest, batches=(newest,))
        recent = list(map(Progress.of, self._query.recentProgress)) or [newest]
        ran = tuple(one for one in recent if one.ran and (expected is None or one.batch >= expected))
        # Another batch may have ended between the two answers.
        self._next = max(one.batch + one.ran for one in (newest, *recent))
        first = ran[0].batch if ran else self._next
        forgotten = range(0) if expected is None else range(expected, first)
        return News(newest, expected is None, ran, forgotten)
