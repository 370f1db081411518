r"""Costs of rows by key bucket: the estimate behind a keep table.

The gate looks a row's key up in a table of `BUCKETS` places, so costs are learned per bucket. Each
bucket sums up the rows that were executed, their weights and their work:

$$\hat w_b = \frac{\text{work}_b}{\text{rows}_b}, \qquad f_b = \frac{\text{weight}_b}{\sum_b \text{weight}_b}$$

A kept row represents `weight` incoming rows, so $f_b$ is the bucket's share of the *incoming* rows, independent of
shedding. It is a sketch with one row of many cells. 1,024 cells of one hash know more than 4 hashes of 54 cells with
thousands of keys. The gate needs a value for every bucket anyway.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.memory import Floats, Learned
from penstock.errors import PenstockError

#: Places in the gate's table: a power of two, so that a bucket is a hash's low bits. 1,024 thresholds fit a core's
#: fastest cache with room to spare; with 4,096 the gate took about a tenth longer.
BUCKETS = 1024

#: Seven digits are far more than a measured cost has.
_CELL = np.dtype([("bucket", "<u2"), ("rows", "<f4"), ("weight", "<f4"), ("work_s", "<f4")])


def by_bucket(values: Sequence[float]) -> NDArray[np.float64]:
    """A table of fewer places, for each bucket; `np.resize` takes twenty times as long for one place."""
    return np.tile(np.asarray(values, np.float64), -(-BUCKETS // len(values)))[:BUCKETS]


class BucketCosts(Learned):
    """Sums of rows, weights and work by bucket, which add up over tasks and batches.

    >>> costs = BucketCosts()
    >>> costs.add(np.array([7, 7, 9]), np.array([0.1, 0.3, 1.0]), np.array([1.0, 1.0, 2.0]))
    >>> costs.costs_s()[[7, 9, 8]].round(3).tolist()  # a bucket never seen: the mean of incoming rows
    [0.2, 1.0, 0.6]
    >>> costs.frequencies()[[7, 9]].tolist(), round(costs.mean_s, 3)
    ([0.5, 0.5], 0.6)
    >>> round(BucketCosts.from_bytes(costs.to_bytes()).mean_s, 3)
    0.6
    """

    rows: Floats
    weight: Floats
    work_s: Floats

    def __init__(self) -> None:
        self.rows, self.weight, self.work_s = np.zeros((3, BUCKETS))

    @property
    def known(self) -> bool:
        """Whether any row was measured."""
        return bool(self.rows.any())

    @property
    def mean_s(self) -> float:
        """Mean cost of an incoming row, 0 before the first."""
        return float(self.weight @ self._own_costs_s() / self.weight.sum()) if self.known else 0.0

    def add(
        self, buckets: NDArray[np.integer[Any]], costs_s: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        """Add executed rows."""
        self.rows += np.bincount(buckets, minlength=BUCKETS)
        self.weight += np.bincount(buckets, weights, minlength=BUCKETS)
        self.work_s += np.bincount(buckets, costs_s, minlength=BUCKETS)

    def merge(self, other: "BucketCosts") -> None:
        """Merge the sums of another one."""
        self.rows += other.rows
        self.weight += other.weight
        self.work_s += other.work_s

    def fade(self, factor: float) -> None:
        """Reduce the weight of the past; mean costs are unchanged."""
        self.rows *= factor
        self.weight *= factor
        self.work_s *= factor

    def scale_costs(self, factor: float) -> None:
        """Multiply every cost: all of them changed at once."""
        self.work_s *= factor

    def costs_s(self) -> NDArray[np.float64]:
        """Expected cost of a row of each bucket; of one never seen, the mean."""
        return np.where(self.rows > 0.0, self._own_costs_s(), self.mean_s)

    def frequencies(self) -> NDArray[np.float64]:
        """Share of incoming rows that each bucket gets."""
        total = self.weight.sum()
        return self.weight / total if total > 0.0 else np.full(BUCKETS, 1.0 / BUCKETS)

    def _own_costs_s(self) -> NDArray[np.float64]:
        return np.divide(self.work_s, self.rows, out=np.zeros(BUCKETS), where=self.rows > 0.0)

    def to_bytes(self) -> bytes:
        """The buckets that saw a row, compactly."""
        seen = np.flatnonzero(self.rows)
        cells = np.empty(len(seen), _CELL)
        cells["bucket"] = seen
        cells["rows"], cells["weight"], cells["work_s"] = self.rows[seen], self.weight[seen], self.work_s[seen]
        return cells.tobytes()

    def to_text(self) -> str:
        """All sums with commas between them: rows of each bucket, then weights, then work."""
        sums = np.concatenate([self.rows, self.weight, self.work_s])
        return ",".join(f"{number:.7g}" for number in sums.tolist())

    @classmethod
    def from_cells(cls, text: str) -> "BucketCosts":
        """The costs in a text of buckets, each as its number, rows, weight and work, separated by spaces.

        >>> BucketCosts.from_cells("7 2 2 0.5;9 1 1 1").costs_s()[[7, 9]].tolist()
        [0.25, 1.0]
        """
        costs = cls()
        cells = np.array(text.replace(";", " ").split(), np.float64).reshape(-1, 4)
        where = cells[:, 0].astype(np.int64)
        costs.rows[where], costs.weight[where], costs.work_s[where] = cells[:, 1:].T
        return costs

    @classmethod
    def from_bytes(cls, data: bytes) -> "BucketCosts":
        """The inverse of `to_bytes`; other bytes are refused."""
        costs = cls()
        try:
            cells = np.frombuffer(data, _CELL)
        except ValueError:
            raise PenstockError(f"{len(data)} bytes are no bucket costs") from None
        where = cells["bucket"]
        sums = np.array([cells["rows"], cells["weight"], cells["work_s"]], np.float64)
        sound = np.isfinite(sums).all() and (sums >= 0.0).all() and (sums[0] > 0.0).all()
        if not sound or (where >= BUCKETS).any() or len(np.unique(where)) < len(where):
            raise PenstockError(f"{len(data)} bytes are no bucket costs")
        costs.rows[where], costs.weight[where], costs.work_s[where] = sums
        return costs


#: The prior from all rows counts as this many rows of a class.
_PRIOR_ROWS = 1.0


class Pooled(NamedTuple):
    """By bucket: its share of incoming rows, and their cost. Both are 0 for impossible buckets."""

    shares: Floats
    costs_s: Floats


def pooled(costs: BucketCosts, keys: int, grades: int, came: float | None = None) -> Pooled:
    r"""The expected rows and costs of each class: a grade of worth and a place for keys.

    A class is a key's place in a grade of worth (`core.balanced.worth`), and there are up to 1,024 of them. A query of
    some tens of rows a second takes minutes to see each. If unseen classes counted as free and empty, most of an
    overload would pass while its costs are learned. So the data of a class are pooled with those of its key in all
    grades, and these with those of all rows:

    $$\hat w_k = \frac{\text{work}_k + \kappa \bar w}{\text{rows}_k + \kappa}, \qquad
    \hat w_{gk} = \frac{\text{work}_{gk} + \kappa \hat w_k}{\text{rows}_{gk} + \kappa}, \qquad
    \hat f_{gk} = f_k \, \frac{\text{rows}_k\, f_{g \mid k} + \kappa f_g}{\text{rows}_k + \kappa}$$

    with $\kappa = 1$, so frequent classes use their own data. Unseen keys are expected to have as many rows as keys
    that were seen once, by Good and Turing (Good, 1953, Biometrika 40).

    An almost shed class occasionally has a row that represents a hundred, so the sum of weights varies. If the number
    of incoming rows is known, shares refer to it, and the shares of other classes do not vary with it.

    >>> costs = BucketCosts()
    >>> costs.add(np.array([0] * 9 + [512 + 1]), np.array([1.0] * 9 + [4.0]), np.ones(10))
    >>> found = pooled(costs, keys=512, grades=2)
    >>> found.costs_s[[0, 1, 512, 2]].round(2).tolist()  # cheap, dear by its other grade, cheap by it, never seen: mean
    [1.0, 2.65, 1.03, 1.3]
    >>> round(float(found.shares[[0, 1, 512, 513]].sum()), 2)  # one row in ten was of a key that no other was of
    0.9
    """
    used = grades * keys
    rows, weight, work_s = (part[:used].reshape(grades, keys) for part in (costs.rows, costs.weight, costs.work_s))
    total = float(weight.sum())
    if total <= 0.0:
        return Pooled(_padded(np.full(used, 1.0 / used)), _padded(np.zeros(used)))
    seen = rows.sum(axis=0)
    by_key_s = (work_s.sum(axis=0) + _PRIOR_ROWS * costs.mean_s) / (seen + _PRIOR_ROWS)
    by_class_s = (work_s + _PRIOR_ROWS * by_key_s) / (rows + _PRIOR_ROWS)
    never = seen <= 0.0
    rare = float(seen[seen <= 1.0].sum() / seen.sum()) if never.any() else 0.0
    of_key = np.where(never, rare / max(int(never.sum()), 1), (1.0 - rare) * weight.sum(axis=0) / (came or total))
    own = np.divide(weight, weight.sum(axis=0), out=np.zeros_like(weight), where=~never)
    of_grade = (seen * own + _PRIOR_ROWS * weight.sum(axis=1, keepdims=True) / total) / (seen + _PRIOR_ROWS)
    return Pooled(_padded((of_key * of_grade).ravel()), _padded(by_class_s.ravel()))


def _padded(values: Floats) -> Floats:
    return np.concatenate([values, np.zeros(BUCKETS - len(values))])


#: Classes to each doubling of the cost.
CLASSES_PER_OCTAVE = 32
CHEAPEST_S = 1e-6


def cost_classes(costs_s: NDArray[np.float64]) -> NDArray[np.int64]:
    r"""The class of each cost, for the oracle of an evaluation, which needs no key.

    Class $b = \lfloor 32 \log_2(w / 1\,\mu s) \rfloor$, cut to the table: classes are two percent wide, from a
    microsecond to over an hour.

    >>> cost_classes(np.array([0.0, 1e-6, 2.01e-6, 1e9])).tolist()
    [0, 0, 32, 1023]
    """
    octaves = np.log2(np.maximum(costs_s, CHEAPEST_S) / CHEAPEST_S)
    classes: NDArray[np.int64] = np.minimum(octaves * CLASSES_PER_OCTAVE, BUCKETS - 1).astype(np.int64)
    return classes


def class_costs_s() -> NDArray[np.float64]:
    """The cost in the middle of every class.

    >>> class_costs_s()[[0, 32]].round(9).tolist()
    [1.011e-06, 2.022e-06]
    """
    middles: NDArray[np.float64] = CHEAPEST_S * 2.0 ** ((np.arange(BUCKETS) + 0.5) / CLASSES_PER_OCTAVE)
    return middles
