"""What the compiled loops share: the cost of a key from a sketch, and `CostModel` as arrays.

Numba notices that compiled code on disk is old by its own file only. `accelerator` also removes what is older than this
file, so that loops elsewhere may use these functions.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Place of each item in each row of a sketch: `HashFamily.columns_of_many(arange(items))`.
Columns = NDArray[np.intp]

_F = TypeVar("_F", bound=Callable[..., object])


def accelerator(function: _F) -> _F:
    """A compiled loop that uses functions of this file."""
    made = compiled(function)
    cache = Path(made.stats.cache_path or "")  # type: ignore[attr-defined]  # Numba's
    for path in cache.glob(f"{function.__module__.rpartition('.')[2]}.{function.__name__}-*.nb*"):
        if path.stat().st_mtime < Path(__file__).stat().st_mtime:
            path.unlink(missing_ok=True)
    return made


@compiled
def sketched(frequency: Floats, work: Floats, columns: Columns, key: int, mean: float) -> float:
    """`CostSketch.estimate`."""
    best = 0
    for i in range(1, columns.shape[0]):
        if frequency[i, columns[i, key]] < frequency[best, columns[best, key]]:
            best = i
    rows = frequency[best, columns[best, key]]
    return work[best, columns[best, key]] / rows if rows > 0.0 else mean


@compiled
def changed(snapshot: Floats, frequency: Floats, work: Floats) -> float:
    """The relative change of the sketch's means since the snapshot, which is taken again."""
    moved = before = 0.0
    for i in range(frequency.shape[0]):
        for j in range(frequency.shape[1]):
            cell = work[i, j] / frequency[i, j] if frequency[i, j] > 0.0 else 0.0
            moved += abs(snapshot[i, j] - cell)
            before += snapshot[i, j]
            snapshot[i, j] = cell
    return moved / before if before > 0.0 else (math.inf if moved > 0.0 else 0.0)


@compiled
def hand_over(matrix: Floats, to: Floats) -> None:
    """Copy a matrix and set it to 0. Numba takes seconds to compile `to[:] = matrix`, with its error message."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            to[i, j] = matrix[i, j]
            matrix[i, j] = 0.0


class Costs(NamedTuple):
    """Some of `CostModel`: heavy keys in places of their own, all keys in a sketch, and the sums over all; by model."""

    place_of: Ints  #: by key; -1 without a place
    key_at: Ints  #: by place; -1 if it is free
    heavy_count: Floats
    heavy_seen: Floats
    heavy_cost: Floats
    frequency: Floats
    work: Floats
    rows: Floats
    total: Floats


@compiled
def no_costs(models: int, items: int, places: int, depth: int, width: int) -> Costs:
    """Models that know nothing."""
    return Costs(
        np.full((models, items), -1, np.int64),
        np.full((models, places), -1, np.int64),
        np.zeros((models, places)),
        np.zeros((models, places)),
        np.zeros((models, places)),
        np.zeros((models, depth, width)),
        np.zeros((models, depth, width)),
        np.zeros(models),
        np.zeros(models),
    )


@compiled
def mean_cost(costs: Costs, m: int) -> float:
    """The mean over all rows; 0 before the first."""
    return costs.total[m] / costs.rows[m] if costs.rows[m] > 0.0 else 0.0


@compiled
def expected_cost(costs: Costs, m: int, columns: Columns, key: int) -> float:
    """What a row of the key costs: its own mean if it has a place, else the sketch's."""
    place = costs.place_of[m, key]
    if place >= 0:
        return float(costs.heavy_cost[m, place] / costs.heavy_seen[m, place])
    return sketched(costs.frequency[m], costs.work[m], columns, key, mean_cost(costs, m))


@compiled
def learn_cost(costs: Costs, m: int, columns: Columns, key: int, cost: float) -> None:
    """Count a row; a key without a place takes that of the least frequent one."""
    place = costs.place_of[m, key]
    if place < 0:
        place = 0
        for candidate in range(1, costs.key_at.shape[1]):
            if costs.heavy_count[m, candidate] < costs.heavy_count[m, place]:
                place = candidate
        if costs.key_at[m, place] >= 0:
            costs.place_of[m, costs.key_at[m, place]] = -1
        costs.place_of[m, key] = place
        costs.key_at[m, place] = key
        costs.heavy_seen[m, place] = 0.0
        costs.heavy_cost[m, place] = 0.0
    costs.heavy_count[m, place] += 1.0
    costs.heavy_seen[m, place] += 1.0
    costs.heavy_cost[m, place] += cost
    for i in range(columns.shape[0]):
        costs.frequency[m, i, columns[i, key]] += 1.0
        costs.work[m, i, columns[i, key]] += cost
    costs.rows[m] += 1.0
    costs.total[m] += cost


@compiled
def forget_costs(costs: Costs, m: int, factor: float, remember: float, forgotten: float) -> None:
    """`HeavyHitters.decay` and `CostSketch.decay`, of costs that are scaled by a factor before."""
    costs.rows[m] *= remember
    costs.total[m] = costs.total[m] * factor * remember
    for place in range(costs.key_at.shape[1]):
        costs.heavy_count[m, place] *= remember
        costs.heavy_seen[m, place] *= remember
        costs.heavy_cost[m, place] = costs.heavy_cost[m, place] * factor * remember
        if costs.key_at[m, place] >= 0 and costs.heavy_seen[m, place] < forgotten:
            costs.place_of[m, costs.key_at[m, place]] = -1
            costs.key_at[m, place] = -1
            costs.heavy_count[m, place] = 0.0
            costs.heavy_seen[m, place] = 0.0
            costs.heavy_cost[m, place] = 0.0
    for i in range(costs.frequency.shape[1]):
        for j in range(costs.frequency.shape[2]):
            costs.frequency[m, i, j] *= remember
            costs.work[m, i, j] = costs.work[m, i, j] * factor * remember
            if costs.frequency[m, i, j] < forgotten:
                costs.frequency[m, i, j] = 0.0
                costs.work[m, i, j] = 0.0
