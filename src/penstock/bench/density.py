"""The time to allot work to many classes of rows, for each alpha."""

import math
import time
from collections.abc import Callable

import numpy as np

from penstock.bench.spread import spread
from penstock.core.control.density import Classes, allot
from penstock.sim.figure import Row

ALPHAS = (0.0, 1.0, 2.0, math.inf)
#: Few queries with many classes each, and many with few.
QUERIES = (20, 1_000, 20_000)
#: Capacity as a share of the work.
CAPACITY = 0.3


def bench_density(classes: int, repeats: int, seed: int, done: Callable[[int], None] = lambda _: None) -> Row:
    """Each alpha and number of queries in turn, so that noise affects all equally; and one sort for comparison."""
    rng = np.random.default_rng(seed)
    numbers = sorted({min(queries, classes) for queries in QUERIES})
    given = {queries: _random(rng, classes, queries) for queries in numbers}
    times_ms: dict[tuple[int, float], list[float]] = {(queries, alpha): [] for queries in numbers for alpha in ALPHAS}
    sorts_ms = list[float]()
    for _ in range(repeats):
        for (queries, alpha), own in times_ms.items():
            one = given[queries]
            budget_s = CAPACITY * float(one.rows @ one.costs_s)
            started = time.perf_counter()
            allot(one, budget_s, alpha=alpha)
            own.append(1e3 * (time.perf_counter() - started))
        started = time.perf_counter()
        np.argsort(given[numbers[0]].costs_s)
        sorts_ms.append(1e3 * (time.perf_counter() - started))
        done(1)
    rows: list[Row] = [
        {"queries": queries, "alpha": "inf" if alpha == math.inf else f"{alpha:g}", "ms": spread(own)}
        for (queries, alpha), own in times_ms.items()
    ]
    return {
        "bench": "density",
        "parameters": {"classes": classes, "repeats": repeats, "seed": seed, "capacity": CAPACITY},
        "rows": rows,
        "slowest_ms": max(row["ms"]["median"] for row in rows),
        "sort_ms": spread(sorts_ms),
    }


def _random(rng: np.random.Generator, classes: int, queries: int) -> Classes:
    return Classes(
        rows=rng.uniform(0.0, 10.0, classes),
        costs_s=rng.lognormal(-6.0, 1.5, classes),
        utilities=rng.uniform(0.0, 1.0, classes),
        query=rng.integers(0, queries, classes),
        weights=rng.uniform(0.5, 2.0, queries),
    )
