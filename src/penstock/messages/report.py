"""The loop's message up: what happened to the rows of one interval, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.messages.codec import Blob, Count, FrozenMap, Message, Name, Record, Seconds, Share, refusal

_NONE: FrozenMap[str, Any] = FrozenMap()


@dataclass(frozen=True, slots=True)
class Latency(Record):
    """How long rows waited before the operator took them up."""

    rows: Count
    mean_s: Seconds
    max_s: Seconds


@dataclass(frozen=True, slots=True)
class BoxStatistics(Record):
    """What one operator of a query network did: rows that entered and left it, and its work.

    >>> BoxStatistics(rows_in=8, rows_out=2, busy_s=0.5).selectivity
    0.25
    """

    rows_in: Count
    rows_out: Count
    busy_s: Seconds

    @property
    def selectivity(self) -> float | None:
        """Rows out for each row in; `None` if no row came, since nothing was learned then."""
        return self.rows_out / self.rows_in if self.rows_in else None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Message):
    """What happened in one interval. Every row that came in is accounted for: kept, or shed for a reason.

        rows_in = rows_kept + sum of rows_shed

    >>> report = Report(
    ...     sequence=7, start_s=10, end_s=12, rows_in=100, rows_kept=90, rows_shed={"over capacity": 10}
    ... )
    >>> report.shed_total, report.duration_s
    (10, 2.0)
    >>> Report.from_json(report.to_json()) == report
    True
    >>> Report(sequence=7, start_s=10, end_s=12, rows_in=100, rows_kept=90)
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: rows_in = 100 is not usable: give rows_kept + rows_shed, 90 + 0

    Attributes:
        sequence: Number of the interval or micro-batch.
        start_s: When the interval began.
        end_s: When it ended.
        rows_in: Rows that arrived at the gate.
        rows_kept: Rows the gate let through.
        rows_shed: Rows the gate held back, by reason.
        rows_would_shed: Rows let through only because this is a dry run, by reason.
        rows_must_keep: Rows let through because they must be kept.
        plan_version: Version of the plan that judged the rows; `None` if none was in force.
        control_s: Time that the gate took to read it.
        backlog_rows: Rows that wait at the source when the interval ends.
        backlog_age_s: How long the oldest of them has waited.
        source_rows_behind: Rows beyond this interval that the source knows of, by its own word; `None` if it says
            nothing.
        busy_s: Work of the measured operator, summed over tasks.
        slots: How many tasks can work at the same time.
        span_s: How long that work went on, over all tasks at once; pauses between rounds of tasks are left out.
        overhead_s: Rest of the interval: time spent on anything else than that work.
        delay_s: The part of it before the first row was taken up.
        lag_s: Age of the newest row when the interval began.
        queuing: Measured queuing latency; `None` if it was not measured.
        rows_untimed: Rows that were measured, but for their wait: their time of arrival is missing or cannot be right.
        cost_sketch: What rows cost by key bucket (`BucketCosts`), serialised; `None` if it was not measured.
        boxes: Statistics of each operator of a query network.
        sic: Source information content of each query's results.
    """

    sequence: Count
    start_s: Seconds
    end_s: Seconds
    rows_in: Count
    rows_kept: Count
    rows_shed: Mapping[Name, Count] = _NONE
    rows_would_shed: Mapping[Name, Count] = _NONE
    rows_must_keep: Count = 0
    plan_version: Count | None = None
    control_s: Seconds = 0.0
    backlog_rows: Count = 0
    backlog_age_s: Seconds = 0.0
    source_rows_behind: Count | None = None
    busy_s: Seconds = 0.0
    slots: Count = 1
    span_s: Seconds = 0.0
    overhead_s: Seconds = 0.0
    delay_s: Seconds = 0.0
    lag_s: Seconds = 0.0
    queuing: Latency | None = None
    rows_untimed: Count = 0
    cost_sketch: Blob | None = None
    boxes: Mapping[Name, BoxStatistics] = _NONE
    sic: Mapping[Name, Share] = _NONE

    def __repr__(self) -> str:
        """The fields, and of bytes only how many they are; `to_json` has all of them."""
        return f"Report({', '.join(f'{name}={_shown(getattr(self, name))}' for name in self.kinds)})"

    @property
    def shed_total(self) -> int:
        """Rows shed, for whatever reason."""
        return sum(self.rows_shed.values())

    @property
    def duration_s(self) -> float:
        """Length of the interval."""
        return self.end_s - self.start_s

    def _check(self) -> None:
        if self.end_s < self.start_s:
            raise refusal("end_s", self.end_s, f"seconds from start_s up, {self.start_s!r}")
        let_through = sum(self.rows_would_shed.values()) + self.rows_must_keep
        if let_through > self.rows_kept:
            raise refusal("rows_kept", self.rows_kept, f"at least rows_would_shed + rows_must_keep, {let_through}")
        if not self.slots:
            raise refusal("slots", self.slots, "a whole number from 1 up")
        if self.rows_in != self.rows_kept + self.shed_total:
            raise refusal("rows_in", self.rows_in, f"rows_kept + rows_shed, {self.rows_kept} + {self.shed_total}")


def _shown(value: object) -> str:
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else repr(value)
