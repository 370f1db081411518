r"""What reports teach about a micro-batch query: what rows cost, how fast work gets done, and what comes next.

- Costs have a shape and a level. The shape, bucket by bucket, is remembered over many batches. The level is the last
  batch's: a common rise of all costs, as on a slower machine, is immediate. So every learned cost is multiplied by the
  work of rows that came in over what was expected of them, before the new rows are added. Weights make that a statement
  on all rows that came, and not on those that were kept.
- Rows that are kept because they seem cheap cost more than estimated, because the estimate selects the buckets.
  By how much they were last time is the surprise. It corrects the next forecast and goes no further: as a cost of its
  own it would add up, batch after batch, on buckets that are hardly measured.
- Capacity is work done per second of span in the last batch, all tasks together.
- A batch's time outside the measured operator, or all of it if nothing is measured, has a fixed part and a part for
  each row (`core.control.capacity`). Only the fixed part is overhead. The other is work, and rows pay for it at the
  gate.
- As long as it is in doubt how much is fixed, a plan keeps at least half as many rows as the smallest recent batch:
  that shows whether batches become shorter, and costs little if they do not.
- A target is out of reach if rows would wait too long even in batches that work very little: because of the fixed part,
  of a trigger, or of the age that rows have when they come. Then shedding is in vain. Rows are kept, up to what the
  query can do.
- The next batch takes in what arrives while this one runs, $C = T_n$, and a plan that is made in time could rely on
  that. But a plan may be late and act on the batch after the next, whose rows depend on a length nobody knows yet. So
  its rows are expected half way between the last batch and the length $T^*$ that batches should have:

$$C = \tfrac{1}{2} (T_n + T^*), \qquad T^* = o + S$$

  With $\varphi = S / T^*$ and a share $\beta$ of the last batch in $C$, a deviation shrinks by $\varphi (1 - \beta)$ a
  batch if plans are in time and by $\sqrt{\varphi\beta}$ if all are late: $\beta = 1$ would swing on for long.
"""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.core.control.capacity import KEEP_UP, Capacity
from penstock.core.control.memory import Learned
from penstock.core.control.targets import AIM, Pace, Target
from penstock.messages.codec import Count, Flag, Number
from penstock.messages.plan import Fits
from penstock.messages.report import Report

_T = TypeVar("_T")

#: What is remembered of costs from one batch to the next: the shape changes slowly, and rare keys need many batches.
REMEMBER = 0.9
#: Batches whose times are remembered; the median is used, because the first batch of a run is like no other.
PACE_BATCHES = 7
#: However hard the target, a batch works this share of its overhead or interval: less loses rows and wins little time.
LEAST_WORK = 0.3
#: A query that stood still for this share of the time between two starts, or for this long, waited for its trigger.
STOOD_STILL, STOOD_STILL_S = 0.1, 0.25
#: What of the time outside a measured operator counts as fixed as long as there is no more to go by.
FIXED_OUTSIDE = 0.8
#: While it is in doubt what of a batch is fixed, plans keep this share of the rows of the smallest recent batch. It is
#: in doubt if the standard error is more than this share of the target.
TRY_SHARE, IN_DOUBT = 0.5, 0.1
#: A fixed part puts a target out of reach if it would also do so were it smaller by so many errors. If it is in doubt,
#: recent batches must also have differed in rows by this factor, and none was short.
SURE_ERRORS, VARIED = 2.0, 4.0
#: Once a target is out of reach, a batch that takes so many times as long as expected shows that something has changed.
CHANGED = 1.5
#: A target that every batch misses for so long stays missed unless something changes.
MISSED_S = 10.0
#: Two batches in a row whose rows differ by less, with older rows left behind, are as large as the source allows.
SAME_SIZE = 0.01
#: A batch fits a plan if it is up to so many times as large as planned for: rows never come quite evenly.
SPARE = 1.25
#: A source that says so is behind if it has left more than this share of a batch.
BEHIND = 0.1


