r"""The gate: a plan's keep table applied to rows, here over NumPy arrays.

A row passes when its coin, a hash of the gate's salt and its identity, is at most the threshold of its key's bucket.
The same row under the same plan always gets the same verdict. A lower share keeps a subset of the rows of a higher one.
A kept row's weight is multiplied by 1 / share, which is just above 1 for a row kept with certainty beside others that
are not.

Weights of a row that passes two gates may be multiplied only if their coins are independent. So a gate's salt is drawn
from its name as well as from the seed (`gate_salt`).

$$\text{keep} \iff u \le \theta_b, \quad u = \mathrm{xxhash64}(\text{salt}, \text{row}) \ggg 1, \quad
\theta_b = \lfloor 2^{63} s_b \rfloor - 1, \quad b = \mathrm{pmod}(\mathrm{xxhash64}(\text{key}), B)$$

Thresholds are integers because Spark compares integers about twice as fast as it converts a hash to a fraction. The
lowest three bits of a threshold hold one of eight reasons for shedding the bucket's rows. They change the share by less
than $2^{-59}$ and save a second look-up. Six reasons are the table's own; the others are the size of a batch
(`core.control.batch_size`) and the age of a row (`core.control.backlog`).

A table that sheds some rows keeps others with certainty. A weight of 1 would not distinguish these from rows of a batch
without shedding. If a group has only such rows left, it would be unknown whether there were others. So a bucket that is
kept whole beside others that are not has the threshold `CERTAIN`. It keeps every row and makes its weight the next
number above 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.batch_size import TOO_MANY
from penstock.core.hashing import SPARK_SEED, bucket, xxhash64, xxhash64_ints
from penstock.errors import PenstockError
from penstock.messages.plan import KeepTable

#: The threshold that keeps every row.
KEEP_ALL = 2**63 - 1
#: The same where other rows are shed, and the weight of a kept row: 2**63 / (CERTAIN + 1), as a double.
CERTAIN = 2**63 - 2**11 - 1
CERTAIN_WEIGHT = 1.0 + 2.0**-52
#: The number of reasons that a gate can distinguish, and the bits that number them.
MOST_REASONS = 8
REASON_BITS = MOST_REASONS - 1
#: The numbers of the two reasons that no table has: of a row's age, and of a batch's size.
BACKLOG_NUMBER, SIZE_NUMBER = MOST_REASONS - 1, MOST_REASONS - 2
#: Why rows are shed by their age.
TOO_OLD = "too old when the query started"


def thresholds(table: KeepTable) -> NDArray[np.int64]:
    """The threshold of each bucket.

    >>> table = KeepTable("source", keep=(0.0, 0.5, 1.0), reasons=("first", "second", ""))
    >>> [hex(number) for number in thresholds(table)]
    ['-0x8', '0x3ffffffffffffff9', '0x7ffffffffffff7ff']
    >>> thresholds(KeepTable("source", keep=(1.0, 1.0), reasons=("",))) == KEEP_ALL
    array([ True,  True])
    """
    names = reasons(table)
    numbers = np.array([names.index(reason) if reason else 0 for reason in table.reasons], np.int64)
    scaled = np.asarray(table.keep) * 2.0**63
    certain = scaled >= CERTAIN + 1
    whole = np.where(certain, 0.0, scaled).astype(np.int64) - 1
    limit = np.int64(KEEP_ALL if certain.all() else CERTAIN)
    return np.where(certain, limit, (whole & ~np.int64(REASON_BITS)) | numbers)


def scaled(limits: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Thresholds of a batch of which only a share fits: all of them lower in proportion, for the batch's size.

    >>> [hex(number) for number in scaled(np.array([KEEP_ALL, 2**62 - 7, -8]), 0.5)]
    ['0x3ffffffffffffffe', '0x1ffffffffffffffe', '-0x2']
    >>> scaled(np.array([KEEP_ALL]), 1.0)[0] == KEEP_ALL
    np.True_
    """
    if share >= 1.0:
        return limits
    whole = ((limits + 1.0) * share).astype(np.int64) - 1
    return np.maximum(whole, -1) & ~np.int64(REASON_BITS) | np.int64(SIZE_NUMBER)


def reasons(table: KeepTable) -> tuple[str, ...]:
    """The reasons of a table in the order in which thresholds number them."""
    names = tuple(dict.fromkeys(reason for reason in table.reasons if reason))
    if len(names) > SIZE_NUMBER:
        raise PenstockError.setting("reasons", len(names), f"at most {SIZE_NUMBER} different ones in a table")
    return names


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdict on each row."""

    kept: NDArray[np.bool_]
    weights: NDArray[np.float64]  #: new weight of a kept row; 0 for a shed one
    buckets: NDArray[np.int64]  #: key bucket of the row, whose reason is in the table
    aged: NDArray[np.bool_]  #: rows that are judged by their age, and not by their bucket
    too_many: bool = False  #: whether the others are shed because there are too many of them

    def shed_by_reason(self, table: KeepTable) -> dict[str, int]:
        """The number of shed rows by reason."""
        shed: dict[str, int] = {}
        by_table = self.buckets[~self.kept & ~self.aged]
        if self.too_many and len(by_table):
            shed[TOO_MANY], by_table = len(by_table), by_table[:0]
        rows = np.bincount(by_table)
        for number in np.flatnonzero(rows).tolist():
            reason = table.reason(number)
            shed[reason] = shed.get(reason, 0) + int(rows[number])
        if too_old := int(np.sum(~self.kept & self.aged)):
            shed[TOO_OLD] = too_old
        return shed


def gate_salt(seed: int, name: str, *, weighted: bool = False) -> int:
    """The salt of a gate's coins, from values that are the same after a restart: its seed and its name.

    `weighted` says that rows already have weights, from an earlier gate, which may have the same name.

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
    """Judge rows by the hash of their key and by their coin; by the threshold of their age if it is lower.

    `share` is a factor on all keep shares, if the batch is too large for the table.

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
