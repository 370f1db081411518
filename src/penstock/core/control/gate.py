r"""The gate: a plan's keep table applied to rows, here over NumPy arrays.

A row passes when its coin, a hash of the gate's salt and its identity, is at most the threshold of its key's bucket.
No dice are rolled: the same row under the same plan always gets the same verdict, and a lower share keeps a subset of
what a higher one keeps. A kept row's weight is multiplied by 1 / share, which is a hair above 1 for a row kept for
certain beside others that are not (`core.control.thresholds`).

Weights of a row that passes two gates may be multiplied only if their coins are independent. So a gate's salt is drawn
from its name as well as from the seed (`gate_salt`).

$$\text{keep} \iff u \le \theta_b, \quad u = \mathrm{xxhash64}(\text{salt}, \text{row}) \ggg 1, \quad
\theta_b = \lfloor 2^{63} s_b \rfloor - 1, \quad b = \mathrm{pmod}(\mathrm{xxhash64}(\text{key}), B)$$

Thresholds are integers because Spark compares integers about twice as fast as it turns a hash into a fraction.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.backlog import TOO_OLD
from penstock.core.control.batch_size import TOO_MANY
from penstock.core.control.thresholds import CERTAIN, CERTAIN_WEIGHT, KEEP_ALL, scaled, thresholds
from penstock.core.hashing import SPARK_SEED, bucket, xxhash64, xxhash64_ints
from penstock.messages.plan import KeepTable


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the gate says of each row."""

    kept: NDArray[np.bool_]
    weights: NDArray[np.float64]  #: new weight of a kept row; 0 for a shed one
    buckets: NDArray[np.int64]  #: key bucket of the row, whose reason stands in the table
    aged: NDArray[np.bool_]  #: rows that are judged by their age, and not by their bucket
    too_many: bool = False  #: whether the others are shed because there are too many of them

    def shed_by_reason(self, table: KeepTable) -> dict[str, int]:
        """How many rows were shed for each reason."""
        shed: dict[str, int] = {}
        by_table = self.buckets[~self.kept & ~self.aged]
        if self.too_many and len(by_table):
            shed[TOO_MANY], by_table = len(by_table), by_table[:0]
        for number, rows in enumerate(np.bincount(by_table, minlength=table.buckets).tolist()):
            if rows:
                shed[table.reason(number)] = shed.get(table.reason(number), 0) + rows
        if too_old := int(np.sum(~self.kept & self.aged)):
            shed[TOO_OLD] = too_old
        return shed


def gate_salt(seed: int, name: str, *, weighted: bool = False) -> int:
    """The salt of a gate's coins, from what is the same after a restart: its seed, its name, and what it stands behind.

    `weighted` says that rows come with weights, from a gate before this one, which may well have the same name.

    >>> len({gate_salt(0, "guard"), gate_salt(1, "guard"), gate_salt(0, "other"), gate_salt(0, "guard", weighted=True)})
    4
    """
    return xxhash64(seed, name, "weighted") if weighted else xxhash64(seed, name)


def coins(salt: int, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The coin of each row number: from 0 to 2**63 - 1, evenly spread."""
    seed = int(xxhash64_ints(np.array([salt], np.int64), seed=SPARK_SEED)[0])
    return coins_of_hashes(xxhash64_ints(rows, seed=seed))


def coins_of_hashes(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The coin of each salted hash: `xxhash64(salt, row)`, its sign bit gone."""
    return (hashes.view(np.uint64) >> np.uint64(1)).view(np.int64)


def judge(
    table: KeepTable,
    *,
    key_hashes: NDArray[np.int64],
    coins: NDArray[np.int64],
    must_keep: NDArray[np.bool_] | None = None,
    weights: NDArray[np.float64] | None = None,
    by_age: NDArray[np.int64] | None = None,
    share: float = 1.0,
) -> Verdicts:
    """Judge rows by the hash of their key and by their coin; a row that its age has a lower threshold for, by that.

    `share` is what the keep shares of all rows are multiplied by, if the batch is too large for the table.

    >>> table = KeepTable("source", keep=(0.5,), reasons=("over capacity",))
    >>> rows = np.arange(6)
    >>> verdicts = judge(table, key_hashes=rows, coins=coins(7, rows))
    >>> verdicts.weights.tolist(), verdicts.shed_by_reason(table)
    ([0.0, 2.0, 2.0, 2.0, 0.0, 0.0], {'over capacity': 3})
    """
    buckets = bucket(key_hashes, table.buckets)
    limits = scaled(thresholds(table), share)[buckets]
    aged = np.zeros(len(limits), np.bool_) if by_age is None else (by_age < limits) & (by_age < CERTAIN)
    if by_age is not None:
        limits = np.minimum(limits, by_age)
    kept = (coins <= limits) | (limits >= CERTAIN)
    # 2**63 / (limit + 1) is 1 / share, as Catalyst computes it from the threshold alone.
    factors = np.divide(2.0**63, limits + 1.0, out=np.zeros(len(limits)), where=kept)
    if must_keep is not None:
        factors = np.where(must_keep, np.where(limits == KEEP_ALL, 1.0, CERTAIN_WEIGHT), factors)
        kept = kept | must_keep
    return Verdicts(kept, factors if weights is None else factors * weights, buckets, aged, share < 1.0)
