r"""Which share of its queries' rows a site keeps, given what other sites give: a weighted max-min over its own work.

Keeping a share $g_q$ costs $g_q c_q$ of the site's budget $B$ and brings query $q$ to

$$ \mathit{SIC}_q = k_q + g_q (1 - p_q) $$

where others have told that they give $k_q$ of the part $p_q$ of its sources. The site raises the lowest
$\mathit{SIC}_q / w_q$ until its budget is spent: all its queries rise to one level, except those that others hold above
it and those that have all their rows. That is the condition for the max-min of the whole federation, too, for budgets
are never shared: no site could take work from a richer query for a poorer one. (THEMIS, sections 5 and 6, with the SIC
that others give in the place of the SIC of results.)
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """A query that has sources at a site.

    Attributes:
        work: Work a second if every row of these sources is kept.
        others_sic: What other sites give it.
        others_part: The share of its sources that they have told of.
        weight: How much it counts.
    """

    work: float
    others_sic: float = 0.0
    others_part: float = 0.0
    weight: float = 1.0

    def share_at(self, level: float) -> float:
        """The share that brings the query to a level."""
        own = 1.0 - self.others_part
        wanted = self.weight * level - self.others_sic
        if own <= 0.0:
            return 1.0 if wanted >= 0.0 else 0.0
        return min(max(wanted / own, 0.0), 1.0)

    @property
    def levels(self) -> tuple[float, float]:
        """The levels between which its share goes from 0 to 1."""
        least = self.others_sic / self.weight
        return least, least + max(1.0 - self.others_part, 0.0) / self.weight


def fair_shares(demands: Mapping[str, Demand], budget: float) -> dict[str, float]:
    """The share of each query, of a budget of work a second.

    Alone, two queries that cost the same get the same; a query that another site already gives half of its rows rests
    until the others are there.

    >>> fair_shares({"a": Demand(100.0), "b": Demand(300.0)}, budget=100.0)
    {'a': 0.25, 'b': 0.25}
    >>> fair_shares({"a": Demand(100.0), "b": Demand(100.0, others_sic=0.5, others_part=0.5)}, budget=40.0)
    {'a': 0.4, 'b': 0.0}
    >>> fair_shares({"a": Demand(100.0, weight=2.0), "b": Demand(100.0)}, budget=60.0)
    {'a': 0.4, 'b': 0.2}
    """
    if sum(one.work for one in demands.values()) <= budget:
        return dict.fromkeys(demands, 1.0)
    # Between two neighbours of these, work is a line in the level.
    levels = sorted({level for one in demands.values() for level in one.levels})
    low, below = levels[0], 0.0
    level = levels[-1]
    for high in levels[1:]:
        above = _work(demands, high)
        if above > budget:
            level = low + (high - low) * (budget - below) / (above - below)
            break
        low, below = high, above
    shares = {query: one.share_at(level) for query, one in demands.items()}
    return _within(shares, demands, budget)


def even_shares(demands: Mapping[str, Demand], budget: float) -> dict[str, float]:
    """The random shedder: every row has the same chance, whatever its query.

    >>> even_shares({"a": Demand(100.0), "b": Demand(300.0, others_sic=0.5, others_part=0.5)}, budget=100.0)
    {'a': 0.25, 'b': 0.25}
    """
    work = sum(one.work for one in demands.values())
    return dict.fromkeys(demands, min(1.0, budget / work) if work else 1.0)


def _work(demands: Mapping[str, Demand], level: float) -> float:
    return sum(one.work * one.share_at(level) for one in demands.values())


def _within(shares: dict[str, float], demands: Mapping[str, Demand], budget: float) -> dict[str, float]:
    """A query whose share jumps, because others have told of all its sources, may not burst the budget."""
    work = sum(demands[query].work * share for query, share in shares.items())
    return shares if work <= budget * (1.0 + 1e-9) else {query: one * budget / work for query, one in shares.items()}