class Knowledge(Learned):
    """What is known after the last report.

    >>> from penstock.core.control.targets import MeanQueueLatency
    >>> known = Knowledge(MeanQueueLatency("2 s"))
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

    costs: BucketCosts
    came: Number  #: rows of which `costs` are, those that were shed included
    capacity: Number  #: seconds of work that tasks get done a second, all together
    surprise: Number  #: what the last batch's rows cost as a multiple of what was expected of them
    reach: Number  #: rows that come to the operator for each row the gate keeps: filters may lie between them
    last_mean_s: Number  #: mean cost of the rows of the last batch that had any
    batches: Count  #: of this run of the query, with rows or without
    catching_up: Flag  #: whether rows that have waited come ever younger, with all kept or from before this run
    measured: Flag  #: whether an operator tells what its rows cost
    out_of_reach: Flag  #: whether the target cannot be held however much is shed
    capped: Flag  #: whether the source hands out less than it has
    missed: tuple[Report, ...]  #: the first and the last of batches in a row that missed the target
    misses: Count  #: how many these are
    recent: tuple[Report, ...]  #: the last batches that had rows, the first of a run left out
    until_s: Number  #: when the last batch learned from ended, of this run or an earlier one
    _resumed: Flag  # whether an earlier run was learned from
    _time: Capacity  # of the time outside the operator, or of all of it
    _last: Report | None
    _begun_s: Number  # when this run's first batch started
    _least_lag_s: Number
    _intervals: tuple[Number, ...]
    _delays: tuple[Number, ...]
    _errors: tuple[Number, ...]

    def __init__(self, target: Target, *, triggered: bool = True) -> None:
        """Start knowing nothing; unless `triggered`, a target is not out of reach for a long trigger alone."""
        self._target, self._triggered = target, triggered
        self.costs, self._time = BucketCosts(), Capacity()
        self.came, self.capacity, self.surprise, self.reach, self.last_mean_s = 0.0, 1.0, 1.0, 1.0, 0.0
        self.batches = self.misses = 0
        self.catching_up = self.measured = self.out_of_reach = self.capped = self._resumed = False
        self._last, self._begun_s, self._least_lag_s, self.until_s = None, 0.0, np.inf, -np.inf
        self.missed = self.recent = self._intervals = self._delays = self._errors = ()

    def learn(self, report: Report) -> None:
        """Process the report of one batch."""
        again = self._last is not None and report.start_s <= self._last.start_s
        self.batches += not again
        self.until_s = report.end_s
        self._begun_s = report.start_s if self.batches == 1 else self._begun_s
        came_in_s = self._look_back(report)
        if report.rows_in and not report.rows_kept:
            self.costs.scale_costs(0.5)  # Nothing was measured: believe the past less, or the gate may never open.
        if not self.measured and (report.cost_sketch is not None or not report.busy_s):
            self.measured, self._time = True, Capacity(FIXED_OUTSIDE, bounded=False)
        # The first batch of a run is cold, whatever is known from an earlier one.
        usual = not again and (self.batches > 1 or not self._time.batches)
        if usual:
            self._learn_time(report)
        if report.rows_kept and report.busy_s:
            self._learn_costs(report)
            self.capacity = report.busy_s / (report.span_s or report.busy_s / report.slots) if self.measured else 1.0
            self._delays = _last_of(*self._delays, report.delay_s)
            if usual and self._time.batches > 1:
                self.recent = _last_of(*self.recent, _without_costs(report))
            excess_s = self._target.excess_s(report, came_in_s) if came_in_s else None
            if excess_s is not None and not self.catching_up:
                self._errors = _last_of(*self._errors, excess_s)
        self.out_of_reach = self._is_out_of_reach()
        self._count_misses(report)

    def _count_misses(self, report: Report) -> None:
        ratio = self._target.ratio(report)
        if ratio is None or ratio <= 1.0 or self.catching_up:
            self.missed, self.misses = (), 0
        else:
            self.missed, self.misses = (*self.missed[:1], _without_costs(report)), self.misses + 1

    def _learn_time(self, report: Report) -> None:
        took_s = report.overhead_s if self.measured else report.duration_s
        expected_s, limit_s = self._time.expected_s(report.rows_kept), self._target.fresh_s or np.inf
        self._time.learn(report.rows_kept, took_s)
        if self.out_of_reach and took_s > CHANGED * expected_s and took_s - expected_s > IN_DOUBT * limit_s:
            self._begin_again()

    def _begin_again(self) -> None:
        """Something has changed: whether shedding is in vain is to be seen again."""
        self.out_of_reach = False
        self.recent = ()
        self._time.doubt()

    def pause(self) -> None:
        """The query stood still for a time unknown: its next batch does not follow the last one."""
        self._resumed = self._resumed or self.batches > 0
        self._last, self.capped, self.catching_up, self.batches = None, False, False, 0
        self.missed, self.misses = (), 0
        self._least_lag_s = np.inf

    def _look_back(self, report: Report) -> float:
        """The time in which the batch's rows came in; 0 if the batch before it is not known."""
        before, self._last = self._last, _without_costs(report)
        self.catching_up = False
        self._least_lag_s = min(self._least_lag_s, report.lag_s)
        self.capped = (report.source_rows_behind or 0) > BEHIND * report.rows_in
        if before is None or report.start_s <= before.start_s:
            return 0.0
        came_in_s = report.start_s - before.start_s
        stood_still = report.start_s - before.end_s > min(STOOD_STILL * came_in_s, STOOD_STILL_S)
        self._intervals = _last_of(*self._intervals, came_in_s if stood_still else 0.0)
        old = report.start_s - report.lag_s < self._begun_s
        self.catching_up = (old or not report.shed_total) and before.lag_s - report.lag_s > STOOD_STILL * came_in_s
        same_size = abs(report.rows_in - before.rows_in) <= SAME_SIZE * before.rows_in
        self.capped = self.capped or (same_size and report.lag_s > STOOD_STILL * came_in_s)
        return came_in_s

    def _learn_costs(self, report: Report) -> None:
        if not self.measured:
            self._share_out(self._time.unit_s * report.rows_kept, report)
            return
        self.last_mean_s = report.busy_s / report.rows_kept
        fresh = BucketCosts.from_bytes(report.cost_sketch or b"")
        if not fresh.known:
            return  # No row came as far as the operator.
        self.reach = float(fresh.rows.sum()) / report.rows_kept
        came_s = fresh.mean_s * float(fresh.weight.sum())
        expected_s = float(fresh.weight @ self.costs.costs_s())
        if came_s > 0.0 and expected_s > 0.0:
            self.costs.scale_costs(came_s / expected_s)
            self.surprise = float(fresh.work_s.sum() / (fresh.rows @ self.costs.costs_s()))
        self.costs.fade(REMEMBER)
        self.costs.merge(fresh)
        self.came = REMEMBER * self.came + report.rows_in * float(fresh.rows.sum()) / report.rows_kept

    def _share_out(self, work_s: float, report: Report) -> None:
        """Nothing is measured by key: every bucket is alike."""
        self.last_mean_s = work_s / report.rows_kept
        self.costs = BucketCosts()
        self.costs.rows += report.rows_kept / BUCKETS
        self.costs.weight += report.rows_kept / BUCKETS
        self.costs.work_s += work_s / BUCKETS
        self.came = float(report.rows_in)

    @property
    def settled(self) -> bool:
        """Whether enough batches were seen to tell how batches go."""
        return len(self._delays) == PACE_BATCHES

    @property
    def resumes(self) -> bool:
        """Whether the last batch is the first after an earlier run, which had planned it: its rows waited for that."""
        return self._resumed and self.batches == 1

    @property
    def misses_for_long(self) -> bool:
        """Whether the target has been missed for so long that it is no passing trouble."""
        return self.misses >= PACE_BATCHES and self.missed[-1].end_s - self.missed[0].start_s >= MISSED_S

    @property
    def lateness_s(self) -> float:
        """How old rows are when they come to the source: work that is done faster does not make them younger.

        A source that has handed out all it has says so, if it says anything. Otherwise rows are as late as the newest
        of a batch ever were: beyond that they have waited, and would be read sooner if less were kept.
        """
        if self._last is None or self._last.source_rows_behind:
            return 0.0
        return self._last.lag_s if self._last.source_rows_behind == 0 else self._least_lag_s

    @property
    def late(self) -> bool:
        """Whether rows would wait too long without any work."""
        wait_s, limit_s = self._target.wait_s(self.steady, 0.0), self._target.fresh_s
        return wait_s is not None and limit_s is not None and wait_s > limit_s

    @property
    def outside_s(self) -> float:
        """Work that each row kept brings outside the measured operator, in the operator's seconds of work."""
        return self._time.unit_s * self.capacity if self.measured else 0.0

    @property
    def interval_s(self) -> float:
        """Time between the starts of two batches if the query stands still in it, as with a trigger; or 0."""
        # Not the median: a plan that takes an interval for 0 makes long batches, which hide it every other time.
        return float(np.quantile(self._intervals, 0.6, method="higher")) if self._intervals else 0.0

    @property
    def fixed_s(self) -> float:
        """What a batch takes however few rows it has."""
        return self._time.overhead_s

    @property
    def steady(self) -> Pace:
        """How batches would go if all were alike."""
        return self._steady(self._time.overhead_s)

    def _steady(self, fixed_s: float) -> Pace:
        delay_s, error_s = _median(self._delays), self._usual_error_s
        lag_s = self._last.lag_s if self._last and not self.catching_up else 0.0
        # Rows that wait less than the equation says are no reason to work longer: it may be a lull.
        pace = Pace(delay_s, fixed_s, self.interval_s, lag_s, max(error_s, 0.0))
        if not self.measured:
            return pace._replace(window_s=max(fixed_s - delay_s, 0.0))
        last = self.recent[-1] if self.recent else self._last
        whole_s = self._work_span_s(last) if last else 0.0
        return pace._replace(within=last.span_s / whole_s if last and whole_s > 0.0 else 1.0)

    @property
    def _usual_error_s(self) -> float:
        """By how much longer rows usually wait than the equation says; of two batches, the one that is nearer to it."""
        return min(self._errors) if len(self._errors) == 2 else _median(self._errors)  # noqa: PLR2004 - of two

    @property
    def pace(self) -> Pace:
        """How the next batch will go."""
        steady, last_s = self.steady, self._last.duration_s if self._last else 0.0
        length_s = steady.overhead_s + self.span_s(steady)
        cycle_s = (last_s + length_s) / 2.0 if length_s < np.inf else last_s
        return steady._replace(cycle_s=max(cycle_s, self.interval_s))

    def _work_span_s(self, report: Report) -> float:
        """How much of a batch's time depended on its rows."""
        outside_s = self._time.unit_s * report.rows_kept
        return outside_s + report.span_s if self.measured else outside_s

    @property
    def row_span_s(self) -> float:
        """By how much each row that is kept makes a batch longer; 0 as long as that is not known."""
        last = self.recent[-1] if self.recent else None
        return self._work_span_s(last) / last.rows_kept if last else 0.0

    @property
    def least_span_s(self) -> float:
        """How long a batch may work even if the target says less."""
        if not self.recent or not self.in_doubt:
            return LEAST_WORK * max(self.fixed_s, self.interval_s)
        shortest_s = min(map(self._work_span_s, self.recent))
        enough_s = max(self._time.doubt_s, self._target.fresh_s or np.inf)
        return max(TRY_SHARE * min(shortest_s, enough_s), LEAST_WORK * self.interval_s)

    def span_s(self, pace: Pace) -> float:
        """How long a batch of this pace may work."""
        if self.out_of_reach:
            fixed_s, limit_s = pace.overhead_s, self._target.fresh_s or 0.0
            return max(KEEP_UP * self.interval_s - fixed_s, KEEP_UP / (1.0 - KEEP_UP) * fixed_s, limit_s)
        return max(self._target.allowance(pace).span_s, self.least_span_s)

    def fits(self, rows_per_s: float, spare: float = SPARE) -> Fits | None:
        """Up to how many rows of a batch fit, if so many a second can be kept up with; None if that is not known."""
        span_s = self.span_s(self.steady._replace(lag_s=0.0))
        if self.catching_up or (self.in_doubt and not self.measured) or not 0.0 < span_s < np.inf:
            return None
        return Fits(rows_per_s, rows=spare * span_s * rows_per_s)

    @property
    def in_doubt(self) -> bool:
        """Whether too little is known of what is fixed."""
        return self._time.doubt_s > IN_DOUBT * (self._target.fresh_s or np.inf)

    @property
    def shrinking(self) -> bool:
        """Whether batches shrink without shedding while little is known, so that nothing need be shed to learn."""
        last = self._last
        if last is None or self.measured or self.capped or not self.in_doubt or last.shed_total:
            return False
        return last.backlog_rows < (1.0 - STOOD_STILL) * last.rows_in

    @property
    def _surely_fixed_s(self) -> float:
        """What a batch takes however few rows it has, at the very least."""
        rows = [report.rows_kept for report in self.recent]
        if not rows or (self.in_doubt and max(rows) < VARIED * min(rows)):
            return 0.0
        shortest_s = min(report.overhead_s if self.measured else report.duration_s for report in self.recent)
        return max(min(self._time.overhead_s - SURE_ERRORS * self._time.doubt_s, shortest_s), 0.0)

    @property
    def _waited(self) -> bool:
        """Whether the last batch waited for its trigger."""
        return bool(self._intervals) and self._intervals[-1] > 0.0

    def _is_out_of_reach(self) -> bool:
        """Whether rows would wait too long in batches that hardly work."""
        limit_s = self._target.fresh_s
        if limit_s is None or self._last is None or self.catching_up:
            return False
        if self.out_of_reach:  # Only if the target comes well within reach is it tried for again.
            fixed_s, limit_s = self._time.overhead_s, AIM * limit_s
        else:
            fixed_s = self._surely_fixed_s
        pace = self._steady(fixed_s)
        # Where rows seldom come, none waits for a trigger.
        ratio = self._target.ratio(self._last)
        waits = self.out_of_reach or (self._waited and (ratio is None or ratio > 1.0))
        interval_s = pace.cycle_s if self._triggered and waits else 0.0
        pace = pace._replace(lag_s=self.lateness_s, cycle_s=interval_s, delay_s=min(pace.delay_s, fixed_s))
        wait_s = self._target.wait_s(pace, LEAST_WORK * max(fixed_s, interval_s))
        return wait_s is not None and wait_s > limit_s

    def next_rows(self) -> NDArray[np.float64]:
        """Rows of the next batch by bucket, before the gate."""
        last = self._last
        if last is None:
            return np.zeros(BUCKETS)
        rows = float(last.rows_in if self.capped else last.backlog_rows)
        if last.duration_s > 0.0 and not self.capped:
            rows *= self.pace.cycle_s / last.duration_s
        return rows * self.costs.frequencies()


def _median(times: tuple[float, ...]) -> float:
    return float(np.median(times)) if times else 0.0


def _last_of(*values: _T) -> tuple[_T, ...]:
    return values[-PACE_BATCHES:]


def _without_costs(report: Report) -> Report:
    """What is remembered of a report: its costs have been added up, and are most of its bytes."""
    return replace(report, cost_sketch=None)
