r"""The gate: a plan's keep table applied to rows, here over NumPy arrays.

A row passes when its coin, a hash of its identity and the plan's salt spread over [0, 1), falls under the keep share
of its key's bucket. No dice are rolled: the same row under the same plan always gets the same verdict, and a lower
share keeps a subset of what a higher one keeps. A kept row's weight is multiplied by 1 / share.

$$\text{keep} \iff u < k_b, \quad u = \mathrm{unit}(\mathrm{xxhash64}(\text{row}, \text{salt})), \quad
b = \mathrm{pmod}(\mathrm{xxhash64}(\text{key}), B)$$
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.hashing import bucket, unit_interval, xxhash64_ints
from penstock.plan import KeepTable


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the gate says of each row."""

    kept: NDArray[np.bool_]
    weights: NDArray[np.float64]  #: new weight of a kept row; 0 for a shed one
    buckets: NDArray[np.int64]  #: key bucket of the row, whose reason stands in the table

    def shed_by_reason(self, table: KeepTable) -> dict[str, int]:
        """How many rows were shed for each reason."""
        shed: dict[str, int] = {}
        for number, rows in enumerate(np.bincount(self.buckets[~self.kept], minlength=table.buckets).tolist()):
            if rows:
                shed[table.reason(number)] = shed.get(table.reason(number), 0) + rows
        return shed


def judge(
    table: KeepTable,
    salt: int,
    *,
    key_hashes: NDArray[np.int64],
    row_hashes: NDArray[np.int64],
    must_keep: NDArray[np.bool_] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Verdicts:
    """Judge rows by the hashes (Spark's `xxhash64`) of their key and of their identity.

    >>> table = KeepTable("source", keep=(0.5,), reasons=("over capacity",))
    >>> rows = np.arange(6)
    >>> verdicts = judge(table, 7, key_hashes=rows, row_hashes=xxhash64_ints(rows))
    >>> verdicts.weights.tolist(), verdicts.shed_by_reason(table)
    ([0.0, 2.0, 2.0, 2.0, 2.0, 0.0], {'over capacity': 2})
    """
    buckets = bucket(key_hashes, table.buckets)
    shares = np.asarray(table.keep)[buckets]
    coins = unit_interval(xxhash64_ints(np.full(len(row_hashes), salt), seed=row_hashes))
    kept = coins < shares
    factors = np.divide(1.0, shares, out=np.zeros(len(shares)), where=kept)
    if must_keep is not None:
        factors = np.where(must_keep, 1.0, factors)
        kept = kept | must_keep
    return Verdicts(kept, factors if weights is None else factors * weights, buckets)
