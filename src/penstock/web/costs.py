r"""Cost, share of work and keep share of each class of keys.

Key buckets are grouped by cost per row, in octaves from a microsecond up: $k = \lfloor \log_2(w / 1\,\mu s) \rfloor$. A
million keys make a dozen classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.control.bucket_costs import BUCKETS, CHEAPEST_S, BucketCosts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from penstock.messages.plan import KeepTable


def merged(sketches: Iterable[bytes]) -> BucketCosts:
    """The merged measurements of several reports."""
    found = BucketCosts()
    for sketch in sketches:
        found.merge(BucketCosts.from_bytes(sketch))
    return found


def keep_shares(table: KeepTable | None) -> NDArray[np.float64]:
    """The keep share of each of the gate's buckets."""
    if table is None:
        return np.ones(BUCKETS)
    return np.resize(np.asarray(table.keep, np.float64), BUCKETS)


def classes(costs: BucketCosts, table: KeepTable | None) -> list[dict[str, Any]]:
    """The classes, cheapest first; none before the first measurement.

    >>> costs = BucketCosts()
    >>> costs.add(np.array([7, 9]), np.array([0.001, 0.004]), np.array([1.0, 1.0]))
    >>> [(one["from_s"], one["rows"], one["work"], one["kept"]) for one in classes(costs, None)]
    [(0.000512, 0.5, 0.2, 1.0), (0.002048, 0.5, 0.8, 1.0)]
    """
    seen = np.flatnonzero(costs.rows > 0.0)
    if not len(seen):
        return []
    each_s, weight = costs.costs_s()[seen], costs.weight[seen]
    octaves = np.floor(np.log2(np.maximum(each_s, CHEAPEST_S) / CHEAPEST_S)).astype(np.int64)
    keep = keep_shares(table)[seen]
    work = weight * each_s
    found = []
    for octave in np.unique(octaves).tolist():
        inside = octaves == octave
        rows = float(weight[inside].sum())
        found.append(
            {
                "from_s": round(CHEAPEST_S * 2.0**octave, 9),
                "to_s": round(CHEAPEST_S * 2.0 ** (octave + 1), 9),
                "buckets": int(inside.sum()),
                "rows": round(rows / float(weight.sum()), 4),
                "work": round(float(work[inside].sum()) / max(float(work.sum()), 1e-300), 4),
                "kept": round(float(keep[inside] @ weight[inside]) / rows, 4) if rows > 0.0 else 1.0,
            }
        )
    return found
