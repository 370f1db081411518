"""A guard's metrics: one table for Prometheus and OpenTelemetry.

Names and units are OpenTelemetry's; Prometheus' names follow from them. There is no label for keys: they may number
millions.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from penstock.spark.guard.guard import QueryGuard


class Metric(NamedTuple):
    """One metric, and how to read it from a guard."""

    kind: Literal["counter", "gauge", "summary"]
    name: str  #: behind `penstock.`
    unit: str  #: as in UCUM; braces hold what is counted
    text: str
    read: Callable[[QueryGuard], Any]  #: a number, numbers by reason, or None; of a summary, its count and sum
    counted: str = ""  #: of a summary, the unit of its count

    def values(self, guard: QueryGuard) -> list[tuple[str | None, Any]]:
        """The current values, each with its reason, if the metric has reasons; none if they are unknown."""
        found = self.read(guard)
        if isinstance(found, dict):
            return list(found.items())
        return [] if found is None else [(None, found)]


def _waited(guard: QueryGuard) -> tuple[int, float]:
    return guard.totals.queued_rows, guard.totals.queued_s


def _control(guard: QueryGuard) -> tuple[int, float]:
    return guard.totals.batches, guard.totals.control_s


def _latency_target(guard: QueryGuard) -> float | None:
    found: float | None = getattr(guard.target, "limit_s", getattr(guard.target, "age_s", None))
    return found


def _last(field: str) -> Callable[[QueryGuard], Any]:
    """Reads a field of the last Report; None before the first."""
    return lambda guard: getattr(guard.report(), field, None)


def _sic(guard: QueryGuard) -> float | None:
    last = guard.report()
    return None if last is None else next(iter(last.sic.values()), None)


#: Counters and summaries are sums over all Reports. A plan has version 0, so a missing plan is an absent value.
METRICS = (
    Metric("counter", "rows.in", "{row}", "Rows that reached the gate.", attrgetter("totals.rows_in")),
    Metric("counter", "rows.kept", "{row}", "Rows that the guard kept.", attrgetter("totals.rows_kept")),
    Metric("counter", "rows.must_keep", "{row}", "Kept rows that match keep.", attrgetter("totals.rows_must_keep")),
    Metric("counter", "rows.shed", "{row}", "Rows that the guard shed.", attrgetter("totals.rows_shed")),
    Metric(
        *("counter", "rows.would_shed", "{row}", "Rows that a dry run would have shed."),
        attrgetter("totals.rows_would_shed"),
    ),
    Metric("counter", "batches", "{batch}", "Micro-batches with rows.", attrgetter("totals.batches")),
    Metric("counter", "batches_missing", "{batch}", "Batches without a report.", attrgetter("totals.batches_missing")),
    Metric("counter", "busy", "s", "Work of the measured operator.", attrgetter("totals.busy_s")),
    Metric("counter", "controller.errors", "{error}", "Errors that the guard caught.", attrgetter("errors")),
    Metric("summary", "queuing_latency", "s", "Time from arrival to start, of processed rows.", _waited, "{row}"),
    Metric("summary", "control_table", "s", "Time the gate took to read its plan.", _control, "{batch}"),
    Metric("gauge", "watching", "1", "1 while the guard plans for its query.", lambda guard: int(guard.watching)),
    Metric("gauge", "alarms", "{alarm}", "Alarms, as of the last batch.", lambda guard: len(guard.alarms)),
    Metric("gauge", "target", "s", "Latency to hold.", _latency_target),
    Metric("gauge", "target_rows", "{row}/s", "Rate to hold.", lambda guard: getattr(guard.target, "rows_per_s", None)),
    Metric(
        *("gauge", "backlog.rows", "{row}", "Rows that waited at the source after the last batch."),
        _last("backlog_rows"),
    ),
    Metric("gauge", "backlog.age", "s", "How long the oldest of them had waited.", _last("backlog_age_s")),
    Metric(
        *("gauge", "source.rows_behind", "{row}", "Rows beyond the last batch that the source itself knew of."),
        _last("source_rows_behind"),
    ),
    Metric("gauge", "sic", "1", "Source information content of results, in the last source time window.", _sic),
    Metric(
        *("gauge", "cores_wanted", "{core}", "Cores that would hold the target with nothing shed."),
        attrgetter("cores_wanted"),
    ),
    Metric("gauge", "plan.version", "1", "Plan that judged the last batch.", _last("plan_version")),
)
