"""Expected costs of the next batch's rows by bucket: as learned, or as known to a baseline of an evaluation."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, pooled
from penstock.core.control.forecast import Knowledge

_Floats = NDArray[np.float64]

#: Returns the rows of each bucket, and their cost.
Expectation = Callable[[Knowledge], tuple[_Floats, _Floats]]


def learned(known: Knowledge) -> tuple[_Floats, _Floats]:
    """By the past costs of each bucket.

    An unseen bucket is assumed to be free, so it is kept first: at the floor, learning its cost would take long. It
    adds no work to the forecast either way.
    """
    level = known.costs.surprise * known.costs.reach
    return known.next_rows(), np.where(known.costs.rows > 0.0, level * known.costs.costs_s(), 0.0)


def recent_mean(known: Knowledge) -> tuple[_Floats, _Floats]:
    """By the mean of the last batch."""
    return known.next_rows(), np.full(BUCKETS, known.costs.last_mean_s)


def given(costs_s: float | _Floats) -> Expectation:
    """By costs that are known: one for all rows, or one for each bucket."""
    return lambda known: (known.next_rows(), np.full(BUCKETS, costs_s))


def by_class(keys: int, grades: int) -> Expectation:
    """By pooled costs of each place for keys in each grade of worth (`core.control.bucket_costs`)."""

    def expected(known: Knowledge) -> tuple[_Floats, _Floats]:
        shares, costs_s = pooled(known.costs, keys, grades)
        return float(known.next_rows().sum()) * shares, known.costs.surprise * known.costs.reach * costs_s

    return expected
