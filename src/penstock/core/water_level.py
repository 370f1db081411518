r"""Penstock's own shedder of a node: even out queries with late knowledge, without swinging.

BALANCE-SIC swings because all hosts of a poor query lift it at once, and go on until the gain shows in a message, a
source time window later. Here each node sets a *rate* $x_q$ for each query it hosts: SIC that it accepts in a source
time window. Three things a node knows by itself make that steady:

- its own part in what was told. The message says $S_q$; of that the node itself gave $V_q$, which it looks up in what
  it accepted in the window that the message sums up. What it has accepted since is not counted twice or missed.
- that others act as well. A query of $F_q$ fragments is lifted by all its hosts, so what one accepts counts $F_q$
  times.
- that derived batches are few and carry the work of other nodes: they are kept always, before anything else.

The rates are the water level over all queries here (`penstock.core.fair_share`), with work $c_q$ for a unit of SIC,
$u_q$ offered and $C$ of work to give in a source time window:

$$S_q + F_q (x_q - V_q) = \lambda, \qquad 0 \le x_q \le u_q, \qquad \sum_q c_q x_q = C$$

Summed over its hosts, a query's new total is the mean of their levels, whatever it was before: an error is corrected
once, not once a message. Levels of neighbouring nodes meet as queries they share move from one to the other.

Sources do not tick evenly, so in a single interval rates cannot be met exactly. Each query has a balance of SIC it is
owed, and an interval's capacity goes to those owed the most time of their rate.

It knows nothing more than BALANCE-SIC does but the number of a query's fragments, which is in its deployment. It counts
work, not tuples. A weight of 2 asks for twice the SIC.
"""

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.balance import Floats, Ints
from penstock.core.fair_share import fill
from penstock.core.settings import duration_s
from penstock.core.shedder import Buffer, Decision, Known, keep_derived, whole_tuples
from penstock.core.sic import SLIDE_S, STW_S
from penstock.errors import PenstockError

#: How much of what a query is owed is remembered a second later: debts that could not be met are let go.
_OWED_MEMORY = 0.8
#: Rates below this share of what is offered still weigh as much, or no room left would ever be theirs.
_LEAST_RATE = 1e-4


class WaterLevelShedder:
    """Keeps what evens out SIC over all nodes, from local knowledge and late messages.

    Before a message has come, a query is taken to get everywhere what it gets here:

    >>> shedder = WaterLevelShedder(fragments=[1, 2])
    >>> buffer = Buffer.of(owner=[0, 1], tuples=[100, 100], sic=[1e-4, 0.5e-4])
    >>> shedder.select(buffer, 60, Known.nothing(2), 0.25).kept.tolist()
    [30, 30]
    """

    name = "penstock"

    def __init__(
        self,
        fragments: ArrayLike,
        *,
        weights: ArrayLike = 1.0,
        stw_s: float = STW_S,
        interval_s: float = SLIDE_S,
        lag_s: float = 1.0,
    ) -> None:
        """For queries of so many fragments each.

        Args:
            fragments: Fragments of each query that take in sources, all nodes together; 1 if unknown.
            weights: What a query's SIC is divided by before queries are compared.
            stw_s: The source time window that messages sum up.
            interval_s: Time between two calls.
            lag_s: About how long a tuple takes from here to the result.
        """
        self._fragments = np.maximum(np.asarray(fragments, dtype=np.float64), 1.0)
        queries = self._fragments.size
        self._weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), (queries,))
        if not (self._weights > 0.0).all():
            raise PenstockError("weights are not usable: give numbers above 0")
        self._stw_s = duration_s("stw_s", stw_s)
        self._interval_s = duration_s("interval_s", interval_s)
        self._lag_s = lag_s
        self._offered = Smoothed(queries, stw_s, interval_s)
        self._work = Smoothed(queries, stw_s, interval_s)
        self._room = Smoothed(1, stw_s, interval_s)
        self._accepted = Accepted(queries, stw_s, interval_s)
        self._owed = np.zeros(queries)

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        """Derived batches first; the others by what their queries are owed."""
        kept, left = keep_derived(buffer, capacity)
        source = np.flatnonzero(~buffer.derived)
        owner, each, work = buffer.owner[source], buffer.sic[source], buffer.work[source]
        tuples = buffer.tuples[source]
        queries = self._fragments.size
        self._offered.add(np.bincount(owner, tuples * each, minlength=queries))
        self._work.add(np.bincount(owner, tuples * work, minlength=queries))
        self._room.add(np.array([left]))
        rates = self._rates(known, now_s)
        self._owed = self._owed * _OWED_MEMORY**self._interval_s + rates * (self._interval_s / self._stw_s)
        weight = np.maximum(rates, _LEAST_RATE * self._offered.mean + 1e-300)
        shares, _ = fill(left, owner, tuples * each, tuples * work, -self._owed, weight)
        kept[source] = whole_tuples(shares, tuples, work, left)
        accepted = np.bincount(owner, kept[source] * each, minlength=queries)
        self._owed -= accepted
        self._accepted.add(accepted, now_s)
        return Decision(kept)

    def _rates(self, known: Known, now_s: float) -> Floats:
        """SIC of each query to accept in a source time window."""
        windows = self._stw_s / self._interval_s
        offered, work = self._offered.mean * windows, self._work.mean * windows
        told = ~np.isnan(known.sic)
        seen_s = np.where(np.isnan(known.told_s), now_s, known.told_s) - self._lag_s
        start = np.where(told, known.sic - self._fragments * self._accepted.window(seen_s), 0.0)
        queries = np.arange(offered.size)
        shares, _ = fill(
            float(self._room.mean[0]) * windows, queries, self._fragments * offered, work, start, self._weights
        )
        return shares * offered


