r"""Keep shares of a site's queries, given the shares of other sites: a weighted max-min over its own work.

Keeping a share $g_q$ costs $g_q c_q$ of the site's budget $B$ and raises query $q$ to

$$ \mathit{SIC}_q = k_q + g_q (1 - p_q) $$

where others give it $k_q$ for the part $p_q$ of its sources. The site raises the lowest $\mathit{SIC}_q / w_q$ until
its budget is spent. All its queries rise to one level, except those that others hold above it and those that have all
their rows. The others do the same at the same time, so an addition to $g_q$ counts once for each of the $n_q$ sites of
the query. Otherwise all of them would raise a poor query at once, and then all of them would lower it.

$$ \mathit{SIC}_q + n_q (1 - p_q)\,\Delta g_q = \lambda w_q $$

At one level the change is 0 for any $n_q$. This is also the condition for the max-min of the whole federation, because
budgets are never shared. No site can move work from a richer query to a poorer one. (THEMIS, sections 5 and 6, with the
SIC that others give instead of the SIC of results.)
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from penstock.core.fairness.max_min import fill


class Demand(NamedTuple):
    """A query that has sources at a site."""

    work: float  #: work a second if every row of these sources is kept
    peers_sic: float = 0.0  #: its SIC at other sites
    peers_part: float = 0.0  #: the share of its sources that they have reported
    importance: float = 1.0  #: a query of importance 2 gets twice the SIC
    peers: int = 0  #: the number of sites with updates
    give: float = 0.0  #: the current share at this site


def fair_shares(demands: Mapping[str, Demand], budget: float) -> dict[str, float]:
    """The share of each query, of a budget of work a second.

    Without peers, queries get equal shares. A query that already has half of its rows at another site waits until the
    others have reached its level.

    >>> fair_shares({"a": Demand(100.0), "b": Demand(300.0)}, budget=100.0)
    {'a': 0.25, 'b': 0.25}
    >>> fair_shares({"a": Demand(100.0), "b": Demand(100.0, peers_sic=0.5, peers_part=0.5)}, budget=40.0)
    {'a': 0.4, 'b': 0.0}
    >>> fair_shares({"a": Demand(100.0, importance=2.0), "b": Demand(100.0)}, budget=60.0)
    {'a': 0.4, 'b': 0.2}
    """
    if not demands:
        return {}
    work, peers_sic, peers_part, importance, peers, give = np.array(
        [(one.work, one.peers_sic, one.peers_part, one.importance, one.peers, one.give) for one in demands.values()]
    ).T
    own = 1.0 - peers_part
    kept, _ = fill(budget, np.arange(len(work)), (1.0 + peers) * own, work, peers_sic - peers * own * give, importance)
    return dict(zip(demands, kept.round(12).tolist(), strict=True))


def even_shares(demands: Mapping[str, Demand], budget: float) -> dict[str, float]:
    """The random shedder: every row has the same chance, regardless of its query.

    >>> even_shares({"a": Demand(100.0), "b": Demand(300.0, peers_sic=0.5, peers_part=0.5)}, budget=100.0)
    {'a': 0.25, 'b': 0.25}
    """
    work = sum(one.work for one in demands.values())
    return dict.fromkeys(demands, min(1.0, budget / work) if work else 1.0)
