r"""The learned state of a micro-batch query: costs of rows, capacity, and the forecast of the next batch.

- Costs have a shape and a level (`core.control.row_costs`).
- Capacity is work done per second of span in the last batch, all tasks together.
- A batch's time outside the measured operator (all of it if none is measured) has a fixed part and a part for each row
  (`core.control.capacity`). Only the fixed part is overhead. The other part is work that the gate can shed.
- While the fixed part is uncertain, a plan keeps at least half as many rows as the smallest recent batch. This shows
  whether batches become shorter, and costs little if they do not.
- A target is out of reach if rows would wait too long even in batches that work very little. The cause is the fixed
  part, a trigger, or the age of rows on arrival. Shedding does not help then, so rows are kept up to the query's
  capacity.
- The next batch contains the rows that arrive while this one runs, $C = T_n$, and a plan in time could rely on that.
  But a late plan acts on the batch after the next, whose rows depend on an unknown length. So the forecast is half way
  between the last batch and the intended length $T^*$ of batches:

$$C = \tfrac{1}{2} (T_n + T^*), \qquad T^* = o + S$$

  Let $\varphi = S / T^*$, and let the last batch have a share $\beta$ in $C$. A deviation then shrinks by
  $\varphi (1 - \beta)$ a batch if plans are in time, and by $\sqrt{\varphi\beta}$ if all are late. $\beta = 1$ would
  oscillate for long.
"""

import statistics
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.batch_history import PACE_BATCHES, STOOD_STILL, BatchHistory
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.capacity import KEEP_UP, Capacity
from penstock.core.control.memory import Learned
from penstock.core.control.row_costs import RowCosts
from penstock.core.control.targets import AIM, Deadline, Pace, Target
from penstock.messages.codec import Flag, Number
from penstock.messages.plan import Fits
from penstock.messages.report import Report

#: The minimum work of a batch, as a share of its overhead or interval: less loses rows and gains little time.
LEAST_WORK = 0.3
#: The share of time outside a measured operator that counts as fixed until more is known.
FIXED_OUTSIDE = 0.8
#: While the fixed part is uncertain, plans keep this share of the rows of the smallest recent batch. It is uncertain
#: if the standard error is more than this share of the target.
TRY_SHARE, IN_DOUBT = 0.5, 0.1
#: A fixed part puts a target out of reach if it still does when reduced by this many errors. If it is uncertain, recent
#: batches must also have differed in rows by this factor, and none was short.
SURE_ERRORS, VARIED = 2.0, 4.0
#: Once a target is out of reach, a batch that takes this many times as long as expected indicates a change.
CHANGED = 1.5
#: The last batch of a backlog, if it has less than this share of the usual rows, is a remainder.
REMAINDER = 0.5
#: A batch fits a plan if it is up to this many times as large as planned, because rows never come evenly.
SPARE = 1.25


