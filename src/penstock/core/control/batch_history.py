"""The sequence of a query's batches: pauses, catching up, limited sources, missed targets."""

import math

import numpy as np

from penstock.core.control.memory import Learned
from penstock.messages.codec import Count, Flag, Number
from penstock.messages.report import Report

#: Batches whose times are remembered; the median is used, because the first batch of a run is an outlier.
PACE_BATCHES = 7
#: A query that was idle for this share of the time between two starts, or for this long, waited for its trigger.
STOOD_STILL, STOOD_STILL_S = 0.1, 0.25
#: A target that every batch misses for this long stays missed unless something changes.
MISSED_S = 10.0
#: Two batches in a row whose rows differ by less, with older rows left behind, are as large as the source allows.
SAME_SIZE = 0.01
#: A source with more than this share of a batch left is behind.
BEHIND = 0.1
#: The decay of counted rows and their time from batch to batch.
REMEMBER = 0.8


class BatchHistory(Learned):
    """The batches of this run of the query."""

    batches: Count  #: with rows or without, but for one that an earlier run began
    last: Report | None
    again: Flag  #: whether the last one was reported before
    catching_up: Flag  #: whether waiting rows become younger, with all kept or from before this run
    capped: Flag  #: whether the source returns fewer rows than it has
    misses: Count  #: batches in a row that missed the target
    _missed_s: Number  # when the first of them started
    _earlier: Report | None  # the last batch of the run before, if it was learned from
    _came: tuple[Number, ...]  # rows that came, and in how many seconds; of older batches, and runs, with less weight
    _begun_s: Number  # when this run's first batch started
    _least_lags_s: tuple[Number, ...]  # the lowest age of the newest row: of any batch, and of any of this run
    _intervals: tuple[Number, ...]

    def __init__(self) -> None:
        self.batches, self.last, self.again, self._earlier = 0, None, False, None
        self.catching_up = self.capped = False
        self.misses, self._missed_s = 0, 0.0
        self._begun_s, self._least_lags_s, self._intervals = 0.0, (np.inf, np.inf), ()
        self._came = (0.0, 0.0)

    def learn(self, report: Report) -> float:
        """Process a batch; returns the time in which its rows arrived, 0 if the previous batch is unknown."""
        self.again = self.last is not None and report.start_s <= self.last.start_s
        self.batches += not self.again and not report.replayed_s
        before, self.last = self.last, report
        self._begun_s = report.start_s if before is None else self._begun_s
        self.catching_up = False
        self._least_lags_s = tuple(min(least_s, report.lag_s) for least_s in self._least_lags_s)
        self.capped = (report.source_rows_behind or 0) > BEHIND * report.rows_in
        follows = before or self._earlier
        came_in_s = report.first_start_s - follows.first_start_s if follows and not self.again else 0.0
        if came_in_s > 0.0:
            rows, seconds = self._came
            self._came = REMEMBER * rows + report.rows_in, REMEMBER * seconds + came_in_s
        if before is None or self.again or report.replayed_s:
            return 0.0
        stood_still = report.start_s - before.end_s > min(STOOD_STILL * came_in_s, STOOD_STILL_S)
        self._intervals = (*self._intervals, came_in_s if stood_still else 0.0)[-PACE_BATCHES:]
        old = report.start_s - report.lag_s < self._begun_s
        self.catching_up = (old or not report.shed_total) and before.lag_s - report.lag_s > STOOD_STILL * came_in_s
        same_size = abs(report.rows_in - before.rows_in) <= SAME_SIZE * before.rows_in
        self.capped = self.capped or (same_size and report.lag_s > STOOD_STILL * came_in_s)
        return came_in_s

    def pause(self) -> None:
        """The query was idle for an unknown time: its next batch does not follow the last one."""
        self._earlier = self.last or self._earlier
        self.last, self.capped, self.catching_up, self.batches = None, False, False, 0
        self.misses, self._intervals = 0, ()  # The next run may have another trigger.
        self._least_lags_s = self._least_lags_s[0], np.inf

    def count_misses(self, report: Report, ratio: float | None) -> None:
        """Process the factor by which waits exceeded the target."""
        if ratio is None or ratio <= 1.0 or self.catching_up:
            self.misses = 0
            return
        self._missed_s = self._missed_s if self.misses else report.start_s
        self.misses += 1

    @property
    def elapsed_s(self) -> float:
        """The time from the start of this run's first batch to the end of the last."""
        return 0.0 if self.last is None else self.last.end_s - self._begun_s

    @property
    def waited_rows_s(self) -> float:
        """The time from the arrival of the last batch's newest row to the start of this run; 0 if it is not older."""
        return 0.0 if self.last is None else max(self._begun_s - self.last.start_s + self.last.lag_s, 0.0)

    @property
    def resumes(self) -> bool:
        """Whether the last batch is the first of this run, planned by an earlier one; its rows waited for the start."""
        return self._earlier is not None and self.batches <= 1

    @property
    def until_s(self) -> float:
        """When the last batch ended, of this run or the one before."""
        newest = self.last or self._earlier
        return -np.inf if newest is None else newest.end_s

    @property
    def waiting_since_s(self) -> float | None:
        """If the last batch is a replay, when the first of the rows behind it came; None if that is unknown."""
        last = self.last
        return last.first_start_s if last and last.replayed_s and self._earlier else None

    @property
    def rows_per_s(self) -> float:
        """Rows that came a second over several batches, as one may be a burst; 0 if unknown."""
        rows, seconds = self._came
        return rows / seconds if seconds > 0.0 else 0.0

    @property
    def misses_for_long(self) -> bool:
        """Whether the target has been missed for too long to be a temporary problem."""
        return self.misses >= PACE_BATCHES and self.until_s - self._missed_s >= MISSED_S

    @property
    def lateness_s(self) -> float:
        """The age of rows when they reach the source, which faster processing does not reduce.

        Some sources report that nothing is left. Otherwise it is the lowest age of the newest row of any batch. Rows
        beyond that age have waited, and would be read sooner if fewer were kept. If the query waited for its rows, the
        batches of earlier runs do not count: rows may come later now.
        """
        if self.last is None or self.last.source_rows_behind:
            return 0.0
        of_all_s, of_this_run_s = self._least_lags_s
        usual_s = of_this_run_s if self.waited and not self.capped else of_all_s
        return self.last.lag_s if self.last.source_rows_behind == 0 else usual_s

    @property
    def interval_s(self) -> float:
        """Time between the starts of two batches if the query is idle in it, as with a trigger; or 0."""
        # Not the median: a plan that assumes an interval of 0 makes long batches, which hide it every other time.
        return sorted(self._intervals)[math.ceil(0.6 * (len(self._intervals) - 1))] if self._intervals else 0.0

    @property
    def waited(self) -> bool:
        """Whether the last batch waited for its trigger."""
        return bool(self._intervals) and self._intervals[-1] > 0.0
