"""A node's input buffer as flat arrays, the known SIC of its queries, decisions, and rounding of shares to tuples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.fairness.max_min import Floats, Ints

#: The tolerance of floating-point sums.
_ROUNDING = 1e-9
#: More tuples than any buffer has, less than overflows.
_MANY = 2.0**62


@dataclass(frozen=True)
class Buffer:
    """Batches that wait at a node."""

    owner: Ints  #: the query of each batch
    tuples: Ints  #: how many tuples it has
    sic: Floats  #: SIC of each of its tuples
    work: Floats  #: work that each of its tuples takes
    #: Whether it comes from another fragment of its query instead of a source.
    derived: np.ndarray[tuple[int], np.dtype[np.bool_]]
    place: Ints  #: the number of its group of sources at the node, or of the fragment that sent it

    @classmethod
    def of(
        cls, owner: ArrayLike, tuples: ArrayLike, sic: ArrayLike, work: ArrayLike = 1.0, derived: ArrayLike = 0
    ) -> "Buffer":
        """A buffer from array-like values; one number applies to all batches.

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
            owners,
        )

    @property
    def total_work(self) -> float:
        """Work if everything is kept."""
        return float(self.tuples @ self.work)


@dataclass(frozen=True)
class Known:
    """SIC values from coordinators, by query."""

    sic: Floats  #: the query's SIC in the newest message, NaN if there was none
    told_s: Floats  #: the time of the sum by the coordinator's clock; NaN if unknown

    @classmethod
    def of(cls, sic: ArrayLike, told_s: ArrayLike = np.nan) -> "Known":
        """From array-like values; one number for `told_s` applies to all queries.

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
    """A decision: kept tuples of each batch of the buffer."""

    kept: Ints
    waits: bool = False  #: whether nothing is decided, and all tuples wait for the next interval


def keep_in_order(order: Ints, buffer: Buffer, capacity: float) -> Ints:
    """Keep batches in this order until the capacity is used up, of the last one a part; others are not kept.

    >>> keep_in_order(np.array([2, 0]), Buffer.of([0, 0, 1], [5, 80, 2], 1e-3), 6)
    array([4, 0, 2])
    """
    kept = np.zeros_like(buffer.tuples)
    each = buffer.work[order]
    work = buffer.tuples[order] * each
    left = np.maximum(capacity - (np.cumsum(work) - work), 0.0)
    room = np.full(order.size, _MANY)
    np.divide(left, each, out=room, where=each > 0.0)
    kept[order] = np.minimum(buffer.tuples[order], np.floor(np.minimum(room, _MANY) + _ROUNDING).astype(np.int64))
    return kept


def whole_tuples(shares: Floats, tuples: Ints, work: Floats, capacity: float) -> Ints:
    """Whole tuples from shares: rounded down, with the remaining capacity for the largest remainders.

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
    """Shed the same further share of every batch if the work of kept tuples exceeds the capacity.

    >>> within(np.array([80, 20]), Buffer.of([0, 1], [80, 80], 1e-3, [1.0, 2.0]), 60)
    array([40, 10])
    """
    work = float(kept @ buffer.work)
    if work <= capacity * (1.0 + _ROUNDING):
        return kept
    return whole_tuples(np.full(kept.size, capacity / work), kept, buffer.work, capacity)
