r"""A backlog at the start of a query, thinned by age with `backlog="thin"`.

The first batch contains all waiting rows, possibly of a day, and has no plan yet. Kept whole it may run for hours.
A row of age $a$ is kept with probability

$$s(a) = \begin{cases} 1 & a \le g \\ h / a & a > g \end{cases}$$

where $h$ is the age of fresh rows by the target and $g$ a grace for rows that arrive while Spark starts. Of a backlog
that grew at an even rate for a time $A$, it keeps as many rows as arrive in

$$g + h \ln (A / g)$$

which hardly depends on $A$: of a day's backlog, with $h$ = 2 s and $g$ = 30 s, the rows of 46 s. Each doubling of age
keeps as many rows as any other, so all parts of the backlog are known equally well: $1 / s$ is the weight.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.gate import BACKLOG_NUMBER, CERTAIN, REASON_BITS
from penstock.messages.plan import Backlog

#: No row waits longer at a source; an older time is not an arrival time.
MOST_AGE_S = 30 * 86_400.0
#: The maximum time by which an arrival may be ahead of the worker's clock, because clocks differ.
MOST_AHEAD_S = 60.0


class Arrivals(NamedTuple):
    """Plausible arrival times, and counts of those too old or ahead; the rest is unknown.

    A column may hold times of events long past, 1970, or a clock that runs ahead.
    """

    usable: NDArray[np.bool_]
    ancient: int
    ahead: int


def sort_out(arrivals_s: NDArray[np.float64], now_s: NDArray[np.float64]) -> Arrivals:
    """Classify arrival times; each row started at its `now_s`.

    >>> sort_out(np.array([np.nan, 0.0, 1.9e9, 1.8e9]), np.full(4, 1.8e9))
    Arrivals(usable=array([False, False, False,  True]), ancient=1, ahead=1)
    """
    ancient, ahead = arrivals_s < now_s - MOST_AGE_S, arrivals_s > now_s + MOST_AHEAD_S
    usable = np.isfinite(arrivals_s) & ~ancient & ~ahead
    return Arrivals(usable, int(ancient.sum()), int(ahead.sum()))


#: Rows that arrived while Spark started are no backlog.
GRACE_S = 30.0


def rule(fresh_s: float) -> Backlog:
    """The rule for thinning a backlog if rows up to this age are fresh.

    >>> rule(2.0)
    Backlog(grace_s=30.0, fresh_s=2.0)
    >>> rule(60.0)
    Backlog(grace_s=60.0, fresh_s=60.0)
    """
    return Backlog(grace_s=max(GRACE_S, fresh_s), fresh_s=fresh_s)


def age_thresholds(backlog: Backlog, arrivals_s: NDArray[np.float64], bound_s: float) -> NDArray[np.int64]:
    """The threshold of each row by its age alone; implausible and unknown ages count as none.

    Young rows are kept with certainty, beside others that may not be.

    >>> [hex(limit) for limit in age_thresholds(rule(2.0), np.array([1e9 - 29.0, 1e9 - 32.0, 0.0]), 1e9)]
    ['0x7ffffffffffff7ff', '0x7ffffffffffffff', '0x7ffffffffffff7ff']
    """
    old = (arrivals_s >= bound_s - MOST_AGE_S) & (arrivals_s < bound_s - backlog.grace_s)
    shares = np.divide(backlog.fresh_s, bound_s - arrivals_s, out=np.zeros(len(arrivals_s)), where=old)
    limits = ((shares * 2.0**63).astype(np.int64) - 1) & ~np.int64(REASON_BITS) | np.int64(BACKLOG_NUMBER)
    return np.where(old, limits, np.int64(CERTAIN))
