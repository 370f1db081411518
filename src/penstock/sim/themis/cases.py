"""Single runs behind the THEMIS figures: a federation is drawn, every shedder runs on it, and fairness is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.core.fairness.jain import Fairness, fairness
from penstock.core.fairness.max_min_nodes import max_min_nodes
from penstock.core.fairness.shedder import BalanceSicShedder, RandomShedder
from penstock.sim.themis.deployment import KINDS, Deployment, Floats, Setup, deploy
from penstock.sim.themis.runs import Clock, Federation, Layout, MakeShedder
from penstock.sim.themis.sites import Links, SiteShedder

#: `max_min` is the optimum of all sites together, computed; the others decide site by site, on virtual time.
SHEDDERS = ("random", "balance_sic", "penstock", "max_min")


@dataclass(frozen=True)
class Case(Setup):
    """One point of a figure."""

    queries: int | None = None  #: how many; or as many as have `total_fragments`
    total_fragments: int = 0  #: of all queries together
    fragments: tuple[int, ...] = (1,)  #: a query's number of fragments is drawn from these
    odds: tuple[float, ...] | None = None  #: how often each of them is drawn; all alike if not given
    #: a query's number of fragments follows from its kind instead
    fragments_by_kind: dict[str, int] = field(default_factory=dict)
    interval_s: float = 0.25  #: the shedding interval
    warm_s: float = 20.0  #: what happens before is not measured
    seconds: float = 35.0  #: when the run ends

    def deployment(self, rng: np.random.Generator) -> Deployment:
        """Draw queries, and where their fragments run."""
        counts = self._counts(rng)
        kinds = [list(KINDS)[number % len(KINDS)] for number in range(len(counts))]
        counts = [self.fragments_by_kind.get(kind, count) for kind, count in zip(kinds, counts, strict=True)]
        return deploy(self, kinds, counts, rng)

    def _counts(self, rng: np.random.Generator) -> list[int]:
        if self.queries is not None:
            return [int(count) for count in rng.choice(self.fragments, self.queries, p=self.odds)]
        counts: list[int] = []
        while sum(counts) < self.total_fragments:
            counts.append(int(rng.choice(self.fragments, p=self.odds)))
        return counts


def measure(run: int, *, case: Case, seed: int, shedders: Sequence[str] = SHEDDERS) -> dict[str, Fairness]:
    """How fair each shedder was in a run. All see the same federation and the same sources."""
    deployment = case.deployment(np.random.default_rng([seed, run]))
    layout, clock = Layout(deployment), Clock(case.interval_s)
    found = {}
    for name in shedders:
        if name == "max_min":
            found[name] = fairness([optimum(deployment)])
            continue
        rng = np.random.default_rng([seed, run, 1])
        federation = Federation(layout, clock, shedders_of(name, layout, clock, run), rng)
        sic = federation.run(case.seconds)
        found[name] = fairness(sic[round(case.warm_s / case.interval_s) :])
    return found


def shedders_of(name: str, layout: Layout, clock: Clock, seed: int) -> MakeShedder:
    """What makes the shedder of each site in a run; ours have links between them."""
    if name == "penstock":
        return partial(SiteShedder, layout, clock, Links(layout, clock))
    kind = RandomShedder if name == "random" else BalanceSicShedder
    return lambda site: kind(seed * len(layout.sites) + site)


def optimum(deployment: Deployment) -> Floats:
    """SIC of each query if one knew everything and all went evenly: the fairest shares over all sites."""
    worth = deployment.fragment_sources / deployment.query_sources[deployment.fragment_query]
    room = np.maximum(deployment.capacity - deployment.derived_work, 0.0)
    return max_min_nodes(room, deployment.fragment_query, deployment.fragment_site, worth, deployment.source_work).sic
