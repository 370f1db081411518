r"""The fairest shares over many nodes with complete information: the optimum for shedders with local information.

A query has parts on several nodes. Of part $p$, which offers SIC $s_p$ for work $c_p$, share $x_p$ is kept:

$$\max t \quad\text{subject to}\quad \sum_{p \in q} s_p x_p \ge w_q t, \qquad
\sum_{p \text{ at } n} c_p x_p \le C_n, \qquad 0 \le x_p \le 1$$

That is a linear program. Queries whose constraint has a price cannot get more unless another one at their level gets
less. They are fixed there, and the level of the others is raised further, until none is left.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, diags_array, hstack, vstack

from penstock.core.fairness.max_min import Floats, Ints
from penstock.core.network.exact import PRECISE
from penstock.errors import PenstockError

#: The tolerance of prices and of the highest possible level.
_PRICE, _NEAR = 1e-9, 1e-9
#: The maximum number of levels; queries not fixed by then keep the result of the last program.
_MOST_LEVELS = 60


@dataclass(frozen=True)
class NodeShares:
    """The optimum."""

    kept: Floats  #: share of each part that is kept
    sic: Floats  #: SIC of each query
    levels: tuple[float, ...]  #: the levels at which queries are fixed, lowest first


def max_min_nodes(
    capacities: ArrayLike,
    owner: ArrayLike,
    node: ArrayLike,
    sic: ArrayLike,
    work: ArrayLike,
    weights: ArrayLike | None = None,
) -> NodeShares:
    """Shares that maximize the poorest query, then the next, within each node's capacity.

    Part i belongs to query `owner[i]` and lies at `node[i]`; whole, it is worth `sic[i]` and takes `work[i]`.

    A query at both nodes leaves the crowded one to the query that has nothing else:

    >>> best = max_min_nodes([1.0, 1.0], owner=[0, 1, 1], node=[0, 0, 1], sic=[1.0, 0.5, 0.5], work=[2.0, 2.0, 2.0])
    >>> best.kept.round(3).tolist(), best.sic.round(3).tolist()
    ([0.333, 0.167, 0.5], [0.333, 0.333])
    """
    owners, nodes = np.asarray(owner, dtype=np.int64), np.asarray(node, dtype=np.int64)
    worth, cost = np.asarray(sic, dtype=np.float64), np.asarray(work, dtype=np.float64)
    limits = np.asarray(capacities, dtype=np.float64)
    if not owners.size:
        return NodeShares(np.zeros(0), np.zeros(0), ())
    if nodes.max() >= limits.size:
        raise PenstockError.setting("capacities", limits.tolist(), f"one for each of {nodes.max() + 1} nodes")
    queries = int(owners.max()) + 1
    scale = np.ones(queries) if weights is None else np.asarray(weights, dtype=np.float64)
    parts = np.arange(owners.size)
    gains = coo_array((worth, (owners, parts)), shape=(queries, owners.size)).tocsr()
    loads = coo_array((cost, (nodes, parts)), shape=(limits.size, owners.size)).tocsr()
    fixed = np.full(queries, np.nan)
    levels: list[float] = []
    kept = np.zeros(owners.size)
    while np.isnan(fixed).any() and len(levels) < _MOST_LEVELS:
        kept, level, bound = _raise(gains, loads, limits, scale, fixed)
        levels.append(level)
        fixed[bound] = np.minimum(level * scale[bound], gains[bound] @ kept)
    return NodeShares(kept, gains @ kept, tuple(levels))


def _raise(
    gains: csr_array, loads: csr_array, limits: Floats, weights: Floats, fixed: Floats
) -> tuple[Floats, float, Ints]:
    """Raise the level of queries not yet fixed; returns shares, the level, and the queries that cannot get more.

    A solver's tolerance is absolute. So the SIC of a query counts in units of all it has, and work in units of a node's
    capacity. The level is in units of the highest that the poorest query can reach.
    """
    free = np.isnan(fixed)
    parts = gains.shape[1]
    whole = gains @ np.ones(parts)
    reach = whole[free] / weights[free]
    unit = float(reach.min())
    of_query = np.divide(1.0, whole, out=np.zeros(whole.size), where=whole > 0.0)
    of_node = np.divide(1.0, limits, out=np.ones(limits.size), where=limits > 0.0)
    columns = np.where(free, weights * unit * of_query, 0.0)[:, None]
    constraints = vstack(
        [
            hstack([-diags_array(of_query) @ gains, csr_array(columns)]),
            hstack([diags_array(of_node) @ loads, csr_array((limits.size, 1))]),
        ]
    )
    bounds = np.r_[np.where(free, 0.0, -fixed * of_query * (1.0 - _NEAR)), limits * of_node]
    goal = np.zeros(parts + 1)
    goal[-1] = -1.0
    ranges = np.column_stack([np.zeros(parts + 1), np.ones(parts + 1)])
    found = linprog(goal, A_ub=constraints.tocsr(), b_ub=bounds, bounds=ranges, method="highs", options=PRECISE)
    if not found.success:
        raise PenstockError(f"the program of the fairest shares has no solution: {found.message}")
    level = float(found.x[-1]) * unit
    prices = -found.ineqlin.marginals[: free.size]
    # A complete query cannot get more either; it has no price, because the level itself ends there.
    full = np.zeros(free.size, np.bool_)
    full[free] = level >= reach * (1.0 - _NEAR)
    bound = np.flatnonzero(free & ((prices > _PRICE) | full))
    if not bound.size or level >= float(reach.max()) * (1.0 - _NEAR):
        bound = np.flatnonzero(free)
    return found.x[:-1], level, bound