class Knowledge(Learned):
    """The learned state after the last report.

    >>> from penstock.core.control.targets import MeanQueueLatency
    >>> known = Knowledge(MeanQueueLatency("2 s"))
    >>> from penstock.core.control.bucket_costs import BucketCosts
    >>> costs = BucketCosts()
    >>> costs.add(np.arange(100), np.full(100, 0.03), np.ones(100))
    >>> known.learn(Report(sequence=1, start_s=0, end_s=2, rows_in=100, rows_kept=100, busy_s=3, slots=2, span_s=1.5,
    ...                    overhead_s=0.5, delay_s=0.25, backlog_rows=120, cost_sketch=costs.to_bytes()))
    >>> round(known.costs.mean_s, 6), known.capacity
    (0.03, 2.0)
    >>> known.pace.cycle_s  # half way between the 2 s it took and 1.8 s, in which rows would wait 0.9 of the target
    1.9
    >>> round(float(known.next_rows().sum()), 9)
    114.0
    """

    costs: RowCosts
    history: BatchHistory  #: of this run of the query
    capacity: Number  #: seconds of work that all tasks together complete a second
    measured: Flag  #: whether an operator reports the costs of its rows
    out_of_reach: Flag  #: whether the target cannot be held even with shedding
    recent: tuple[Report, ...]  #: the last batches that had rows, the first of a run left out
    _time: Capacity  # of the time outside the operator, or of all of it
    _delays: tuple[Number, ...]
    _errors: tuple[Number, ...]

    def __init__(self, target: Target, *, triggered: bool = True) -> None:
        """Start without knowledge; unless `triggered`, a long trigger alone does not put a target out of reach."""
        self._target, self._triggered = target, triggered
        self.costs, self.history, self._time = RowCosts(), BatchHistory(), Capacity()
        self.capacity, self.measured, self.out_of_reach = 1.0, False, False
        self.recent = self._delays = self._errors = ()

    def learn(self, report: Report) -> None:
        """Process the report of one batch."""
        # Costs are summed apart, and are most of a report's bytes. Rows of a replay are as old as that is long ago.
        batch = replace(report, cost_sketch=None, lag_s=max(report.lag_s - report.replayed_s, 0.0))
        came_in_s = self.history.learn(batch)
        if report.rows_in and not report.rows_kept:
            self.costs.scale_costs(0.5)  # Nothing was measured: trust the past less, or the gate may never open.
        if not self.measured and (report.cost_sketch is not None or not report.busy_s):
            self.measured, self._time = True, Capacity(FIXED_OUTSIDE, bounded=False)
        # The first batch of a run is cold, even if an earlier run is known.
        usual = not self.history.again and (self.history.batches > 1 or not self._time.batches)
        if usual:
            self._learn_time(report)
        if report.rows_kept and report.busy_s and not self._is_remainder(report):
            if self.measured:
                self.costs.learn(report)
            else:
                self.costs.share_out(self._time.unit_s * report.rows_kept, report)
            self.capacity = report.busy_s / (report.span_s or report.busy_s / report.slots) if self.measured else 1.0
            self._delays = (*self._delays, report.delay_s)[-PACE_BATCHES:]
            if usual and self._time.batches > 1:
                self.recent = (*self.recent, batch)[-PACE_BATCHES:]
            excess_s = self._target.excess_s(report, came_in_s) if came_in_s else None
            if excess_s is not None and not self.history.catching_up:
                self._errors = (*self._errors, excess_s)[-PACE_BATCHES:]
        self.out_of_reach = self._is_out_of_reach()
        self.history.count_misses(batch, self._target.ratio(report))

    def _is_remainder(self, report: Report) -> bool:
        """Whether the batch has the last few rows of a backlog, which do not show what all tasks can do."""
        usual = self.recent[-1].rows_in if self.recent else 0
        return self.by_deadline and report.batches_behind == 0.0 and report.rows_in < REMAINDER * usual

    def _learn_time(self, report: Report) -> None:
        took_s = report.overhead_s if self.measured else report.duration_s
        expected_s, limit_s = self._time.expected_s(report.rows_kept), self._target.fresh_s or np.inf
        self._time.learn(report.rows_kept, took_s)
        if self.out_of_reach and took_s > CHANGED * expected_s and took_s - expected_s > IN_DOUBT * limit_s:
            # Something has changed: check again whether shedding helps.
            self.out_of_reach, self.recent = False, ()
            self._time.doubt()

    @property
    def settled(self) -> bool:
        """Whether enough batches were seen for a forecast."""
        return len(self._delays) == PACE_BATCHES

    @property
    def late(self) -> bool:
        """Whether rows would wait too long without any work."""
        wait_s, limit_s = self._target.wait_s(self.steady, 0.0), self._target.fresh_s
        return wait_s is not None and limit_s is not None and wait_s > limit_s

    @property
    def outside_s(self) -> float:
        """Work of each kept row outside the measured operator, in the operator's seconds of work."""
        return self._time.unit_s * self.capacity if self.measured else 0.0

    @property
    def least_outside_s(self) -> float:
        """The time that each kept row surely takes outside the measured operator."""
        return self._time.least_unit_s

    @property
    def fixed_s(self) -> float:
        """The time of a batch without rows."""
        return self._time.overhead_s

    @property
    def steady(self) -> Pace:
        """The times of batches in a steady state."""
        return self._steady(self._time.overhead_s)

    def _steady(self, fixed_s: float) -> Pace:
        # The usual excess of waits over the equation; of two batches, the smaller one.
        error_s = min(self._errors) if len(self._errors) == 2 else _median(self._errors)  # noqa: PLR2004 - of two
        delay_s = _median(self._delays)
        lag_s = self.history.last.lag_s if self.history.last and not self.history.catching_up else 0.0
        # Shorter waits than by the equation are no reason to work longer: it may be a lull.
        pace = Pace(delay_s, fixed_s, self.history.interval_s, lag_s, max(error_s, 0.0))
        pace = pace._replace(elapsed_s=self.history.elapsed_s, batches_left=self.batches_left)
        if not self.measured:
            return pace._replace(window_s=max(fixed_s - delay_s, 0.0))
        last = self.recent[-1] if self.recent else self.history.last
        whole_s = self._work_span_s(last) if last else 0.0
        return pace._replace(within=last.span_s / whole_s if last and whole_s > 0.0 else 1.0)

    @property
    def pace(self) -> Pace:
        """The times of the next batch."""
        steady, last_s = self.steady, self.history.last.duration_s if self.history.last else 0.0
        length_s = steady.overhead_s + self.span_s(steady)
        cycle_s = (last_s + length_s) / 2.0 if length_s < np.inf else last_s
        return steady._replace(cycle_s=max(cycle_s, self.history.interval_s))

    @property
    def next_s(self) -> float:
        """The time in which the rows of the next batch come: behind a replay, since the killed run planned that."""
        since_s, last = self.history.waiting_since_s, self.history.last
        if last is None or since_s is None or self._target.fresh_s is None:
            return self.pace.cycle_s
        return last.end_s - since_s

    def _work_span_s(self, report: Report) -> float:
        """How much of a batch's time depended on its rows."""
        outside_s = self._time.unit_s * report.rows_kept
        return outside_s + report.span_s if self.measured else outside_s

    @property
    def row_span_s(self) -> float:
        """The time that each kept row adds to a batch; 0 if unknown."""
        last = self.recent[-1] if self.recent else None
        return self._work_span_s(last) / last.rows_kept if last else 0.0

    @property
    def least_span_s(self) -> float:
        """The minimum work span of a batch, even if the target allows less."""
        if not self.recent or not self.in_doubt:
            return LEAST_WORK * max(self.fixed_s, self.history.interval_s)
        shortest_s = min(map(self._work_span_s, self.recent))
        enough_s = max(self._time.doubt_s, self._target.fresh_s or np.inf)
        return max(TRY_SHARE * min(shortest_s, enough_s), LEAST_WORK * self.history.interval_s)

    def span_s(self, pace: Pace) -> float:
        """The allowed work span of a batch with these times."""
        if self.out_of_reach:
            fixed_s, limit_s = pace.overhead_s, self._target.fresh_s or 0.0
            return max(KEEP_UP * self.history.interval_s - fixed_s, KEEP_UP / (1.0 - KEEP_UP) * fixed_s, limit_s)
        return max(self._target.allowance(pace).span_s, self.least_span_s)

    def fits(self, rows_per_s: float, spare: float = SPARE) -> Fits | None:
        """The number of rows of a batch that fit at this sustainable rate; None if unknown."""
        span_s = self.span_s(self.steady._replace(lag_s=0.0, elapsed_s=0.0, batches_left=1.0))
        catching_up = self.history.catching_up and not self.by_deadline
        if catching_up or (self.in_doubt and not self.measured) or not 0.0 < span_s < np.inf:
            return None
        if self.by_deadline:  # The first batch of the next run may hold all of a backlog.
            return Fits(rows_per_s, rows=span_s * rows_per_s, by_deadline=True)
        return Fits(rows_per_s, rows=spare * span_s * rows_per_s)

    @property
    def batches_left(self) -> float | None:
        """Batches like the last one that the rows take that waited when this run began; None if unknown.

        Some sources report it. Otherwise the age of rows tells it. Each recent batch covers a time of arrivals, and
        the time from there to the start of the run is left.
        """
        last, left_s = self.history.last, self.history.waited_rows_s
        if last is None or last.batches_behind is not None:
            return 1.0 if last is None else last.batches_behind
        newest_s = [one.start_s - one.lag_s for one in self.recent if one.start_s > last.end_s - self.history.elapsed_s]
        if len(newest_s) < 2 or not last.lag_s or not left_s or newest_s[-1] <= newest_s[0]:  # noqa: PLR2004 - two
            return None
        return left_s * (len(newest_s) - 1) / (newest_s[-1] - newest_s[0])

    @property
    def by_deadline(self) -> bool:
        """Whether a backlog is to be processed by a deadline."""
        return isinstance(self._target, Deadline)

    @property
    def in_doubt(self) -> bool:
        """Whether the fixed part is uncertain."""
        return self._time.doubt_s > IN_DOUBT * (self._target.fresh_s or np.inf)

    @property
    def shrinking(self) -> bool:
        """Whether batches shrink without shedding while little is known, so that shedding is not needed to learn."""
        last = self.history.last
        if last is None or self.measured or self.history.capped or not self.in_doubt or last.shed_total:
            return False
        return last.backlog_rows < (1.0 - STOOD_STILL) * last.rows_in

    @property
    def _surely_fixed_s(self) -> float:
        """A lower bound of the time of a batch without rows."""
        rows = [report.rows_kept for report in self.recent]
        if not rows or (self.in_doubt and max(rows) < VARIED * min(rows)):
            return 0.0
        shortest_s = min(report.overhead_s if self.measured else report.duration_s for report in self.recent)
        return max(min(self._time.overhead_s - SURE_ERRORS * self._time.doubt_s, shortest_s), 0.0)

    def _is_out_of_reach(self) -> bool:
        """Whether rows would wait too long in batches with minimal work."""
        limit_s = self._target.fresh_s
        if limit_s is None or self.history.last is None or self.history.catching_up:
            return False
        if self.out_of_reach:  # The target counts again only if it is well within reach.
            fixed_s, limit_s = self._time.overhead_s, AIM * limit_s
        else:
            fixed_s = self._surely_fixed_s
        pace = self._steady(fixed_s)
        # If rows are rare, none waits for a trigger.
        ratio = self._target.ratio(self.history.last)
        waits = self.out_of_reach or (self.history.waited and (ratio is None or ratio > 1.0))
        interval_s = pace.cycle_s if self._triggered and waits else 0.0
        pace = pace._replace(lag_s=self.history.lateness_s, cycle_s=interval_s, delay_s=min(pace.delay_s, fixed_s))
        wait_s = self._target.wait_s(pace, LEAST_WORK * max(fixed_s, interval_s))
        return wait_s is not None and wait_s > limit_s

    def next_rows(self) -> NDArray[np.float64]:
        """Rows of the next batch by bucket, before the gate."""
        last = self.history.last
        if last is None:
            return np.zeros(BUCKETS)
        if self.by_deadline:
            left = self.batches_left
            return last.rows_in * (1.0 if left is None else min(left, 1.0)) * self.costs.frequencies()
        rows, next_s = float(last.rows_in if self.history.capped else last.backlog_rows), self.next_s
        if self.history.waiting_since_s is not None and not self.history.capped:
            rows = self.history.rows_per_s * next_s
        elif last.duration_s > 0.0 and not self.history.capped:
            rows *= next_s / last.duration_s
        return rows * self.costs.frequencies()


def _median(times: tuple[float, ...]) -> float:
    return statistics.median(times) if times else 0.0
