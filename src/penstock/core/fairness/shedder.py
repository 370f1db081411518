"""The interface of a node's shedder, the same for every policy.

A node calls `select` once every shedding interval with all that waits in its input buffer. It also passes the work it
can do until the next call, and the SIC of its queries from coordinators. The answer says how many tuples of each batch
are kept; the rest is shed. Everything is flat arrays, so that a node with thousands of batches decides in milliseconds:

- queries are numbers 0, 1, ... of this node, the same in every call: some shedders remember queries;
- batches are rows of a `Buffer`; `Decision.kept` has one entry for each, in the same order;
- `capacity` is in the unit of `Buffer.work`, by default tuples;
- `known.sic[q]` is the query's SIC in the last message of its coordinator, NaN before the first; messages are late.

The work of kept tuples never exceeds `capacity`. Every policy keeps a buffer within capacity whole.
"""

from typing import Protocol

import numpy as np

from penstock.core.fairness.balance_sic import Pick, climb, start_levels
from penstock.core.fairness.input_buffer import Buffer, Decision, Known, keep_in_order, within
from penstock.core.seeded_random import drawn

__all__ = ["BalanceSicShedder", "Buffer", "Decision", "Known", "RandomShedder", "Shedder"]


class Shedder(Protocol):
    """Decides what an overloaded node keeps."""

    name: str

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        """Keep tuples of the buffer that take no more work than `capacity`."""


class RandomShedder:
    """The baseline: whole batches in random order until the node is full, and of the last one a part (section 7.1).

    >>> shedder = RandomShedder(seed=1)
    >>> shedder.select(Buffer.of([0, 1, 2], [80, 80, 80], 1e-3), 120, Known.nothing(3), 0.0).kept.tolist()
    [0, 40, 80]
    """

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        """Calls differ, and repeat with the same seed."""
        self._seed = seed
        self._calls = 0

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - blind
        """Fill the node in random order."""
        self._calls += 1
        order = np.argsort(drawn(self._seed * 0x9E3779B1 + self._calls, buffer.owner.size))
        return Decision(keep_in_order(order, buffer, capacity))


class BalanceSicShedder:
    """The paper's: Algorithm 1 with the projection of section 6, by tuples, regardless of their work.

    >>> shedder = BalanceSicShedder()
    >>> shedder.select(Buffer.of([0, 1], [80, 80], 1e-3), 100, Known.of([0.3, 0.26]), 0.0).kept.tolist()
    [30, 70]
    """

    name = "balance_sic"

    def __init__(self, seed: int = 0, pick: Pick = "valuable") -> None:
        self._seed, self._pick, self._calls = seed, pick, 0

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - no memory
        """Run Algorithm 1. If tuples differ in work, capacity is converted to tuples by their mean work."""
        self._calls += 1
        count, total = int(buffer.tuples.sum()), buffer.total_work
        if total <= capacity:
            return Decision(buffer.tuples.copy())
        batches = buffer.owner, buffer.tuples, buffer.sic
        start, seed = start_levels(known.sic, *batches), self._seed + self._calls
        kept, _ = climb(capacity * count / total, *batches, start, seed=seed, pick=self._pick)
        return Decision(within(kept, buffer, capacity))
