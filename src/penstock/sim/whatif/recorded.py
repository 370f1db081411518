r"""A recorded query as a stream to simulate: its arrivals, and what its rows cost, from the lengths of its batches.

A batch of $n$ rows takes $T = o + n\,w$. Over all batches the overhead $o$ is the intercept of the Theil-Sen line, the
median of slopes, which a slow first batch does not bend. What a batch took beyond it is the work of its own rows:

$$w_i = \max(T_i - o,\ 0) / n_i$$

so the replayed work equals the recorded work, even if costs changed over time. Work is in seconds of the whole query,
as on one core, not per task.

A query that has just started is slow: its first batches take longer than the line says, in proportion to it. They are
left out (`warm_up`), because what they took is no measure of what follows.

The rows of a batch came in between the start of the batch before it and its own start; evenly, for all that is known.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import theilslopes

from penstock.core.control.bucket_costs import BUCKETS
from penstock.errors import PenstockError
from penstock.sim.workload import Stream, cumulated

#: A query that is idle for longer than this waits for rows or for its trigger.
STANDS_STILL_S = 0.1
#: A first batch that takes this many times the value of the line is warm-up, and so are similar ones after it.
_COLD = 1.5
#: The maximum number of these, and the minimum left for the replay.
_MOST_COLD, _LEAST_WARM = 10, 4
#: Batches of which the largest is larger than the smallest by less than this share do not show overhead.
_ALIKE = 0.1
#: Batches that the fit looks at, evenly chosen: it compares all pairs.
_MOST_FITTED = 1000
#: The maximum number of simulated rows; beyond it, one represents several.
MOST_ROWS = 500_000


@dataclass(frozen=True, slots=True)
class Batch:
    """The record of a trigger in a log."""

    start_s: float  #: when it fired
    duration_s: float  #: how long it took
    work_s: float  #: how long of it the batch itself ran
    rows: int  #: rows that came from the source
    worked_rows: int  #: how many of them were worked on: a guard may have shed the others
    behind: int | None = None  #: rows that the source knew of and did not hand out; None if it does not say

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Keys:
    """How rows and costs spread over the gate's buckets: shares of rows, and costs as multiples of the mean.

    >>> alike = Keys.alike()
    >>> float(alike.shares.sum()), float(alike.costs.max())
    (1.0, 1.0)
    >>> spread = Keys.spread(64.0, seed=0)
    >>> round(float(spread.costs.max() / spread.costs.min())), round(float(spread.shares @ spread.costs), 9)
    (64, 1.0)
    """

    shares: NDArray[np.float64]
    costs: NDArray[np.float64]

    @classmethod
    def alike(cls) -> Self:
        """All rows cost the same."""
        return cls(np.full(BUCKETS, 1.0 / BUCKETS), np.ones(BUCKETS))

    @classmethod
    def spread(cls, ratio: float, seed: int) -> Self:
        """Zipf-1 keys with a max/min cost ratio of `ratio`, in even steps."""
        shares = np.diff(cumulated("zipf-1.0", BUCKETS), prepend=0.0)
        costs = np.random.default_rng(seed).permutation(np.linspace(1.0, ratio, BUCKETS))
        return cls(shares, costs / (shares @ costs))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A query to be run again."""

    stream: Stream  #: its rows; keys are buckets of the gate
    first_start_s: float  #: when its first batch started
    overhead_s: float  #: what a batch takes besides work
    trigger_s: float  #: time between two triggers; 0 if batches follow each other at once
    #: The most rows that its source hands out at a time, in rows of the stream; None if there is no limit.
    cap_rows: int | None
    rows_each: int  #: recorded rows for which a row of the stream stands
    mean_wait_s: float  #: how long rows waited, by the starts of the recorded batches
    recorded_rows: int  #: rows of the log
    batches: int  #: batches with rows
    length_s: float  #: from the first start to the last end
    load: float  #: seconds of work that came in a second, on average
    alike: bool  #: whether all rows of a batch cost the same
    cold: int = 0  #: batches of the warm-up, which are left out


