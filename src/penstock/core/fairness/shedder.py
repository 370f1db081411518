"""What a node's shedder is asked and answers, the same for every policy.

A node calls `select` once every shedding interval with all that waits in its input buffer, the work it can do until the
next call, and what coordinators have told of its queries. The answer says how many tuples of each batch are kept; the
rest is shed. Everything is flat arrays, so that a node with thousands of batches decides in milliseconds:

- queries are numbers 0, 1, ... of this node, the same in every call: some shedders remember queries;
- batches are rows of a `Buffer`; `Decision.kept` has one entry for each, in the same order;
- `capacity` is in the unit of `Buffer.work`, by default tuples;
- `known.sic[q]` is the query's SIC in the last message of its coordinator, NaN before the first; messages are late.

The work of what is kept never exceeds `capacity`. A buffer within capacity is kept whole, whatever the policy.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.fairness.balance_sic import Pick, climb, start_levels
from penstock.core.fairness.input_buffer import Buffer, Decision, Known, keep_in_order, within
from penstock.core.fairness.service_debt import Offered, ServiceDebt
from penstock.core.fairness.sic import SLIDE_S, STW_S
from penstock.core.seeded_random import drawn

__all__ = ["BalanceSicShedder", "Buffer", "Decision", "Known", "MaxMinShedder", "RandomShedder", "Shedder"]


class Shedder(Protocol):
    """Decides what an overloaded node keeps."""

    name: str

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        """Keep tuples of the buffer that take no more work than `capacity`."""
        ...


class RandomShedder:
    """The baseline: whole batches in random order until the node is full, and of the last one a part (section 7.1).

    >>> shedder = RandomShedder(seed=1)
    >>> shedder.select(Buffer.of([0, 1, 2], [80, 80, 80], 1e-3), 120, Known.nothing(3), 0.0).kept.tolist()
    [0, 40, 80]
    """

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        """Calls differ, and are the same again with the same seed."""
        self._seed = seed
        self._calls = 0

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - blind
        """Fill the node in random order."""
        self._calls += 1
        order = np.argsort(drawn(self._seed * 0x9E3779B1 + self._calls, buffer.owner.size))
        return Decision(keep_in_order(order, buffer, capacity))


class BalanceSicShedder:
    """The paper's: Algorithm 1 with the projection of section 6, by tuples, whatever work each takes.

    >>> shedder = BalanceSicShedder()
    >>> shedder.select(Buffer.of([0, 1], [80, 80], 1e-3), 100, Known.of([0.3, 0.26]), 0.0).kept.tolist()
    [30, 70]
    """

    name = "balance_sic"

    def __init__(self, seed: int = 0, pick: Pick = "valuable") -> None:
        """`seed` decides ties."""
        self._seed = seed
        self._pick = pick
        self._calls = 0

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - no memory
        """Project, climb. If tuples differ in work, capacity is the tuples it takes at their mean work."""
        self._calls += 1
        count = int(buffer.tuples.sum())
        total = buffer.total_work
        if total <= capacity:
            return Decision(buffer.tuples.copy(), 0)
        start = start_levels(known.sic, buffer.owner, buffer.tuples, buffer.sic)
        kept, _, steps = climb(
            capacity * count / total,
            buffer.owner,
            buffer.tuples,
            buffer.sic,
            start,
            seed=self._seed + self._calls,
            pick=self._pick,
        )
        return Decision(within(kept, buffer, capacity), steps)


class MaxMinShedder:
    """What a node would do that knows all: keep of each query the share that the optimum of all nodes gives it here.

    Shares come from elsewhere, such as `penstock.core.fairness.max_min_nodes`.

    >>> shedder = MaxMinShedder([0.25, 0.5])
    >>> shedder.select(Buffer.of([0, 1], [80, 80], 1e-3), 60, Known.nothing(2), 0.0).kept.tolist()
    [20, 40]
    """

    name = "max_min"

    def __init__(self, shares: ArrayLike, *, stw_s: float = STW_S, interval_s: float = SLIDE_S) -> None:
        """`shares` by query of this node."""
        self._shares = np.asarray(shares, dtype=np.float64)
        self._offered = Offered(self._shares.size, stw_s / interval_s)
        self._debt = ServiceDebt(self._shares.size, interval_s)

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - it knows
        """Derived batches whole, then sources by their shares."""
        self._offered.add(buffer, capacity)
        return Decision(self._debt.serve(buffer, capacity, self._shares * self._offered.sic))
