"""Carried weight: the next kept row of about the same cost represents a dropped row.

A shedder that decides by the state of a queue has no keep probability whose inverse could be the weight. Instead a
dropped row's weight is carried over to the next kept row of its cost class. So weights of kept rows + carried weight =
weights of all rows, per class, at any time. Counts and sums are unbiased if successive rows of one class are
exchangeable, as they are if only the queue decides.
"""

import math
from array import array

#: Classes are powers of two of the cost in seconds, from below a microsecond to above an hour.
_SMALLEST, _LARGEST = -20, 12


class CarriedWeight:
    """Carried weight of dropped rows, by cost class.

    >>> carry = CarriedWeight()
    >>> carry.drop(cost_s=0.010, weight=1.0)
    >>> carry.drop(cost_s=0.011, weight=2.0)
    >>> carry.keep(cost_s=5.0, weight=1.0)  # another class
    1.0
    >>> carry.keep(cost_s=0.012, weight=1.0)
    4.0
    >>> carry.total
    0.0
    """

    def __init__(self) -> None:
        self._by_class = array("d", bytes(8 * (_LARGEST - _SMALLEST + 1)))

    @property
    def total(self) -> float:
        """Weight carried at the moment."""
        return sum(self._by_class)

    @property
    def memory_bytes(self) -> int:
        """Fixed size of the table."""
        return len(self._by_class) * self._by_class.itemsize

    def drop(self, cost_s: float, weight: float) -> None:
        """Add the weight of a dropped row."""
        self._by_class[_class_of(cost_s)] += weight

    def keep(self, cost_s: float, weight: float) -> float:
        """The weight of a kept row: its own plus that carried by its class."""
        cost_class = _class_of(cost_s)
        weight += self._by_class[cost_class]
        self._by_class[cost_class] = 0.0
        return weight


def _class_of(cost_s: float) -> int:
    if cost_s <= 0.0:
        return 0
    return min(max(math.frexp(cost_s)[1], _SMALLEST), _LARGEST) - _SMALLEST
