r"""Penstock's own shedder of a node: even out queries with late knowledge, without swinging.

BALANCE-SIC swings because all hosts of a poor query lift it at once, and go on until the gain shows in a message, a
source time window later. Here each node sets a *rate* $x_q$ for each query it hosts: SIC that it accepts in a source
time window. Three things a node knows by itself make that steady:

- its own part in what was told. The message says $S_q$; of that the node itself gave $V_q$, which it looks up in what
  it accepted in the window that the message sums up. What it has accepted since is not counted twice or missed.
- that others act as well. A query of $F_q$ fragments is lifted by all its hosts, so what one accepts counts $F_q$
  times.
- that derived batches are few and carry the work of other nodes: they are kept always, before anything else.

The rates are the water level over all queries here (`penstock.core.fairness.max_min`), with work $c_q$ for a unit of
SIC, $u_q$ offered and $C$ of work to give in a source time window:

$$S_q + F_q (x_q - V_q) = \lambda, \qquad 0 \le x_q \le u_q, \qquad \sum_q c_q x_q = C$$

Summed over its hosts, a query's new total is the mean of their levels, whatever it was before: an error is corrected
once, not once a message. Levels of neighbouring nodes meet as queries they share move from one to the other.

Sources tick unevenly, so in a single interval rates cannot be met exactly; `penstock.core.fairness.service_debt` meets
them over time.

It knows nothing more than BALANCE-SIC does but the number of a query's fragments, which is in its deployment. It counts
work, not tuples. A weight of 2 asks for twice the SIC.
"""

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.fairness.balance_sic import Floats, Ints
from penstock.core.fairness.input_buffer import Buffer, Decision, Known
from penstock.core.fairness.max_min import fill
from penstock.core.fairness.service_debt import Offered, ServiceDebt
from penstock.core.fairness.sic import SLIDE_S, STW_S
from penstock.core.settings import duration_s, number
from penstock.errors import PenstockError

#: Messages older than so many source time windows say nothing: the query is taken to get everywhere what it gets here.
_STALE_WINDOWS = 3


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
        if not ((self._weights > 0.0) & (self._weights < np.inf)).all():
            raise PenstockError("weights are not usable: give numbers above 0")
        self._stw_s = duration_s("stw_s", stw_s)
        self._interval_s = duration_s("interval_s", interval_s)
        self._lag_s = number("lag_s", lag_s, 0.0)
        self._offered = Offered(queries, self._stw_s / self._interval_s)
        self._debt = ServiceDebt(queries, self._interval_s)
        self._accepted = Accepted(queries, self._stw_s, self._interval_s)

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        """Decide rates from what is known, and serve queries by them."""
        self._offered.add(buffer, capacity)
        kept = self._debt.serve(buffer, capacity, self._rates(known, now_s))
        self._accepted.add(self._debt.accepted, now_s)
        return Decision(kept)

    def _rates(self, known: Known, now_s: float) -> Floats:
        """SIC of each query to accept in an interval."""
        windows = self._stw_s / self._interval_s
        told_s = np.where(np.isnan(known.told_s), now_s, known.told_s)
        told = ~np.isnan(known.sic) & (told_s > now_s - _STALE_WINDOWS * self._stw_s)
        own = self._accepted.window(told_s - self._lag_s)
        start = np.where(told, known.sic - self._fragments * own, 0.0)
        queries = np.arange(start.size)
        lifted = self._fragments * self._offered.sic * windows
        shares, _ = fill(self._offered.room, queries, lifted, self._offered.work, start, self._weights)
        return shares * self._offered.sic


class Accepted:
    """What a node has accepted, so that it can tell its own part in a message.

    >>> own = Accepted(1, stw_s=1.0, interval_s=0.5)
    >>> for now_s in (0.5, 1.0, 1.5, 2.0):
    ...     own.add(np.array([now_s]), now_s)
    >>> own.window(np.array([1.5])), own.window(np.array([9.0])), own.window(np.array([0.5]))
    (array([2.5]), array([3.5]), array([0.5]))
    """

    def __init__(self, queries: int, stw_s: float, interval_s: float) -> None:
        """Remember a window before the oldest message that counts, and some room for its way."""
        self._slots = int(np.ceil((_STALE_WINDOWS + 2) * stw_s / interval_s)) + 1
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
