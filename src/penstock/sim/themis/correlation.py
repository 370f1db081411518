"""How SIC and the error of a result go together (THEMIS, section 7.1): one node, a random shedder, real results.

A node has room for a few queries and gets more of them. Four times a second it sheds tuples at random until the rest
fits. Each second every query gives a result, which is compared with the result without shedding.
"""

import math
from typing import NamedTuple

import numpy as np

from penstock.core.fairness.input_buffer import Buffer, Known
from penstock.core.fairness.shedder import RandomShedder
from penstock.sim.themis.data import Traces, values
from penstock.sim.themis.queries import QUERIES, Kept
from penstock.sim.workload import Floats

#: Queries on the node; it has room for the first number.
OVERLOADS = (4, 5, 6, 8, 11, 16, 24, 40)
#: Tuples a second of a source: Table 2, and less for TOP-5.
RATE, TOP_RATE = 400, 20
SECONDS = 20
_SHEDS_PER_S = 4
#: All queries are alike, so results of a few are enough.
_MEASURED = 3


class Degraded(NamedTuple):
    """What a query's results rest on, and how far they are from perfect ones; NaN if none could be compared."""

    sic: float
    error: float


def correlation_run(
    run: int, *, query: str, dataset: str, traces: Traces, seed: int, seconds: int = SECONDS
) -> list[Degraded]:
    """Results of a query over a data set at every overload, from none to ten times."""
    rng = np.random.default_rng([seed, run, 6])
    asked = QUERIES[query]
    rate = TOP_RATE if query == "top_5" else RATE
    shape = (asked.sources, rate * seconds)
    streams = [values(dataset, traces, asked.streams, shape, rng) for _ in range(_MEASURED)]
    shedder = RandomShedder(seed=int(rng.integers(2**31)))
    found = []
    for queries in OVERLOADS:
        kept = _kept(shedder, queries, shape, seconds)
        found.append(Degraded(float(np.mean([one.mean() for one in kept])), _error(query, streams, kept, seconds)))
    return found


def _kept(shedder: RandomShedder, queries: int, shape: tuple[int, int], seconds: int) -> list[Kept]:
    """The kept tuples of the measured queries when this many share the node."""
    sources, tuples = shape
    sheds = seconds * _SHEDS_PER_S
    waiting = sources * tuples // sheds  # of one query
    owner = np.repeat(np.arange(queries), waiting)
    buffer = Buffer.of(owner, np.ones_like(owner), 1.0)
    nothing = Known.nothing(queries)
    rounds = []
    for call in range(sheds):
        kept = shedder.select(buffer, OVERLOADS[0] * waiting, nothing, call / _SHEDS_PER_S).kept
        rounds.append(kept.reshape(queries, sources, -1)[:_MEASURED] > 0)
    return list(np.concatenate(rounds, axis=2))


def _error(query: str, streams: list[Floats], kept: list[Kept], seconds: int) -> float:
    """Mean distance of results from perfect ones; for COV their deviation, in units of the sources' deviations."""
    asked = QUERIES[query]
    distances = []
    for values_of, kept_of in zip(streams, kept, strict=True):
        scale = float(np.prod(values_of.std(axis=1))) if query == "cov" else 1.0
        for window, mask in zip(np.split(values_of, seconds, 1), np.split(kept_of, seconds, 1), strict=True):
            degraded = asked.result([asked.partial(window, mask)])
            perfect = asked.result([asked.partial(window, np.ones_like(mask))])
            distance = asked.distance(degraded, perfect)
            if distance is not None and scale > 0.0:
                distances.append(distance / scale)
    if not distances:
        return math.nan
    if query == "cov":
        return float(np.sqrt(np.mean(np.square(distances))))
    return float(np.mean(distances))
