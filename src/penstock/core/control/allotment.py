r"""Allotment: keep shares of buckets whose work fits a budget.

Three rules spend the same budget $W$ on rows that come with frequencies $n_b$ and costs $w_b$:

- `alike`: one share for all, $s = \min(1, W / \sum_b n_b w_b)$. No key is favoured.
- `cheapest_first`: whole buckets by rising cost until the budget is spent, the last one in part. No other choice keeps
  more rows (it is the fractional knapsack). The other buckets keep a floor, so that their weights stay finite and their
  costs known.
- `densest_first`: the same by utility per cost, for rows that differ in worth (`core.control.density`).
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.batch_size import TOO_MANY
from penstock.core.control.bucket_costs import by_bucket
from penstock.core.control.density import Classes, allot
from penstock.messages.plan import KeepTable

#: Why rows are shed.
OVER_CAPACITY = "more work than capacity"
DEAR = "costly keys, more work than capacity"
POOR = "little utility for their cost, more work than capacity"

#: The minimum keep share of a bucket by work: a closed gate measures nothing and would never open again. A limit on the
#: number of rows needs no measuring: it is held exactly, and floors are lowered to at most half of it.
LEAST_SHARE = 0.01


def alike(work: float, budget: float) -> float:
    """One share for all rows.

    >>> alike(work=4.0, budget=1.0), alike(work=0.5, budget=1.0), alike(work=4.0, budget=0.0)
    (0.25, 1.0, 0.01)
    """
    return 1.0 if work <= max(budget, 0.0) else max(budget / work, LEAST_SHARE)


def row_share(rows: float, most_rows: float) -> float:
    """One share for all rows, so that at most `most_rows` are kept.

    >>> row_share(20_000.0, most_rows=50.0), row_share(40.0, most_rows=50.0)
    (0.0025, 1.0)
    """
    return 1.0 if rows <= max(most_rows, 0.0) else max(most_rows, 0.0) / rows


def cheapest_first(
    rows: NDArray[np.float64], costs: NDArray[np.float64], budget: float, most_rows: float = np.inf
) -> NDArray[np.float64]:
    """A share for each bucket, so that neither the budget of work nor the number of rows is exceeded.

    >>> cheapest_first(np.array([10.0, 10.0, 10.0]), np.array([3.0, 1.0, 2.0]), budget=20.3).round(9).tolist()
    [0.01, 1.0, 0.5]
    """
    order = np.argsort(costs, kind="stable")
    floor = _floor(rows, most_rows, LEAST_SHARE)  # one for both: the smaller of two tables must spend all of one limit
    shares = np.empty(len(rows))
    shares[order] = np.minimum(_raised((rows * costs)[order], budget, floor), _raised(rows[order], most_rows, floor))
    return shares


def densest_first(
    rows: NDArray[np.float64],
    costs_s: NDArray[np.float64],
    utilities: NDArray[np.float64],
    budget_s: float,
    most_rows: float = np.inf,
    min_keep: float = LEAST_SHARE,
) -> NDArray[np.float64]:
    """A share for each bucket, so that neither the budget of work nor the number of rows is exceeded.

    >>> rows, costs_s = np.array([10.0, 10.0, 10.0]), np.array([3.0, 1.0, 1.0])
    >>> densest_first(rows, costs_s, np.array([1.0, 0.5, 0.2]), budget_s=25.2).round(9).tolist()
    [0.503333333, 1.0, 0.01]
    """
    by_work = allot(Classes(rows=rows, costs_s=costs_s, utilities=utilities), budget_s, min_keep=min_keep).keep
    if most_rows == np.inf:
        return by_work
    alike_s = np.ones(len(rows))
    floor = _floor(rows, most_rows, min_keep)
    by_rows = allot(Classes(rows=rows, costs_s=alike_s, utilities=utilities), most_rows, min_keep=floor)
    return np.minimum(by_work, by_rows.keep)


def _floor(rows: NDArray[np.float64], most_rows: float, floor: float) -> float:
    """The floor, lowered so that it takes at most half of a number of rows."""
    return min(floor, 0.5 * row_share(float(rows.sum()), most_rows))


def _raised(amounts: NDArray[np.float64], room: float, floor: float) -> NDArray[np.float64]:
    """The share of each amount if all have a floor and are raised to 1 in order while capacity is left."""
    # The floor is already spent; an amount that is raised to 1 costs the rest of it.
    return floor + (1.0 - floor) * _filled((1.0 - floor) * amounts, room - floor * float(amounts.sum()))


def _filled(amounts: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """The part of each amount that fits when they are taken in order."""
    room = max(room, 0.0)
    if room == np.inf:
        return np.ones(len(amounts))
    before = np.cumsum(amounts) - amounts
    parts = (before <= room).astype(np.float64)  # An amount of 0 fits if all before it do.
    np.divide(np.clip(room - before, 0.0, amounts), amounts, out=parts, where=amounts > 0.0)
    return np.minimum.accumulate(parts)  # sums of very different amounts are rounded, their order is not


class Forecast(NamedTuple):
    """The next batch without shedding, and its limits."""

    rows: NDArray[np.float64]  #: rows by bucket
    costs_s: NDArray[np.float64]  #: cost of a row by bucket
    budget_s: float  #: work that fits
    most_rows: float  #: rows that fit

    @property
    def work_s(self) -> float:
        """Work that comes."""
        return float(self.rows @ self.costs_s)

    def reason(self, over_capacity: str) -> str:
        """The reason of shedding: the number of rows, as in a batch that is too large, or their work."""
        return TOO_MANY if self.work_s <= self.budget_s else over_capacity

    def let_through(self, table: KeepTable | None, utilities: NDArray[np.float64] | None = None) -> tuple[float, float]:
        """Work and rows that a table keeps; utility instead of rows if they differ in it."""
        rows = self.rows if table is None else self.rows * by_bucket(table.keep)
        return float(rows @ self.costs_s), float(rows.sum() if utilities is None else rows @ utilities)

    def without(self, share: float) -> "Forecast":
        """The rest after must-keep rows, which are paid for first."""
        return Forecast(
            rows=self.rows * (1.0 - share),
            costs_s=self.costs_s,
            budget_s=self.budget_s - share * self.work_s,
            most_rows=self.most_rows - share * float(self.rows.sum()),
        )


class Rule(NamedTuple):
    """A rule that spends the budget on incoming rows."""

    reason: str  #: why rows are shed
    shares: Callable[[Forecast], NDArray[np.float64]]  #: what to keep of each bucket, or one share for all
    utilities: NDArray[np.float64] | None = None  #: worth of a row of each bucket; None: all are equal

    @property
    def grades(self) -> str:
        """The division of buckets by worth; costs learned under one division do not apply to another."""
        return "all rows alike" if self.utilities is None else f"grades {zlib.crc32(self.utilities.tobytes()):08x}"


def _alike(forecast: Forecast) -> NDArray[np.float64]:
    by_rows = row_share(float(forecast.rows.sum()), forecast.most_rows)
    return np.array([min(alike(forecast.work_s, forecast.budget_s), by_rows)])


ALIKE = Rule(OVER_CAPACITY, _alike)
CHEAPEST_FIRST = Rule(DEAR, lambda forecast: cheapest_first(*forecast))


def most_useful_first(utilities: NDArray[np.float64], min_keep: float) -> Rule:
    """Most utility for its work first, and of every bucket at least this share."""

    def shares(forecast: Forecast) -> NDArray[np.float64]:
        return densest_first(*forecast[:2], utilities, *forecast[2:], min_keep=min_keep)

    return Rule(POOR, shares, utilities)