def recorded(triggers: Sequence[Batch], keys: Keys, *, trigger_s: float | None = None, seed: int = 0) -> Recorded:
    """The query whose triggers these were; `trigger_s` is found from their starts if it is not given."""
    batches = [one for one in triggers if one.rows > 0]
    if len(batches) < 2:  # noqa: PLR2004 - a line needs two points
        raise PenstockError(
            f"the log has {len(batches)} batch{'' if len(batches) == 1 else 'es'} with rows: give two at least, better "
            "a hundred; Spark keeps more with spark.sql.streaming.numRecentProgressUpdates"
        )
    cold = warm_up(batches)
    batches = batches[cold:]
    trigger_s = found_trigger_s(batches) if trigger_s is None else trigger_s
    overhead_s, costs_s = costs(batches)
    came = _came(batches)
    rows_each = max(-(-int(came.sum()) // MOST_ROWS), 1)
    counts = _fewer(came, rows_each)
    handed_out = _fewer(np.array([one.rows for one in batches], np.float64), rows_each)
    arrivals_s = _arrivals_s(triggers, batches, counts, trigger_s)
    # Rows in no recorded batch, because they were behind when the log ended, cost as much as the last rows.
    order = np.repeat(np.arange(len(batches)), handed_out)[: len(arrivals_s)]
    order = np.pad(order, (0, len(arrivals_s) - len(order)), constant_values=len(batches) - 1)
    rng = np.random.default_rng(seed)
    drawn = np.searchsorted(np.cumsum(keys.shares), rng.random(len(order))).clip(max=BUCKETS - 1).astype(np.int64)
    work_s = costs_s[order] * rows_each * keys.costs[drawn]
    # What keys were drawn must not change the work of a batch.
    own_s = np.bincount(order, work_s, minlength=len(batches))
    due_s = np.bincount(order, minlength=len(batches)) * costs_s * rows_each
    work_s *= np.divide(due_s, own_s, out=np.ones(len(batches)), where=own_s > 0.0)[order]
    # Time 0 of the simulator, where triggers fire at whole multiples of their interval.
    origin_s = float(np.floor(arrivals_s[0] / trigger_s) * trigger_s if trigger_s else arrivals_s[0])
    starts_s = np.array([one.start_s for one in batches])
    within_s = np.array([one.duration_s - overhead_s for one in batches]).clip(min=0.0) / 2.0
    known = slice(0, min(int(handed_out.sum()), len(arrivals_s)))
    waits_s = (starts_s + overhead_s + within_s)[order[known]] - arrivals_s[known]
    return Recorded(
        stream=Stream(drawn, work_s, arrivals_s - origin_s, BUCKETS),
        first_start_s=batches[0].start_s - origin_s,
        overhead_s=overhead_s,
        trigger_s=trigger_s,
        cap_rows=_cap_rows(batches, rows_each),
        rows_each=rows_each,
        mean_wait_s=float(waits_s.mean()),
        recorded_rows=sum(one.rows for one in batches),
        batches=len(batches),
        length_s=batches[-1].end_s - batches[0].start_s,
        load=float(work_s.sum()) / max(float(arrivals_s[-1] - arrivals_s[0]), 1e-9),
        alike=float(np.ptp(keys.costs)) == 0.0,
        cold=cold,
    )


def warm_up(batches: Sequence[Batch]) -> int:
    """How many batches at the beginning were slow because the query had just started.

    >>> rows = (10, 400, 500, 700, 600, 800)
    >>> warm = [Batch(0.0, 0.5 + 0.01 * count, 0.2, count, count) for count in rows]
    >>> warm_up(warm), warm_up([Batch(0.0, 9.0, 8.0, 10, 10), *warm])
    (0, 1)
    """
    most = max(min(_MOST_COLD, len(batches) - _LEAST_WARM), 0)
    for cold, one in enumerate(batches[:most]):
        try:
            overhead_s, costs_s = costs(batches[cold + 1 :])  # a cold batch must not speak for itself
        except PenstockError:  # no line
            return 0
        if one.duration_s <= _COLD * (overhead_s + float(np.median(costs_s)) * one.worked_rows):
            return cold
    return most


def costs(batches: Sequence[Batch]) -> tuple[float, NDArray[np.float64]]:
    """Overhead of a batch, and what a row costs in each."""
    rows = np.array([one.worked_rows for one in batches], np.float64)
    took_s = np.array([one.duration_s for one in batches])
    if np.ptp(rows) <= _ALIKE * rows.max():  # no line through points above each other
        overhead_s = float(np.median([one.duration_s - one.work_s for one in batches]))
    else:
        some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_FITTED)).astype(np.int64))
        line = theilslopes(took_s[some], rows[some])
        if line.slope <= 0.0:
            raise PenstockError(
                "batches with more rows do not take longer in this log, so the cost of a row is unknown: give a "
                "longer log that includes the overload; without one, fewer rows would not shorten batches"
            )
        overhead_s = float(line.intercept)
    overhead_s = min(max(overhead_s, 0.0), float(took_s.min()))
    work_s = took_s - overhead_s
    return overhead_s, np.divide(work_s, rows, out=np.zeros(len(rows)), where=rows > 0.0)


