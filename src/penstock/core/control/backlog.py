r"""A backlog that waits when a query starts, thinned by age if the user chooses so (`backlog="thin"`).

The first batch takes in all that waits, be it a day's rows, and no plan has been made for it yet. Kept whole it may
run for hours. A row of age $a$ is kept with probability

$$s(a) = \begin{cases} 1 & a \le g \\ h / a & a > g \end{cases}$$

where $h$ is what the target calls fresh and $g$ a grace for what arrives while Spark starts. Of a backlog that grew at
an even rate for a time $A$, what is kept is what arrives in

$$g + h \ln (A / g)$$

which hardly depends on $A$: of a day's backlog, with $h$ = 2 s and $g$ = 30 s, the rows of 46 s. Each doubling of age
keeps as many rows as any other, so all parts of the backlog are known equally well: $1 / s$ is the weight.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.arrival import MOST_AGE_S
from penstock.core.control.thresholds import BACKLOG_NUMBER, CERTAIN, REASON_BITS
from penstock.messages.plan import Backlog

#: Why such rows are shed.
TOO_OLD = "too old when the query started"
#: What arrived while Spark started is no backlog.
GRACE_S = 30.0


def rule(fresh_s: float) -> Backlog:
    """How to thin a backlog under a target that calls rows of this age fresh.

    >>> rule(2.0)
    Backlog(grace_s=30.0, fresh_s=2.0)
    >>> rule(60.0)
    Backlog(grace_s=60.0, fresh_s=60.0)
    """
    return Backlog(grace_s=max(GRACE_S, fresh_s), fresh_s=fresh_s)


def age_thresholds(backlog: Backlog, arrivals_s: NDArray[np.float64], bound_s: float) -> NDArray[np.int64]:
    """The threshold of each row by its age alone; what is older than a row can be, or not known, has no age.

    Young rows are kept for certain, beside others that may not be.

    >>> [hex(limit) for limit in age_thresholds(rule(2.0), np.array([1e9 - 29.0, 1e9 - 32.0, 0.0]), 1e9)]
    ['0x7ffffffffffff7ff', '0x7ffffffffffffff', '0x7ffffffffffff7ff']
    """
    old = (arrivals_s >= bound_s - MOST_AGE_S) & (arrivals_s < bound_s - backlog.grace_s)
    shares = np.divide(backlog.fresh_s, bound_s - arrivals_s, out=np.zeros(len(arrivals_s)), where=old)
    limits = ((shares * 2.0**63).astype(np.int64) - 1) & ~np.int64(REASON_BITS) | np.int64(BACKLOG_NUMBER)
    return np.where(old, limits, np.int64(CERTAIN))
