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

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.balance import Floats, Ints, Pick, climb, start_levels
from penstock.core.chance import drawn
from penstock.core.fair_share import fill

#: What floating-point sums may be off.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Buffer:
    """Batches that wait at a node.

    Attributes:
        owner: The query of each batch.
        tuples: How many tuples it has.
        sic: SIC of each of its tuples.
        work: Work that each of its tuples takes.
        derived: Whether it comes from another fragment of its query instead of a source.
    """

    owner: Ints
    tuples: Ints
    sic: Floats
    work: Floats
    derived: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @classmethod
    def of(
        cls, owner: ArrayLike, tuples: ArrayLike, sic: ArrayLike, work: ArrayLike = 1.0, derived: ArrayLike = 0
    ) -> "Buffer":
        """A buffer from anything like arrays; one number stands for all batches.

        >>> Buffer.of(owner=[0, 1], tuples=[80, 40], sic=[1e-3, 2e-3]).total_work
        120.0
        """
        owners = np.asarray(owner, dtype=np.int64)
        return cls(
            owners,
            np.broadcast_to(np.asarray(tuples, dtype=np.int64), owners.shape),
            np.broadcast_to(np.asarray(sic, dtype=np.float64), owners.shape),
            np.broadcast_to(np.asarray(work, dtype=np.float64), owners.shape),
            np.broadcast_to(np.asarray(derived, dtype=np.bool_), owners.shape),
        )

    @property
    def total_work(self) -> float:
        """Work if all were kept."""
        return float(self.tuples @ self.work)


@dataclass(frozen=True)
class Known:
    """What coordinators have told a node, by query.

    Attributes:
        sic: The query's SIC in the newest message, NaN if there was none.
        told_s: When the coordinator summed it up, by its clock; NaN if unknown.
    """

    sic: Floats
    told_s: Floats

    @classmethod
    def of(cls, sic: ArrayLike, told_s: ArrayLike = np.nan) -> "Known":
        """From anything like arrays; one number for `told_s` stands for all queries.

        >>> Known.of([0.3, np.nan]).told_s
        array([nan, nan])
        """
        values = np.asarray(sic, dtype=np.float64)
        return cls(values, np.broadcast_to(np.asarray(told_s, dtype=np.float64), values.shape))

    @classmethod
    def nothing(cls, queries: int) -> "Known":
        """Before the first message.

        >>> Known.nothing(2).sic
        array([nan, nan])
        """
        return cls.of(np.full(queries, np.nan))


@dataclass(frozen=True)
class Decision:
    """What is kept: tuples of each batch of the buffer, and the iterations it took to find out."""

    kept: Ints
    steps: int = 1


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
        work = (buffer.tuples * buffer.work)[order]
        left = np.maximum(capacity - (np.cumsum(work) - work), 0.0)
        each = np.maximum(buffer.work[order], 1e-300)
        kept = np.empty_like(buffer.tuples)
        kept[order] = np.minimum(
            buffer.tuples[order], np.floor(np.minimum(left / each, 2.0**62) + _ROUNDING).astype(np.int64)
        )
        return Decision(kept)


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

    Shares come from elsewhere, such as `penstock.core.fair_share_nodes`. What an interval has room for beyond them,
    because sources do not tick evenly, is dealt by water level over what each query got lately for its share.

    >>> shedder = MaxMinShedder(np.array([0.25, 0.5]))
    >>> shedder.select(Buffer.of([0, 1], [80, 80], 1e-3), 60, Known.nothing(2), 0.0).kept.tolist()
    [20, 40]
    """

    name = "max_min"

    def __init__(self, shares: Floats, memory: float = 0.9) -> None:
        """`shares` by query of this node; `memory` is how much of what it got a query remembers until the next call."""
        self._shares = np.maximum(np.asarray(shares, dtype=np.float64), 1e-9)
        self._memory = memory
        self._balance = np.zeros(self._shares.size)

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - it knows
        """Derived batches whole, then sources by their shares."""
        kept, left = keep_derived(buffer, capacity)
        source = np.flatnonzero(~buffer.derived)
        owner = buffer.owner[source]
        sic = (buffer.tuples * buffer.sic)[source]
        offered = np.bincount(owner, sic, minlength=self._shares.size)
        self._balance = self._memory * self._balance - self._shares * offered
        weight = np.maximum(self._shares * np.maximum(offered, 1e-300), 1e-12)
        shares, _ = fill(left, owner, sic, (buffer.tuples * buffer.work)[source], self._balance, weight)
        kept[source] = whole_tuples(shares, buffer.tuples[source], buffer.work[source], left)
        self._balance += np.bincount(owner, kept[source] * buffer.sic[source], minlength=self._shares.size)
        return Decision(kept)


def keep_derived(buffer: Buffer, capacity: float) -> tuple[Ints, float]:
    """Keep derived batches first, most SIC for its work first; what is kept, and the work left for the others.

    A derived tuple carries the work of fragments before this one. To shed it wastes that, and there are few of them.

    >>> keep_derived(Buffer.of([0, 0, 1], [5, 80, 2], [0.1, 1e-3, 0.2], 1.0, [True, False, True]), 6)
    (array([4, 0, 2]), 0.0)
    """
    kept = np.zeros_like(buffer.tuples)
    derived = np.flatnonzero(buffer.derived)
    if not derived.size:
        return kept, capacity
    each = np.maximum(buffer.work[derived], 1e-300)
    order = derived[np.argsort(-buffer.sic[derived] / each, kind="stable")]
    work = buffer.tuples[order] * buffer.work[order]
    left = np.maximum(capacity - (np.cumsum(work) - work), 0.0)
    room = np.floor(np.minimum(left / np.maximum(buffer.work[order], 1e-300), 2.0**62) + _ROUNDING).astype(np.int64)
    kept[order] = np.minimum(buffer.tuples[order], room)
    return kept, max(capacity - float(kept @ buffer.work), 0.0)


def whole_tuples(shares: Floats, tuples: Ints, work: Floats, capacity: float) -> Ints:
    """Whole tuples from shares: rounded down, and what that leaves of the capacity to the largest remainders.

    >>> whole_tuples(np.array([0.5, 0.26, 0.25]), np.array([3, 10, 10]), np.ones(3), 6.6)
    array([1, 3, 2])
    """
    wanted = shares * tuples
    kept = np.minimum(np.floor(wanted + _ROUNDING).astype(np.int64), tuples)
    left = capacity - float(kept @ work)
    remainder = np.where(kept < tuples, wanted - kept, 0.0)
    order = np.argsort(-remainder, kind="stable")
    order = order[remainder[order] > _ROUNDING]
    kept[order[np.cumsum(work[order]) <= left + _ROUNDING]] += 1
    return kept


def within(kept: Ints, buffer: Buffer, capacity: float) -> Ints:
    """Shed more, the same share of every batch, if what was kept takes more work than there is capacity.

    >>> within(np.array([80, 20]), Buffer.of([0, 1], [80, 80], 1e-3, [1.0, 2.0]), 60)
    array([40, 10])
    """
    work = float(kept @ buffer.work)
    if work <= capacity * (1.0 + _ROUNDING):
        return kept
    return whole_tuples(np.full(kept.size, capacity / work), kept, buffer.work, capacity)