def found_trigger_s(batches: Sequence[Batch]) -> float:
    """Time between two triggers, if batches that had to wait started at whole multiples of it; otherwise 0."""
    pairs = list(itertools.pairwise(batches))
    waited = [two for one, two in pairs if two.start_s - one.end_s > STANDS_STILL_S]
    if len(waited) * 2 < len(pairs):
        return 0.0  # Most started at once.
    gap_s = float(np.median([two.start_s - one.start_s for one, two in pairs]))
    interval_s = round(gap_s) if gap_s >= 1.0 else round(gap_s, 1)
    if interval_s <= 0.0:
        return 0.0
    off_s = np.array([abs(one.start_s - round(one.start_s / interval_s) * interval_s) for one in waited])
    return float(interval_s) if (off_s <= STANDS_STILL_S).mean() > 0.9 else 0.0  # noqa: PLR2004 - nearly all


def _came(batches: Sequence[Batch]) -> NDArray[np.float64]:
    """Rows that came to the source until each batch started, since the one before it."""
    rows = np.array([one.rows for one in batches], np.float64)
    if any(one.behind is None for one in batches):
        return rows
    behind = np.array([one.behind for one in batches], np.float64)
    return np.maximum(rows + np.diff(behind, prepend=0.0), 0.0)


def _arrivals_s(
    triggers: Sequence[Batch], batches: Sequence[Batch], counts: NDArray[np.int64], trigger_s: float
) -> NDArray[np.float64]:
    """When each row came: evenly between a moment at which there was none, and the start of its batch."""
    begins_s = np.empty(len(batches))
    all_starts_s = np.array([one.start_s for one in triggers])
    for place, (one, two) in enumerate(itertools.pairwise(batches), start=1):
        before = int(np.searchsorted(all_starts_s, two.start_s)) - 1  # a trigger without rows counts too
        looked_s = float(all_starts_s[max(before, 0)])
        stood_still = not trigger_s and two.start_s - one.end_s > STANDS_STILL_S and not two.behind
        # Without a trigger, an idle query had no rows until now.
        begins_s[place] = max(one.end_s, two.start_s - STANDS_STILL_S) if stood_still else looked_s
    span_s = batches[-1].start_s - batches[0].start_s
    before = int(np.searchsorted(all_starts_s, batches[0].start_s)) - 1
    rate = max(float(counts[1:].sum()), 1.0) / max(span_s, 1e-3)
    # The first rows came since the batch before, if the log has it; else at the mean rate.
    begins_s[0] = float(all_starts_s[before]) if before >= 0 else batches[0].start_s - counts[0] / rate
    parts = [
        begin_s + (one.start_s - begin_s) * (np.arange(count) + 0.5) / max(count, 1)
        for begin_s, one, count in zip(begins_s.tolist(), batches, counts.tolist(), strict=True)
    ]
    return np.maximum.accumulate(np.concatenate(parts))


def _fewer(rows: NDArray[np.float64], rows_each: int) -> NDArray[np.int64]:
    """Enough rows, each of which represents several, that rounding errors do not accumulate."""
    return np.diff(np.round(np.cumsum(rows) / rows_each), prepend=0.0).astype(np.int64)


def _cap_rows(batches: Sequence[Batch], rows_each: int) -> int | None:
    """The size of batches that left rows behind, if a limit of the source explains it."""
    sizes = [one.rows for one in batches if one.behind]
    if len(sizes) < 2 or np.ptp(sizes) > _ALIKE * max(sizes):  # noqa: PLR2004 - one is an accident
        return None
    return max(round(max(sizes) / rows_each), 1)
