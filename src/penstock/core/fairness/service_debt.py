"""Meeting rates that were decided for each query, though an interval's tuples never fit them.

Sources tick unevenly: in one interval a query has no tuples, in the next twice as many. So each query is owed SIC: its
rate for the time passed, less what was kept. An interval's capacity goes to those owed the most time of their rate, by
water level (`penstock.core.fairness.max_min`), and is used up as long as there are tuples, beyond what is owed if need
be.
"""

import numpy as np

from penstock.core.fairness.balance_sic import Floats, Ints
from penstock.core.fairness.input_buffer import Buffer, keep_derived, whole_tuples
from penstock.core.fairness.max_min import fill

#: A query is owed, or owes, no more than so many seconds of its rate: debts that could not be met are let go.
_MOST_OWED_S = 2.0
#: Rates below this share of the mean still weigh as much, or room that nobody is owed would never be theirs.
_LEAST_RATE = 1e-6
#: SIC below this is rounding.
_NOTHING = 1e-15


class ServiceDebt:
    """What queries are owed, and who is served in an interval.

    Two queries have the same rate, and one has nothing to give at first:

    >>> debt = ServiceDebt(2, interval_s=0.25)
    >>> both, one = Buffer.of([0, 1], 100, 1e-4), Buffer.of([1], 100, 1e-4)
    >>> [debt.serve(buffer, 60, np.array([3e-3, 3e-3])).tolist() for buffer in (one, both, both, both)]
    [[60], [60, 0], [30, 30], [30, 30]]
    """

    def __init__(self, queries: int, interval_s: float) -> None:
        """Nobody is owed anything."""
        self._intervals = max(_MOST_OWED_S / interval_s, 1.0)
        self._owed = np.zeros(queries)
        self.accepted: Floats = np.zeros(queries)

    def serve(self, buffer: Buffer, capacity: float, rates: Floats) -> Ints:
        """Tuples kept of each batch: derived ones first, the others by what their queries are owed.

        `rates` are SIC an interval. `accepted` is then the SIC kept of each query's sources.
        """
        self._owe(rates)
        kept, left = keep_derived(buffer, capacity)
        source = np.flatnonzero(~buffer.derived)
        owner, tuples, work = buffer.owner[source], buffer.tuples[source], buffer.work[source]
        sic = buffer.sic[source]
        total = float(rates.sum())
        weight = (
            np.maximum(rates, _LEAST_RATE * total / max(rates.size, 1)) if total > _NOTHING else np.ones(rates.size)
        )
        shares, _ = fill(left, owner, tuples * sic, tuples * work, -self._owed, weight)
        kept[source] = whole_tuples(shares, tuples, work, left)
        self.accepted = np.bincount(owner, kept[source] * sic, minlength=rates.size).astype(np.float64)
        self._owed -= self.accepted
        return kept

    def _owe(self, rates: Floats) -> None:
        """Add an interval's due. What all are owed alike is nobody's debt: room was not as expected."""
        owed = self._owed + rates
        total = float(rates.sum())
        if total > _NOTHING:
            owed -= rates * (float(owed.sum()) / total)
        self._owed = np.clip(owed, -self._intervals * rates, self._intervals * rates)


class Offered:
    """What a node was offered and had room for in an interval, on average over about the last so many calls.

    >>> offered = Offered(2, calls=40)
    >>> offered.add(Buffer.of([0, 1], [100, 50], 1e-3, 1.0, [False, True]), 120.0)
    >>> offered.sic, offered.work, offered.room
    (array([0.1, 0. ]), array([100.,   0.]), 70.0)
    """

    def __init__(self, queries: int, calls: float) -> None:
        """Start from nothing; the first calls count alike."""
        self._most = max(calls, 1.0)
        self._count = 0
        self.sic = np.zeros(queries)
        self.work = np.zeros(queries)
        self.room = 0.0

    def add(self, buffer: Buffer, capacity: float) -> None:
        """Take in a call: sources by query, and the capacity that derived batches leave for them."""
        self._count += 1
        gain = 1.0 / min(self._count, self._most)
        source = ~buffer.derived
        owner, tuples = buffer.owner[source], buffer.tuples[source]
        self.sic += gain * (np.bincount(owner, tuples * buffer.sic[source], minlength=self.sic.size) - self.sic)
        self.work += gain * (np.bincount(owner, tuples * buffer.work[source], minlength=self.sic.size) - self.work)
        self.room += gain * (keep_derived(buffer, capacity)[1] - self.room)
