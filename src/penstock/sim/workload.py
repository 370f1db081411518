r"""Streams to run: the paper's generators (LAS, section 5.1), phases, and recorded streams.

A stream is three columns: the key of each row, what it really costs, and when it arrives. Under-provisioning u fixes
the arrivals: constant gaps of $(1-u)\,\bar w$ with the stream's own mean cost.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.errors import PenstockError

#: The paper's stream unless it says otherwise.
ROWS, ITEMS, COST_VALUES = 32_768, 4_096, 64
CHEAPEST_S, DEAREST_S = 0.0001, 0.0064
#: Load while a shedder still learns: the paper assumes it is not overloaded then.
CALM_LOAD = 0.9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows in the order they arrive; keys are numbered from 0 to `items` - 1."""

    keys: Ints
    costs_s: Floats
    arrivals_s: Floats
    items: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.keys)

    @property
    def mean_cost_s(self) -> float:
        """The stream's own mean cost."""
        return float(self.costs_s.mean())


@lru_cache(maxsize=32)
def cumulated(distribution: str, items: int) -> Floats:
    """The cumulated probabilities of `uniform` or `zipf-ALPHA` over item ranks 0, 1, ...

    >>> cumulated("zipf-1.0", 3).round(3).tolist()
    [0.545, 0.818, 1.0]
    """
    exponent = _exponent(distribution)
    weights = np.arange(1, items + 1, dtype=np.float64) ** -exponent
    total = np.cumsum(weights / weights.sum())
    total[-1] = 1.0
    total.setflags(write=False)
    return total


def _exponent(distribution: str) -> float:
    if distribution == "uniform":
        return 0.0
    try:
        exponent = float(distribution.removeprefix("zipf-")) if distribution.startswith("zipf-") else -1.0
    except ValueError:
        exponent = -1.0
    if not 0.0 <= exponent < float("inf"):
        raise PenstockError.setting("distribution", distribution, "'uniform' or 'zipf-ALPHA', such as 'zipf-1.0'")
    return exponent


def draw_keys(distribution: str, rows: int, items: int, rng: np.random.Generator) -> Ints:
    """Keys drawn independently; key 0 is the most frequent."""
    return np.searchsorted(cumulated(distribution, items), rng.random(rows), side="right").astype(np.int64)


def item_costs(rng: np.random.Generator, *, items: int = ITEMS, values: int = COST_VALUES) -> Floats:
    """What each item costs: `values` costs at equal distance, each given to items / values random items.

    >>> costs = item_costs(np.random.default_rng(0), items=128)
    >>> [round(float(cost), 4) for cost in np.unique(costs)[[0, 1, -1]]], len(costs)
    ([0.0001, 0.0002, 0.0064], 128)
    """
    if values < 1 or items % values:
        raise PenstockError.setting("values", values, f"a number that divides the {items} items")
    costs = np.repeat(np.linspace(CHEAPEST_S, DEAREST_S, values), items // values)
    rng.shuffle(costs)
    return costs


def arrivals(rows: int, gap_s: float, *, calm_rows: int = 0, calm_gap_s: float = 0.0) -> Floats:
    """Arrival times at constant gaps; the first `calm_rows` rows come at a gap of their own.

    >>> arrivals(4, 1.0, calm_rows=2, calm_gap_s=5.0).tolist()
    [0.0, 5.0, 10.0, 11.0]
    """
    gaps = np.full(rows, gap_s)
    gaps[:calm_rows] = calm_gap_s
    times = np.zeros(rows)
    np.cumsum(gaps[:-1], out=times[1:])
    return times


def phases(seed: int, *, phase_rows: int = 20_000) -> Stream:
    """Figure 6: phases A to G, each with an abrupt change of rate, of frequencies or of costs.

    A: rate equal to capacity. B: twice that. C: as A. D: the most frequent item changes places with one that costs
    most. E: 1.5 times over-provisioned. F: back to the rate of D's capacity, every cost doubled. G: as A.
    """
    rng = np.random.default_rng([seed, 6])
    by_item = item_costs(rng)
    dearest = np.flatnonzero(by_item == by_item.max())
    swap = int(dearest[dearest > 0][len(dearest) // 2])  # a middling rank: rare, but seen
    share = np.diff(cumulated("zipf-1.0", ITEMS), prepend=0.0)
    swapped = share.copy()
    swapped[[0, swap]] = share[[swap, 0]]
    mean_s, mean_swapped_s = float(share @ by_item), float(swapped @ by_item)
    keys, costs, gaps = [], [], []
    for phase, gap_s in zip(
        "ABCDEFG",
        [mean_s, mean_s / 2, mean_s, mean_s, mean_swapped_s * 1.5, mean_swapped_s, mean_s],
        strict=True,
    ):
        drawn = draw_keys("zipf-1.0", phase_rows, ITEMS, rng)
        if phase in "DEF":
            drawn = np.where(drawn == 0, swap, np.where(drawn == swap, 0, drawn))
        keys.append(drawn)
        costs.append(by_item[drawn] * (2.0 if phase == "F" else 1.0))
        gaps.append(np.full(phase_rows, gap_s))
    times = np.concatenate([[0.0], np.cumsum(np.concatenate(gaps))[:-1]])
    return Stream(np.concatenate(keys), np.concatenate(costs), times, ITEMS)


def read_keys(path: Path, column: str) -> tuple[Ints, int]:
    """The keys of a recorded stream, numbered in order of first appearance, and how many there are."""
    table = read_columns(path, [column])
    encoded = table.column(column).combine_chunks().dictionary_encode()
    if encoded.null_count:
        raise PenstockError(f"column {column!r} of {path} has {encoded.null_count} nulls: give a column without nulls")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def read_columns(path: Path, columns: list[str]) -> pa.Table:
    """Columns of a Parquet file, or one clear error."""
    try:
        present = pq.read_schema(path).names
        missing = [column for column in columns if column not in present]
        if missing:
            raise PenstockError.setting("column", missing[0], f"one of the columns of {path}: {', '.join(present)}")
        return pq.read_table(path, columns=columns)
    except FileNotFoundError:
        raise PenstockError.setting("data", str(path), "an existing Parquet file") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise PenstockError.setting("data", str(path), "a readable Parquet file", f"reading failed: {reason}") from None
