r"""Targets in the user's terms, and the work of a micro-batch that meets them.

A micro-batch works for $S$, the time that depends on its rows. It spends $o$ on everything else, the first $d$ of it
before its first row. Rows start over a time $V = v + \sigma S$. That is all of the work, unless a part of it comes
after the operator that starts them. A fixed part $v$ is added if no operator measures it. Its rows arrive during $C$,
the time from the start of the previous batch to its own start. They wait

$$\bar q = \tfrac{C}{2} + d + \tfrac{V}{2} + \ell \quad\text{on average,}\qquad
q_{\max} = C + d + V + \ell \quad\text{at most}$$

where $\ell$ is the age of the newest row when the batch starts, above 0 if a limited source holds rows back. A target
solves this for $S$ twice and takes the minimum. It does so for the next batch, whose $C$ is known, and for the steady
state, in which $C = o + S$.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.core.settings import duration_s, number
from penstock.errors import PenstockError
from penstock.messages.report import Report

#: Share of a target that batches are planned for; the rest covers forecast errors.
AIM = 0.9


class Pace(NamedTuple):
    """The times of batches, apart from the work on their rows."""

    delay_s: float  #: until the first row is taken up
    overhead_s: float  #: all that does not depend on the number of rows
    cycle_s: float  #: in which the rows of the next batch come in
    lag_s: float  #: age of the newest row when a batch starts
    error_s: float  #: recent excess of waits over the equation
    window_s: float = 0.0  #: the part of the overhead in which rows are taken up
    within: float = 1.0  #: the part of the work in which rows are taken up, as a share
    elapsed_s: float = 0.0  #: since the first batch of this run started
    batches_left: float | None = 1.0  #: batches like the last one that the rest of a backlog takes; None if unknown


class Allowance(NamedTuple):
    """Limits of the next batch."""

    span_s: float  #: length of the operator's work, over all tasks at once; at most 0: the target cannot be held
    rows: float = math.inf  #: rows, if more than `enough` come
    enough: float = math.inf  #: rows up to which none is too many


class Target(Protocol):
    """A target of a stream."""

    @property
    def fresh_s(self) -> float | None:
        """The age up to which rows of a backlog count as fresh; None if age does not matter."""

    def allowance(self, pace: Pace) -> Allowance:
        """Limits of a batch, given the times of batches."""

    def excess_s(self, report: Report, cycle_s: float) -> float | None:
        """The excess of waits over the equation, for rows that arrived during `cycle_s`; None if unknown."""

    def wait_s(self, pace: Pace, span_s: float) -> float | None:
        """The latency of batches with this work span; None if the target is not a latency."""

    def ratio(self, report: Report) -> float | None:
        """Measured latency over the limit; None if it was not measured, or the target is not a latency."""


@dataclass(frozen=True, slots=True)
class MeanQueueLatency:
    """The mean wait, from a row's arrival to the start of its processing, is at most this long.

    >>> MeanQueueLatency("200 ms").limit_s
    0.2
    >>> pace = Pace(delay_s=0.1, overhead_s=0.2, cycle_s=1.0, lag_s=0.0, error_s=0.0)
    >>> round(MeanQueueLatency("2 s").allowance(pace).span_s, 9)  # 0.9 of 2 s - 0.1 s - half of 0.2 s
    1.6
    >>> round(MeanQueueLatency("2 s").allowance(pace._replace(cycle_s=3.0)).span_s, 9)  # rows are old already
    0.4

    Attributes:
        limit: The longest mean wait, as seconds or text such as `2 s`.
    """

    limit: float | str

    def __post_init__(self) -> None:
        """Refuse a value that is not a length of time."""
        duration_s("limit", self.limit)

    @property
    def limit_s(self) -> float:
        """The limit in seconds."""
        return duration_s("limit", self.limit)

    fresh_s = limit_s  #: a row that is older makes the mean worse

    def allowance(self, pace: Pace) -> Allowance:
        """Work until the mean wait is used up."""
        room_s = AIM * self.limit_s - pace.delay_s - pace.lag_s - pace.error_s - pace.window_s / 2.0
        return _lesser(2.0 * room_s, pace)

    def excess_s(self, report: Report, cycle_s: float) -> float | None:
        """Measured mean wait minus that of the equation."""
        if report.queuing is None:
            return None
        return report.queuing.mean_s - (cycle_s + report.span_s) / 2.0 - report.delay_s - report.lag_s

    def wait_s(self, pace: Pace, span_s: float) -> float | None:
        """The mean wait."""
        return (_cycle_s(pace, span_s) + _taking_up_s(pace, span_s)) / 2.0 + pace.delay_s + pace.lag_s + pace.error_s

    def ratio(self, report: Report) -> float | None:
        """Measured mean wait over the limit."""
        return report.queuing.mean_s / self.limit_s if report.queuing else None


@dataclass(frozen=True, slots=True)
class MaxLag:
    """No row is older than this when its processing starts.

    >>> MaxLag("3 s").allowance(Pace(delay_s=0.1, overhead_s=0.2, cycle_s=1.0, lag_s=0.0, error_s=0.0)).span_s
    1.2

    Attributes:
        age: The longest wait, as seconds or text such as `3 s`.
    """

    age: float | str

    def __post_init__(self) -> None:
        """Refuse a value that is not a length of time."""
        duration_s("age", self.age)

    @property
    def age_s(self) -> float:
        """The age in seconds."""
        return duration_s("age", self.age)

    fresh_s = age_s

    def allowance(self, pace: Pace) -> Allowance:
        """Work until the oldest row, which may be the last one taken up, has waited long enough."""
        return _lesser(AIM * self.age_s - pace.delay_s - pace.lag_s - pace.error_s - pace.window_s, pace)

    def excess_s(self, report: Report, cycle_s: float) -> float | None:
        """Measured longest wait minus that of the equation."""
        if report.queuing is None:
            return None
        return report.queuing.max_s - cycle_s - report.span_s - report.delay_s - report.lag_s

    def wait_s(self, pace: Pace, span_s: float) -> float | None:
        """The longest wait."""
        return _cycle_s(pace, span_s) + _taking_up_s(pace, span_s) + pace.delay_s + pace.lag_s + pace.error_s

    def ratio(self, report: Report) -> float | None:
        """Measured longest wait over the limit."""
        return report.queuing.max_s / self.age_s if report.queuing else None


@dataclass(frozen=True, slots=True)
class Throughput:
    """At most this many rows a second pass, for a rate-limited sink; latency is ignored.

    >>> Throughput(500).allowance(Pace(delay_s=0.1, overhead_s=0.2, cycle_s=2.0, lag_s=0.0, error_s=0.0)).rows
    900.0

    Attributes:
        rows_per_s: The most rows a second.
    """

    rows_per_s: float

    def __post_init__(self) -> None:
        """Refuse a value that is not a rate."""
        try:
            usable = number("rows_per_s", self.rows_per_s, 0.0) > 0.0
        except PenstockError:
            usable = False
        if not usable:
            raise PenstockError.setting("rows_per_s", self.rows_per_s, "rows a second, a number above 0")

    @property
    def fresh_s(self) -> None:
        """None: age does not matter."""

    def allowance(self, pace: Pace) -> Allowance:
        """As many rows as the time they come in allows."""
        enough = self.rows_per_s * pace.cycle_s
        return Allowance(math.inf, AIM * enough, enough)

    def excess_s(self, report: Report, cycle_s: float) -> None:
        """None: it is no latency."""

    def wait_s(self, pace: Pace, span_s: float) -> None:
        """None: it is no latency."""

    def ratio(self, report: Report) -> None:
        """None: it is no latency."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A backlog is processed within this time of the start of a run, for `trigger(availableNow=True)`.

    What is left of the time, less the overhead of the batches to come, is divided evenly among the rows to come. If no
    rows are left, or their number is unknown, nothing is shed.

    >>> pace = Pace(delay_s=0.1, overhead_s=2.0, cycle_s=0.0, lag_s=0.0, error_s=0.0, elapsed_s=200.0, batches_left=20)
    >>> Deadline("20 min").allowance(pace).span_s  # 0.9 of 1,000 s are left, less 20 overheads, for 20 batches
    43.0
    >>> Deadline("20 min").allowance(pace._replace(batches_left=None)).span_s
    inf

    Attributes:
        within: The time from the start of the first batch of a run, as seconds or text such as `20 min`.
    """

    within: float | str

    def __post_init__(self) -> None:
        """Refuse a value that is not a length of time."""
        duration_s("within", self.within)

    @property
    def within_s(self) -> float:
        """The time in seconds."""
        return duration_s("within", self.within)

    @property
    def fresh_s(self) -> None:
        """None: age does not matter."""

    def allowance(self, pace: Pace) -> Allowance:
        """The next batch's part of the work that fits the rest of the time."""
        if not pace.batches_left:
            return Allowance(math.inf)
        batches = max(pace.batches_left, 1.0)
        # A share of the rest: errors of the forecast are made up for by later batches, and little time is left unused.
        left_s = AIM * (self.within_s - pace.elapsed_s) - math.ceil(batches) * pace.overhead_s
        return Allowance(left_s / batches)

    def excess_s(self, report: Report, cycle_s: float) -> None:
        """None: it is no latency."""

    def wait_s(self, pace: Pace, span_s: float) -> None:
        """None: it is no latency."""

    def ratio(self, report: Report) -> None:
        """None: it is no latency."""


def _cycle_s(pace: Pace, span_s: float) -> float:
    """Time from start to start of batches that work this long."""
    return max(pace.overhead_s + span_s, pace.cycle_s)


def _taking_up_s(pace: Pace, span_s: float) -> float:
    """Time over which their rows are taken up."""
    return pace.window_s + pace.within * span_s


def _lesser(room_s: float, pace: Pace) -> Allowance:
    """The work that fits when a cycle and the work in which its rows are taken up may take `room_s` together.

    By how much the next batch would be too long is taken off as far as rows wait for work. The rest of their wait is
    behind them.
    """
    steady_s = (room_s - pace.overhead_s) / (1.0 + pace.within)
    too_long_s = pace.cycle_s + pace.within * steady_s - room_s
    return Allowance(steady_s - pace.within * max(too_long_s, 0.0))