class Smoothed:
    """A mean of amounts over about a window, of those seen as long as there are fewer.

    >>> mean = Smoothed(1, window_s=1.0, interval_s=0.5)
    >>> for amount in (1.0, 3.0, 5.0):
    ...     mean.add(np.array([amount]))
    >>> mean.mean
    array([3.5])
    """

    def __init__(self, size: int, window_s: float, interval_s: float) -> None:
        """Start from nothing."""
        self._most = max(window_s / interval_s, 1.0)
        self._count = 0
        self.mean = np.zeros(size)

    def add(self, amounts: Floats) -> None:
        """Take in an interval's amounts."""
        self._count += 1
        self.mean += (amounts - self.mean) / min(self._count, self._most)


class Accepted:
    """What a node has accepted, so that it can tell its own part in a message.

    >>> own = Accepted(1, stw_s=1.0, interval_s=0.5)
    >>> for now_s in (0.5, 1.0, 1.5, 2.0):
    ...     own.add(np.array([now_s]), now_s)
    >>> own.window(np.array([1.5])), own.window(np.array([9.0])), own.window(np.array([0.5]))
    (array([2.5]), array([3.5]), array([0.5]))
    """

    def __init__(self, queries: int, stw_s: float, interval_s: float) -> None:
        """Remember four windows: messages that are older are as good as none."""
        self._slots = int(np.ceil(4 * stw_s / interval_s)) + 1
        self._steps = max(round(stw_s / interval_s), 1)
        self._interval_s = interval_s
        self._sums = np.zeros((self._slots, queries))
        self._calls = 0
        self._now_s = 0.0

    def add(self, accepted: Floats, now_s: float) -> None:
        """Take in what was accepted in a call."""
        before = self._sums[self._calls % self._slots]
        self._calls += 1
        self._sums[self._calls % self._slots] = before + accepted
        self._now_s = now_s

    def window(self, end_s: Floats) -> Floats:
        """What was accepted of each query in the source time window that ended then."""
        back = np.rint((self._now_s - end_s) / self._interval_s)
        oldest = max(self._calls - self._slots + 1, 0)
        end = np.clip(self._calls - back, oldest, self._calls).astype(np.int64)
        begin = np.maximum(end - self._steps, oldest)
        queries = np.arange(end.size)
        return self._at(end, queries) - self._at(begin, queries)

    def _at(self, calls: Ints, queries: Ints) -> Floats:
        return self._sums[calls % self._slots, queries]
