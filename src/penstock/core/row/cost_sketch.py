"""The cost of a row by key in a few kilobytes: the paired count-min sketch of LAS."""

import copy
import math
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from penstock.core.hashing import HashFamily
from penstock.errors import PenstockError

_MOST_CELLS = 2**26
# Far enough below the largest double that no sum or quotient of cells can overflow.
_LARGEST_TOTAL = 1e250
#: A cell decayed below this share of one row is cleared, because its quotient would lose digits.
FORGOTTEN = 1e-12


class CostSketch:
    """Estimates the cost of a row from its key with two count-min matrices that share their hash functions.

    F counts rows and W sums their costs. A key is estimated from the row in which it shares its cell with the fewest
    others (LAS, section 3, listings 3.1 and 3.2):

        w(x) = W[i, h_i(x)] / F[i, h_i(x)],  i = the first row of smallest F[i, h_i(x)].

    A key with F = 0 there was never seen and gets the mean cost of all rows; an empty sketch returns 0. Estimates
    have the caller's unit of costs (seconds or milliseconds). Quotients are plain double division, so a copy of
    the rule needs only `frequency`, `work` and `family`.

    >>> sketch = CostSketch.sized(epsilon=0.05, delta=0.1)
    >>> sketch.update("cheap", 1.0)
    >>> sketch.update("dear", 64.0)
    >>> sketch.update("dear", 66.0)
    >>> sketch
    CostSketch(rows=4, columns=54, seed=0, count=3.0, total_cost=131.0)
    >>> sketch.estimate("dear"), round(sketch.estimate("unseen"), 2)
    (65.0, 43.67)

    Attributes:
        family: The hash functions.
        count: The number of rows in the sketch, without forgotten ones.
        total_cost: The cost of all these rows together.
    """

    __slots__ = ("_frequency", "_work", "count", "family", "total_cost")

    def __init__(self, rows: int, columns: int, seed: int = 0) -> None:
        self.family = HashFamily(rows, columns, seed)
        if self.rows * self.columns > _MOST_CELLS:
            raise PenstockError(f"{rows} rows x {columns} columns are not usable: give at most 2**26 cells")
        self._frequency, self._work = np.zeros((2, self.rows, self.columns))
        self.count = self.total_cost = 0.0

    @classmethod
    def sized(cls, epsilon: float, delta: float, seed: int = 0) -> "CostSketch":
        """Make a sketch that overcounts a key by more than epsilon * count with probability delta at most.

        r = ceil(log2(1 / delta)) rows, c = round(e / epsilon) columns, at least one of each (LAS, section 5).

        >>> sketch = CostSketch.sized(epsilon=0.05, delta=0.1)
        >>> sketch.rows, sketch.columns
        (4, 54)
        """
        if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not 0 < epsilon <= math.e:
            raise PenstockError.setting("epsilon", epsilon, "a number above 0 and up to e, 2.718")
        if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 < delta < 1:
            raise PenstockError.setting("delta", delta, "a number between 0 and 1, both excluded")
        if math.e / epsilon > _MOST_CELLS / 64:
            raise PenstockError.setting("epsilon", epsilon, "a number from 0.000003 up: the sketch would not fit")
        columns = max(1, round(min(math.e / epsilon, 2.0**62)))
        return cls(max(1, math.ceil(-math.log2(delta))), columns, seed)

    @property
    def rows(self) -> int:
        """The number of hash functions, r."""
        return self.family.rows

    @property
    def columns(self) -> int:
        """The number of cells of each hash function, c."""
        return self.family.columns

    @property
    def seed(self) -> int:
        """The seed of the hash functions."""
        return self.family.seed

    @property
    def frequency(self) -> NDArray[np.float64]:
        """The matrix F of counts as a read-only view; decay makes counts fractional."""
        return _read_only(self._frequency)

    @property
    def work(self) -> NDArray[np.float64]:
        """The matrix W of cumulated costs as a read-only view."""
        return _read_only(self._work)

    @property
    def mean(self) -> float:
        """The mean cost of a row; 0 of an empty sketch."""
        return self.total_cost / self.count if self.count else 0.0

    @property
    def nbytes(self) -> int:
        """The memory of the two matrices, in bytes."""
        return self._frequency.nbytes + self._work.nbytes

    def update(self, key: object, cost: float) -> None:
        """Count one row of `key` that cost `cost`; the key is anything that `xxhash64` takes."""
        if not 0 <= cost < math.inf:
            raise PenstockError.setting("cost", cost, "a finite number from 0 up")
        columns = self.family.columns_of(key)
        self.total_cost = _usable_total(self.total_cost + float(cost))
        self.count += 1.0
        for cell in enumerate(columns):
            self._frequency[cell] += 1.0
            self._work[cell] += cost

    def estimate(self, key: object) -> float:
        """Estimate the cost of a row of `key`: between the least and the greatest cost seen, never NaN."""
        cells = enumerate(self.family.columns_of(key))
        frequency, *cell = min((self._frequency.item(cell), *cell) for cell in cells)
        return float(self._work.item(*cell) / frequency) if frequency else self.mean

    def snapshot(self) -> NDArray[np.float64]:
        """Return the mean cost of every cell, S = W / F, with 0 for a cell never seen (LAS, section 3)."""
        return np.divide(self._work, self._frequency, out=np.zeros(self._work.shape), where=self._frequency > 0)

    def relative_error(self, snapshot: NDArray[np.float64]) -> float:
        """The relative change of costs since an earlier snapshot S.

        eta = sum |S - W / F| / sum S (LAS, equation 1), no unit; a cell never seen counts 0 in both sums.
        If S is all zero, eta is 0 when nothing was learned since and infinite otherwise.

        >>> sketch = CostSketch(rows=1, columns=1)
        >>> sketch.update("a", 4.0)
        >>> before = sketch.snapshot()
        >>> sketch.update("a", 8.0)
        >>> sketch.relative_error(before)
        0.5
        """
        if np.shape(snapshot) != self._work.shape:
            raise PenstockError(f"a snapshot of shape {np.shape(snapshot)} does not fit {self.rows} x {self.columns}")
        moved = float(np.abs(snapshot - self.snapshot()).sum())
        total = float(np.sum(snapshot))
        if total == 0:
            return math.inf if moved else 0.0
        return moved / total

    def reset(self) -> None:
        """Clear everything except the hash functions."""
        self._frequency[:] = 0.0
        self._work[:] = 0.0
        self.count = self.total_cost = 0.0

    def scale_costs(self, factor: float) -> None:
        """Multiply every cost seen by `factor`, as when the machine itself became slower or faster."""
        if not 0 <= factor < math.inf:
            raise PenstockError.setting("factor", factor, "a finite number from 0 up")
        self.total_cost = _usable_total(self.total_cost * factor)
        self._work *= factor

    def decay(self, factor: float) -> None:
        """Weigh all rows so far by `factor`, 0 (forget) to 1 (keep); estimates stay, new rows count more.

        A cell left with less than 1e-12 of a row is cleared.
        """
        if not 0 <= factor <= 1:
            raise PenstockError.setting("factor", factor, "a number from 0 to 1")
        self._frequency *= factor
        self._work *= factor
        self.count *= factor
        self.total_cost *= factor
        if self.count < FORGOTTEN:
            self.reset()
        faded = self._frequency < FORGOTTEN
        self._frequency[faded] = 0.0
        self._work[faded] = 0.0

    def __copy__(self) -> "CostSketch":
        """Share no memory with the original."""
        return copy.deepcopy(self)

    def __eq__(self, other: object) -> bool:
        """Whether both sketches have the same hash functions, cells and totals."""
        if not isinstance(other, CostSketch):
            return NotImplemented
        return (
            self.family == other.family
            and (self.count, self.total_cost) == (other.count, other.total_cost)
            and np.array_equal(self._frequency, other.frequency)
            and np.array_equal(self._work, other.work)
        )

    __hash__ = None  # type: ignore[assignment]  # a sketch changes, so it is no key of a dict

    def __repr__(self) -> str:
        """Show the shape and the totals."""
        shape = f"rows={self.rows}, columns={self.columns}, seed={self.seed}"
        return f"CostSketch({shape}, count={self.count!r}, total_cost={self.total_cost!r})"


def _usable_total(total: float) -> float:
    if total > _LARGEST_TOTAL:
        raise PenstockError("costs that add up to more than 1e250 are not usable: give smaller ones")
    return total


def _read_only(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    view = matrix.view()
    view.flags.writeable = False
    return view
