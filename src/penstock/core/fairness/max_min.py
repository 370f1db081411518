r"""The exact counterpart of BALANCE-SIC: maximize the poorest query, then the next, by a water level.

Query $q$ has SIC $e_q$ from elsewhere, weight $w_q$ and batches here; of batch $b$, share $x_b$ is kept, worth
$x_b n_b s_b$ and costing $x_b n_b c_b$. With a budget $B$ of work the shares maximise

$$\min_q \frac{1}{w_q}\Bigl(e_q + \sum_{b \in q} x_b n_b s_b\Bigr)
\quad\text{subject to}\quad \sum_b x_b n_b c_b \le B, \qquad 0 \le x_b \le 1$$

and, with the poorest fixed, the next poorest and so on. Inside a query the batches with the most SIC for their work
come first; equals get equal shares. The work to raise all queries to level $\lambda$ is then a sum of linear pieces.
Each lies between the levels where a batch begins and ends. Sort these ends, sum the slopes, and find the level at which
the budget is spent. A weight of 2 asks for twice the SIC.

Tuples without work are always kept, tuples without SIC only if work is left when all others are kept.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.settings import number
from penstock.errors import PenstockError

Query = TypeVar("Query", bound=Hashable)
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

#: Batches whose SIC for their work differs by less than this share are equals.
_EQUAL = 1e-9
#: The smallest weight: a lower one cannot be distinguished from 0.
_LEAST_WEIGHT = 1e-9
#: SIC below this is none.
_NOTHING = 1e-15


@dataclass(frozen=True)
class Shares(Generic[Query]):
    """What is kept."""

    kept: dict[Query, list[float]]  #: by query, the share kept of each of its batches, 0 to 1, in the order given
    sic: dict[Query, float]  #: by query, its SIC with the kept tuples
    level: float  #: SIC over weight that every query with enough tuples reaches; infinite if all is kept
    work: float  #: work that is spent


def max_min(
    budget: float,
    queries: Mapping[Query, Sequence[Sequence[float]]],
    *,
    known_sic: Mapping[Query, float] | None = None,
    weights: Mapping[Query, float] | None = None,
) -> Shares[Query]:
    """The fairest shares within a budget of work.

    Args:
        budget: Work that can be done: tuples, if every tuple costs 1.
        queries: By query, batches (tuples, SIC of each tuple) or (tuples, SIC of each, work of each).
        known_sic: SIC that queries have from elsewhere; the batches are not part of it.
        weights: The divisor of a query's SIC; 1 if missing.

    >>> fair = max_min(9, {"slow": [(10, 0.1)], "fast": [(40, 0.025)]})
    >>> fair.kept, round(fair.level, 3), round(fair.work, 3)
    ({'slow': [0.18], 'fast': [0.18]}, 0.18, 9.0)
    >>> max_min(9, {"slow": [(10, 0.1)], "fast": [(40, 0.025, 2.0)]}, weights={"slow": 2.0}).kept
    {'slow': [0.18], 'fast': [0.09]}
    >>> max_min(8, {"slow": [(10, 0.1)], "fast": [(40, 0.025)]}, known_sic={"slow": 0.5}).kept
    {'slow': [0.0], 'fast': [0.2]}
    """
    flat = [(at, *_batch(query, batch)) for at, query in enumerate(queries) for batch in queries[query]]
    owner = np.array([entry[0] for entry in flat], dtype=np.int64)
    tuples, sic, work = np.array([entry[1:] for entry in flat], dtype=np.float64).reshape(-1, 3).T
    start = np.array(
        [number(f"known_sic of query {query!r}", (known_sic or {}).get(query, 0.0), -np.inf) for query in queries]
    )
    weight = np.array(
        [number(f"weights of query {query!r}", (weights or {}).get(query, 1.0), _LEAST_WEIGHT) for query in queries]
    )
    kept, level = fill(budget, owner, tuples * sic, tuples * work, start, weight)
    after = start + np.bincount(owner, kept * tuples * sic, minlength=start.size)
    shares = iter(kept.round(15).tolist())
    return Shares(
        {query: [next(shares) for _ in batches] for query, batches in queries.items()},
        dict(zip(queries, after.tolist(), strict=True)),
        level,
        float(kept @ (tuples * work)),
    )


def _batch(query: object, batch: Sequence[float]) -> tuple[float, float, float]:
    try:
        tuples, sic, work = batch if len(batch) == 3 else (*batch, 1.0)  # noqa: PLR2004 - work is told as well
        usable = all(0.0 <= part < np.inf for part in (tuples, sic, work))
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise PenstockError.setting(
            f"batch of query {query!r}", batch, "(tuples, SIC of each, work of each), all from 0 up"
        )
    return tuples, sic, work


def fill(
    budget: float,
    owner: Ints,
    sic: Floats,
    work: Floats,
    start: Floats,
    weight: Floats | None = None,
    *,
    rank: Floats | None = None,
) -> tuple[Floats, float]:
    """The water level on flat arrays: the share kept of each batch, and the level.

    Batch i is worth `sic[i]` in all, costs `work[i]` in all and belongs to query `owner[i]`, which has
    `start[owner[i]]` from elsewhere and weight `weight[owner[i]]`. Of a query, batches of the highest `rank[i]` are
    kept first; without ranks, those with the most SIC for their work.

    >>> fill(0.5, np.array([0, 1, 1]), np.array([0.5, 0.2, 0.2]), np.array([1.0, 0.4, 0.4]), np.array([0.0, 0.1]))
    (array([0.35  , 0.1875, 0.1875]), 0.175)
    """
    budget = number("budget", budget, 0.0)
    kept = np.zeros(owner.size)
    kept[work <= 0.0] = 1.0
    if work.sum() <= budget:
        kept[:] = 1.0
        return kept, np.inf
    base = start + np.bincount(owner, np.where(work <= 0.0, sic, 0.0), minlength=start.size)
    scale = np.ones(start.size) if weight is None else weight
    live = np.flatnonzero((work > 0.0) & (sic > _NOTHING))
    level = np.inf
    if live.size:
        worth = sic[live] / work[live] if rank is None else rank[live]
        order = np.lexsort((-worth, owner[live]))
        live = live[order]
        kept[live], level = _water(budget, owner[live], sic[live], work[live], base, scale, worth=worth[order])
    left = budget - float(kept @ work)
    idle = (work > 0.0) & (sic <= _NOTHING)
    if level == np.inf and left > 0.0 and idle.any():
        kept[idle] = min(left / work[idle].sum(), 1.0)
    return kept, level


def _water(
    budget: float, owner: Ints, sic: Floats, work: Floats, base: Floats, weight: Floats, *, worth: Floats
) -> tuple[Floats, float]:
    """Shares of batches sorted by query and falling worth, none of them without SIC or work."""
    new_query = np.r_[True, owner[1:] != owner[:-1]]
    new_group = new_query | np.r_[True, worth[1:] < worth[:-1] * (1.0 - _EQUAL)]
    group = np.cumsum(new_group) - 1
    at = np.flatnonzero(new_group)
    query = owner[at]
    group_sic, group_work = np.add.reduceat(sic, at), np.add.reduceat(work, at)
    before = np.cumsum(group_sic) - group_sic
    first_of_query = np.flatnonzero(new_query[at])
    own_before = before - np.repeat(before[first_of_query], np.diff(np.r_[first_of_query, at.size]))
    begins = (base[query] + own_before) / weight[query]
    length = group_sic / weight[query]
    slope = group_work / length
    ends = np.concatenate([begins, begins + length])
    order = np.argsort(ends, kind="stable")
    ends, slopes = ends[order], np.concatenate([slope, -slope])[order]
    spent = np.concatenate([[0.0], np.cumsum(np.diff(ends) * np.cumsum(slopes)[:-1])])
    if budget >= spent[-1]:
        return np.ones(owner.size), np.inf
    piece = int(np.searchsorted(spent, budget, side="right")) - 1
    rise = (spent[piece + 1] - spent[piece]) / (ends[piece + 1] - ends[piece])
    level = float(ends[piece] + (budget - spent[piece]) / rise)
    return np.clip((level - begins) / length, 0.0, 1.0)[group], level
