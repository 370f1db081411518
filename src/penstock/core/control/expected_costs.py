"""What the rows of the next batch cost, by bucket: as learned, or as a baseline of an evaluation knows it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, pooled
from penstock.core.control.forecast import Knowledge

_Floats = NDArray[np.float64]

#: From what is known: the rows of each bucket, and what one costs.
Expectation = Callable[[Knowledge], tuple[_Floats, _Floats]]


def learned(known: Knowledge) -> tuple[_Floats, _Floats]:
    """By what rows of each bucket cost before.

    A bucket never seen is assumed to be free, that is, kept first: at the floor learning its cost would take long. It
    brings no work to the forecast either way.
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
    """By what is known of each place for keys in each grade of worth (`core.control.bucket_costs`)."""

    def expected(known: Knowledge) -> tuple[_Floats, _Floats]:
        shares, costs_s = pooled(known.costs, keys, grades)
        return float(known.next_rows().sum()) * shares, known.costs.surprise * known.costs.reach * costs_s

    return expected
