"""The streams of OSG's two applications (section 5.3): synthetic with the stated statistics, or recorded.

A stream has the statistics that the paper states: rows, keys, the share of the most frequent key, and minimum, maximum
and mean cost. Chosen here: keys follow Zipf's law. Costs are exponential between minimum and maximum, independent of
the frequency of a key. A row has the cost of its key.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.sim import workload
from penstock.sim.workload import Floats, Ints

#: How often the search for a scale halves its interval.
_HALVINGS = 60
#: Between these it searches: from nearly all at the least cost to evenly spread.
_SCALES = 0.03, 1e3


@dataclass(frozen=True, slots=True)
class Application:
    """Statistics of an application's stream, from the paper."""

    name: str
    rows: int
    keys: int
    top_share: float
    least_ms: float
    most_ms: float
    mean_ms: float
    #: The most frequent cost and its share of rows; REACH has one, which is also the cost of its most frequent key.
    common_ms: float = 0.0
    common_share: float = 0.0


MENTION = Application("mention", 500_000, 35_000, 0.065, 1.8, 36.0, 7.0)
REACH = Application("reach", 2_114_269, 9_960, 0.0038, 0.01, 70.0, 20.0, common_ms=65.0, common_share=0.15)


@dataclass(frozen=True, slots=True)
class KeyedStream:
    """Rows in order of arrival: keys numbered from 0 to `items` - 1, and the cost of each row."""

    keys: Ints
    costs_ms: Floats
    items: int

    @property
    def facts(self) -> dict[str, float | int]:
        """Statistics of the stream."""
        return {
            "rows": len(self.keys),
            "distinct_keys": len(np.unique(self.keys)),
            "top_key_share": float(np.max(np.bincount(self.keys)) / len(self.keys)),
            "least_cost_ms": float(np.min(self.costs_ms)),
            "mean_cost_ms": float(self.costs_ms.mean()),
            "max_cost_ms": float(np.max(self.costs_ms)),
        }


def synthetic(application: Application, rows: int, number: int, seed: int) -> KeyedStream:
    """The stream of one run.

    >>> facts = synthetic(MENTION, 100_000, number=0, seed=0).facts
    >>> f"{facts['top_key_share']:.3f} {facts['mean_cost_ms']:.1f}"
    '0.064 7.0'
    """
    exponent = workload.exponent_for_top(application.top_share, application.keys)
    rng = np.random.default_rng([seed, 13, number])
    keys = workload.draw_keys(f"zipf-{exponent}", rows, application.keys, rng)
    share = np.diff(workload.cumulated(f"zipf-{exponent}", application.keys), prepend=0.0)
    return KeyedStream(keys, costs_by_key(application, share, rng)[keys], application.keys)


def costs_by_key(application: Application, share: Floats, rng: np.random.Generator) -> Floats:
    """The cost of each key, such that rows drawn with these shares have the application's mean cost.

    >>> costs = costs_by_key(REACH, np.full(1000, 0.001), np.random.default_rng(0))
    >>> round(float(costs.mean()), 3), float(costs.min()), float(costs.max())
    (20.0, 0.01, 70.0)
    """
    common = np.zeros(len(share), np.bool_)
    if application.common_share:
        top = int(np.argmax(share))
        order = np.concatenate([[top], rng.permutation(np.delete(np.arange(len(share)), top))])
        common[order[np.cumsum(share[order]) <= max(application.common_share, share[top])]] = True
    others = np.flatnonzero(~common)
    costs = np.full(len(share), application.common_ms)
    quantiles = rng.permutation(np.linspace(0.0, 1.0, len(others)))
    left_ms = application.mean_ms - float(share[common].sum()) * application.common_ms
    low, high = _SCALES
    for _ in range(_HALVINGS):
        scale = float(np.sqrt(low * high))
        costs[others] = _truncated_exponential(quantiles, scale, application.least_ms, application.most_ms)
        if float(share[others] @ costs[others]) < left_ms:
            low = scale
        else:
            high = scale
    return costs


def _truncated_exponential(quantiles: Floats, scale: float, least: float, most: float) -> Floats:
    """Quantiles of the exponential distribution cut to [least, most]; `scale` is in units of its width."""
    costs: Floats = least - (most - least) * scale * np.log1p(quantiles * np.expm1(-1.0 / scale))
    return costs.clip(least, most)


def recorded(path: Path, key: str, cost: str | None, application: Application, seed: int) -> KeyedStream:
    """A stream from a Parquet or CSV file; without a column of costs each key gets one as the application has them."""
    keys, items = workload.read_keys(path, key)
    if cost is not None:
        return KeyedStream(keys, workload.read_costs(path, cost) * 1e3, items)
    share = np.bincount(keys, minlength=items) / len(keys)
    return KeyedStream(keys, costs_by_key(application, share, np.random.default_rng([seed, 14]))[keys], items)


def has_column(path: Path, name: str) -> bool:
    """Whether the file has such a column; false for an unreadable file, which fails when its key is read."""
    try:
        workload.read_columns(path, [name])
    except (PenstockError, pa.ArrowException):
        return False
    return True
