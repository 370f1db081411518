r"""What reports teach about a micro-batch query: what rows cost, how fast work gets done, and what comes next.

- Costs have a shape and a level. The shape, bucket by bucket, is remembered over many batches. The level is the last
  batch's: what makes all rows dearer, such as a slower machine, does so at once. So every cost remembered is multiplied
  by the work of rows that came in over what was expected of them, before the new rows are added. Weights make that a
  statement on all rows that came, and not on those that were kept.
- Rows that are kept for being cheap are dearer than was thought, because buckets are chosen by what is thought of them.
  By how much they were last time is the surprise. It corrects the next forecast and goes no further: as a cost of its
  own it would add up, batch after batch, on buckets that are hardly measured.
- Capacity is work done per second of span in the last batch, all tasks together.
- The next batch takes in what arrives while this one runs, $C = T_n$, and a plan that is made in time could rely on
  that. But a plan may be late and act on the batch after the next, whose rows depend on a length nobody knows yet. So
  its rows are expected half way between the last batch and the length $T^*$ that batches should have:

$$C = \tfrac{1}{2} (T_n + T^*), \qquad T^* = o + S$$

  With $\varphi = S / T^*$ and a share $\beta$ of the last batch in $C$, a deviation shrinks by $\varphi (1 - \beta)$ a
  batch if plans are in time and by $\sqrt{\varphi\beta}$ if all are late: $\beta = 1$ would swing on for long.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from penstock.core.bucket_costs import BUCKETS, BucketCosts
from penstock.core.target import Pace, Target
from penstock.report import Report

#: What is remembered of costs from one batch to the next: the shape changes slowly, and rare keys need many batches.
REMEMBER = 0.9
#: Batches whose times are remembered; the median is used, because the first batch of a run is like no other.
PACE_BATCHES = 7
#: However hard the target, a batch works this share of its overhead or interval: less loses rows and wins little time.
LEAST_WORK = 0.3
#: A query that stood still for this share of the time between two starts waited for its trigger.
STOOD_STILL = 0.1
#: Two batches in a row whose rows differ by less, with older rows left behind, are as large as the source allows.
SAME_SIZE = 0.01


class Knowledge:
    """What is known after the last report.

    >>> from penstock.core.target import MeanQueueLatency
    >>> known = Knowledge(MeanQueueLatency("2 s"))
    >>> known.learn(Report(sequence=1, start_s=0, end_s=2, rows_in=100, rows_kept=100, busy_s=3, slots=2, span_s=1.5,
    ...                    overhead_s=0.5, delay_s=0.25, backlog_rows=120))
    >>> known.costs.mean_s, known.capacity
    (0.03, 2.0)
    >>> known.pace.cycle_s  # half way between the 2 s it took and 1.8 s, in which rows would wait 0.9 of the target
    1.9
    >>> round(float(known.next_rows().sum()), 9)
    114.0
    """

    def __init__(self, target: Target) -> None:
        """Start knowing nothing."""
        self.costs = BucketCosts()
        self.came = 0.0  #: rows of which `costs` are, those that were shed included
        self.capacity = 1.0  #: seconds of work that tasks get done a second, all together
        self.surprise = 1.0  #: what the last batch's rows cost as a multiple of what was expected of them
        self.reach = 1.0  #: rows that come to the operator for each row the gate keeps: filters may lie between them
        self.last_mean_s = 0.0  #: mean cost of the rows of the last batch that had any
        self._target = target
        self._last: Report | None = None
        self._capped = False  #: whether the source hands out less than it has
        self._intervals = deque[float](maxlen=PACE_BATCHES)
        self._delays = deque[float](maxlen=PACE_BATCHES)
        self._overheads = deque[float](maxlen=PACE_BATCHES)
        self._errors = deque[float](maxlen=PACE_BATCHES)

    def learn(self, report: Report) -> None:
        """Take in one batch."""
        came_in_s = self._look_back(report)
        if report.rows_in and not report.rows_kept:
            self.costs.scale_costs(0.5)  # Nothing was measured: believe the past less, or the gate may never open.
        if not (report.rows_kept and report.busy_s):
            return
        self._learn_costs(report)
        self.capacity = report.busy_s / (report.span_s or report.busy_s / report.slots)
        self._delays.append(report.delay_s)
        self._overheads.append(report.overhead_s)
        excess_s = self._target.excess_s(report, came_in_s) if came_in_s else None
        if excess_s is not None:
            self._errors.append(excess_s)

    def _look_back(self, report: Report) -> float:
        """The time in which the batch's rows came in; 0 if the batch before it is not known."""
        before, self._last = self._last, report
        self._capped = False
        if before is None or report.start_s <= before.start_s:
            return 0.0
        came_in_s = report.start_s - before.start_s
        stood_still = report.start_s - before.end_s > STOOD_STILL * came_in_s
        self._intervals.append(came_in_s if stood_still else 0.0)
        same_size = abs(report.rows_in - before.rows_in) <= SAME_SIZE * before.rows_in
        self._capped = same_size and report.lag_s > STOOD_STILL * came_in_s
        return came_in_s

    def _learn_costs(self, report: Report) -> None:
        self.last_mean_s = report.busy_s / report.rows_kept
        if report.cost_sketch is not None:
            fresh = BucketCosts.from_bytes(report.cost_sketch)
            if not fresh.known:
                return  # No row came as far as the operator.
            self.reach = float(fresh.rows.sum()) / report.rows_kept
        else:  # Measured, but not by key: every bucket is alike.
            fresh = BucketCosts()
            fresh.rows += report.rows_kept / BUCKETS
            fresh.weight += report.rows_kept / BUCKETS
            fresh.work_s += report.busy_s / BUCKETS
        came_s = fresh.mean_s * float(fresh.weight.sum())
        expected_s = float(fresh.weight @ self.costs.costs_s())
        if came_s > 0.0 and expected_s > 0.0:
            self.costs.scale_costs(came_s / expected_s)
            self.surprise = float(fresh.work_s.sum() / (fresh.rows @ self.costs.costs_s()))
        self.costs.fade(REMEMBER)
        self.costs.merge(fresh)
        self.came = REMEMBER * self.came + report.rows_in * float(fresh.rows.sum()) / report.rows_kept

    @property
    def settled(self) -> bool:
        """Whether enough batches were seen to tell how batches go."""
        return len(self._overheads) == PACE_BATCHES

    @property
    def interval_s(self) -> float:
        """Time between the starts of two batches if the query stands still in it, as with a trigger; or 0."""
        # Not the median: a plan that takes an interval for 0 makes long batches, which hide it every other time.
        return float(np.quantile(self._intervals, 0.6, method="higher")) if self._intervals else 0.0

    @property
    def steady(self) -> Pace:
        """How batches would go if all were alike."""
        delay_s, overhead_s, error_s = (_median(times) for times in (self._delays, self._overheads, self._errors))
        lag_s = self._last.lag_s if self._last else 0.0
        # Rows that wait less than the equation says are no reason to work longer: it may be a lull.
        return Pace(delay_s, overhead_s, self.interval_s, lag_s, max(error_s, 0.0))

    @property
    def pace(self) -> Pace:
        """How the next batch will go."""
        steady, last_s = self.steady, self._last.duration_s if self._last else 0.0
        length_s = steady.overhead_s + self.span_s(steady)
        cycle_s = (last_s + length_s) / 2.0 if length_s < np.inf else last_s
        return steady._replace(cycle_s=max(cycle_s, self.interval_s))

    @property
    def least_span_s(self) -> float:
        """How long a batch may work even if the target says less."""
        return LEAST_WORK * max(_median(self._overheads), self.interval_s)

    def span_s(self, pace: Pace) -> float:
        """How long a batch of this pace may work."""
        return max(self._target.allowance(pace).span_s, self.least_span_s)

    def next_rows(self) -> NDArray[np.float64]:
        """Rows of the next batch by bucket, before the gate."""
        last = self._last
        if last is None:
            return np.zeros(BUCKETS)
        rows = float(last.rows_in if self._capped else last.backlog_rows)
        if last.duration_s > 0.0 and not self._capped:
            rows *= self.pace.cycle_s / last.duration_s
        return rows * self.costs.frequencies()


def _median(times: deque[float]) -> float:
    return float(np.median(times)) if times else 0.0
