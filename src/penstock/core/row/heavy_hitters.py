"""Heavy hitters: exact mean costs of the keys that matter most, in a table of fixed size.

A sketch blurs every key with those that share its cells. Most work comes from few keys, so the frequent ones get a
place of their own (Space-Saving: a new key takes the place of the least counted one and inherits its count, so that
frequent keys settle and rare ones pass through). The count decides who stays; the mean is over the rows seen since the
key moved in, so it is exact.

A. Metwally, D. Agrawal, A. El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005.
"""

import numpy as np

from penstock.core.row.cost_sketch import FORGOTTEN
from penstock.core.row.machines import Key
from penstock.errors import PenstockError


class HeavyHitters:
    """Mean cost of up to `places` frequent keys.

    >>> table = HeavyHitters(places=2)
    >>> for key, cost in [("a", 1.0), ("a", 3.0), ("b", 5.0), ("c", 7.0)]:
    ...     table.add(key, cost)
    >>> table.mean("a"), table.mean("b"), table.mean("c")  # c took b's place
    (2.0, None, 7.0)
    """

    def __init__(self, places: int) -> None:
        """Start with every place free."""
        if places < 1:
            raise PenstockError.setting("places", places, "a whole number from 1 up")
        self._place_of: dict[Key, int] = {}
        self._key_at: list[Key | None] = [None] * places
        self._count = np.zeros(places)
        self._seen = np.zeros(places)
        self._cost = np.zeros(places)

    @property
    def memory_bytes(self) -> int:
        """A key hash and three numbers a place."""
        return len(self._key_at) * 8 + self._count.nbytes + self._seen.nbytes + self._cost.nbytes

    def mean(self, key: Key) -> float | None:
        """Mean cost of the key, or None if it has no place."""
        place = self._place_of.get(key)
        return None if place is None else float(self._cost[place] / self._seen[place])

    def add(self, key: Key, cost: float) -> None:
        """Count one row of the key; move it in if it has no place."""
        place = self._place_of.get(key)
        if place is None:
            place = int(np.argmin(self._count))
            evicted = self._key_at[place]
            if evicted is not None:
                del self._place_of[evicted]
            self._place_of[key] = place
            self._key_at[place] = key
            self._seen[place] = 0.0
            self._cost[place] = 0.0
        self._count[place] += 1.0
        self._seen[place] += 1.0
        self._cost[place] += cost

    def decay(self, factor: float) -> None:
        """Forget: all past rows count this much less from now on; a key of which nothing is left moves out."""
        self._count *= factor
        self._seen *= factor
        self._cost *= factor
        for key in [key for key, place in self._place_of.items() if self._seen[place] < FORGOTTEN]:
            place = self._place_of.pop(key)
            self._key_at[place] = None
            self._count[place] = self._seen[place] = self._cost[place] = 0.0

    def scale_costs(self, factor: float) -> None:
        """All costs have changed by this factor at once."""
        self._cost *= factor
