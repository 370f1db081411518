"""Times of arrival that can be right: a column may hold times of events long past, 1970, or a clock that runs ahead."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: No row waits longer at a source: what is older was not stamped when it arrived.
MOST_AGE_S = 30 * 86_400.0
#: A row may have arrived so long after the worker's clock says it was processed: clocks differ.
MOST_AHEAD_S = 60.0


class Arrivals(NamedTuple):
    """Which times of arrival can be right, and how many of the others lie where; the rest is not known."""

    usable: NDArray[np.bool_]
    ancient: int
    ahead: int


def sort_out(arrivals_s: NDArray[np.float64], now_s: NDArray[np.float64]) -> Arrivals:
    """Look at times of arrival; each row was taken up at its `now_s`.

    >>> sort_out(np.array([np.nan, 0.0, 1.9e9, 1.8e9]), np.full(4, 1.8e9))
    Arrivals(usable=array([False, False, False,  True]), ancient=1, ahead=1)
    """
    ancient, ahead = arrivals_s < now_s - MOST_AGE_S, arrivals_s > now_s + MOST_AHEAD_S
    usable = np.isfinite(arrivals_s) & ~ancient & ~ahead
    return Arrivals(usable, int(ancient.sum()), int(ahead.sum()))
