"""Meets decided rates of queries although the rows of a batch never match them.

Sources tick unevenly: in one batch a query has no rows, in the next twice as many. So each query is owed SIC: its rate
for the time passed, less what was kept. The work that fits a batch goes to those owed the most time of their rate, by
water level (`penstock.core.fairness.max_min`), and is used up as long as there are rows, beyond what is owed if need
be.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.fairness.max_min import fill

Floats = NDArray[np.float64]

#: A query is owed, or owes, no more than so many seconds of its rate: debts that could not be met are let go.
MOST_OWED_S = 2.0
#: Rates below this share of the mean still weigh as much, or room that nobody is owed would never be theirs.
_LEAST_RATE = 1e-6
#: SIC below this is rounding.
_NOTHING = 1e-15


class ServiceDebt:
    """What queries are owed, and who is served in a batch.

    Two queries have the same rate, and one has nothing to give at first:

    >>> debt, due, rows = ServiceDebt(2), np.array([3e-3, 3e-3]), np.array([100.0, 100.0])
    >>> batches = [np.array([0.0, 100.0]), rows, rows, rows]
    >>> [debt.serve(due, 0.25, 1e-4 * rows, rows, 60.0).round(2).tolist() for rows in batches]
    [[1.0, 0.6], [0.6, 0.0], [0.3, 0.3], [0.3, 0.3]]
    """

    def __init__(self, queries: int) -> None:
        """Nobody is owed anything."""
        self._owed = np.zeros(queries)

    def serve(self, due: Floats, elapsed_s: float, sic: Floats, work: Floats, room: float) -> Floats:
        """The share to keep of each query's rows.

        Args:
            due: SIC of each query that is due for a batch of this length.
            elapsed_s: Its length.
            sic: What its rows bring.
            work: What they take.
            room: Work that fits.
        """
        self._owe(due, elapsed_s)
        total = float(due.sum())
        weight = np.maximum(due, _LEAST_RATE * total / due.size) if total > _NOTHING else np.ones(due.size)
        shares, _ = fill(room, np.arange(due.size), sic, work, -self._owed, weight)
        self._owed -= shares * sic
        return shares

    def _owe(self, due: Floats, elapsed_s: float) -> None:
        """Add what is due. What all are owed alike is nobody's debt: room was not as expected."""
        owed = self._owed + due
        total = float(due.sum())
        if total > _NOTHING:
            owed -= due * (float(owed.sum()) / total)
        most = max(MOST_OWED_S / elapsed_s, 1.0) * due
        self._owed = np.clip(owed, -most, most)
