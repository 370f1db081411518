"""Meets decided rates of queries although the rows of a batch never match them.

Sources are uneven: in one batch a query has no rows, in the next twice as many. So each query has a service debt in
SIC: its rate times the elapsed time, minus the kept SIC. The work that fits a batch goes to the queries with the
largest debt relative to their rate, by water level (`penstock.core.fairness.max_min`). Work beyond all debts is also
used while there are rows.
"""

import numpy as np

from penstock.core.fairness.max_min import Floats, Ints, fill

#: The maximum debt or credit of a query, in seconds of its rate; larger debts are forgiven.
MOST_OWED_S = 2.0
#: The minimum weight of a rate, as a share of the mean, so that queries with low rates also get free capacity.
_LEAST_RATE = 1e-6
#: SIC below this is rounding.
_NOTHING = 1e-15


class ServiceDebt:
    """Debts to queries, and the queries to serve in a batch.

    Two queries have the same rate, and one has nothing to give at first:

    >>> debt, due, queries = ServiceDebt(2), np.array([3e-3, 3e-3]), np.arange(2)
    >>> batches = [np.array([0.0, 100.0]), *[np.array([100.0, 100.0])] * 3]
    >>> serve = lambda rows: debt.serve(due, 0.25, queries, (1e-4 * rows, rows), np.ones(2), 60.0)
    >>> [serve(rows).round(2).tolist() for rows in batches]
    [[1.0, 0.6], [0.6, 0.0], [0.3, 0.3], [0.3, 0.3]]
    """

    def __init__(self, queries: int) -> None:
        self._owed = np.zeros(queries)

    def serve(
        self, due: Floats, elapsed_s: float, owner: Ints, offers: tuple[Floats, Floats], rank: Floats, room: float
    ) -> Floats:
        """The share to keep of the rows of each source.

        Args:
            due: SIC of each query that is due for a batch of this length.
            elapsed_s: Its length.
            owner: The query of each source.
            offers: SIC and work of the rows of each source.
            rank: Of a query's sources, those of the highest rank are kept first.
            room: Work that fits.
        """
        owed, total = self._owed + due, float(due.sum())
        if total > _NOTHING:  # A debt common to all is removed: capacity was not as expected.
            owed -= due * (float(owed.sum()) / total)
        most = max(MOST_OWED_S / elapsed_s, 1.0) * due
        self._owed = np.clip(owed, -most, most)
        weight = np.maximum(due, _LEAST_RATE * total / due.size) if total > _NOTHING else np.ones(due.size)
        shares, _ = fill(room, owner, *offers, -self._owed, weight, rank=rank)
        self._owed -= np.bincount(owner, shares * offers[0], due.size)
        return shares
