"""The deployment: sites with capacities, queries split into fragments, their sources and the links between them.

A fragment of a query reads sources of its own. Fragments of AVG-all send to one root, those of TOP-5 and COV form a
chain (THEMIS, section 7). Each fragment of a query is on another site. Sites are equal; how many fragments a site gets
follows a Zipf law, so some have much more to do than others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """A query of Table 1's complex workload: sources of a fragment, how fragments hang together, what each sends on."""

    sources: int
    shape: str  #: `tree`: all send to the root; `chain`: each to the next
    output_tuples: int  #: derived tuples that a fragment sends on every second


KINDS = {"avg_all": Kind(10, "tree", 1), "top_5": Kind(20, "chain", 5), "cov": Kind(2, "chain", 1)}


@dataclass(frozen=True)
class Sources:
    """How sources send."""

    batches_per_s: float = 3.0  #: of each source
    tuples_per_batch: int = 50  #: all batches are alike
    grain: int = 10  #: tuples of a batch that are kept or shed at a time; 1 is tuple by tuple, more is faster
    burst: float = 1.0  #: what a source's rate is multiplied with in a burst; 1 for steady sources
    rest: float = 1.0  #: what it is multiplied with between bursts
    burst_share: float = 0.1  #: of the time that a source is in a burst
    burst_s: float = 1.0  #: how long a burst lasts on average

    @property
    def steady(self) -> bool:
        """Whether the rate never changes."""
        return self.burst == self.rest == 1.0

    @property
    def tuples_per_s(self) -> float:
        """Of one source, on average."""
        mean = self.burst_share * self.burst + (1.0 - self.burst_share) * self.rest
        return self.batches_per_s * self.tuples_per_batch * mean


#: Table 2.
LOCAL, EMULAB = Sources(5.0, 80), Sources(3.0, 50)
#: Section 7.4: ten times the rate for a tenth of the time, on top of the usual rate, or with the same mean.
BURSTY = replace(EMULAB, burst=10.0)
BURSTY_SAME_MEAN = replace(EMULAB, burst=10.0 / 1.9, rest=1.0 / 1.9)


@dataclass(frozen=True)
class Deployment:
    """A federation, as arrays by site, by fragment and by query."""

    #: work a site can do in a second; a tuple is one unit of work unless queries have costs of their own
    capacity: Floats
    fragment_query: Ints  #: the query of each fragment
    fragment_site: Ints  #: where each fragment runs
    fragment_downstream: Ints  #: the fragment that gets its output; -1 for a query's root
    fragment_sources: Ints  #: how many sources each fragment reads
    fragment_output: Ints  #: derived tuples that it sends on every second
    query_cost: Floats  #: work that a tuple of a query needs
    data_delay_s: Floats  #: from a fragment to the next one
    message_delay_s: Floats  #: from a query's coordinator to the site of each of its fragments
    sources: Sources  #: how all sources send

    @property
    def queries(self) -> int:
        """How many there are."""
        return len(self.query_cost)

    @property
    def query_sources(self) -> Ints:
        """How many sources each query has."""
        return np.bincount(self.fragment_query, self.fragment_sources, self.queries).astype(np.int64)

    @property
    def query_fragments(self) -> Ints:
        """How many fragments each query has."""
        return np.bincount(self.fragment_query, minlength=self.queries)

    @property
    def source_work(self) -> Floats:
        """Work that each fragment's sources ask for in a second, were nothing shed."""
        return self.fragment_sources * self.sources.tuples_per_s * self.query_cost[self.fragment_query]

    @property
    def derived_work(self) -> Floats:
        """Work in a second, by site, for what fragments send to each other."""
        sending = np.flatnonzero(self.fragment_downstream >= 0)
        work = self.fragment_output[sending] * self.query_cost[self.fragment_query[sending]]
        at = self.fragment_site[self.fragment_downstream[sending]]
        return np.bincount(at, work, len(self.capacity)).astype(np.float64)


@dataclass(frozen=True)
class Setup:
    """The sites of a deployment, and what their queries and sources are like."""

    sites: int  #: how many; all have the same capacity
    capacity_share: float | None = None  #: all sites' capacity, as a share of what all sources ask for without bursts
    capacity_per_s: float | None = None  #: of one site, in tuples a second, in place of the share
    zipf: float = 0.0  #: skew of fragments over sites
    delay_s: float = 0.005  #: of all links, for data and for messages
    message_delay_s: float | None = None  #: of messages, if it is another
    costs: Sequence[float] = (1.0,)  #: work for a tuple is drawn from these, by query
    sources: Sources = EMULAB  #: how sources send


def deploy(setup: Setup, kinds: Sequence[str], fragments: Sequence[int], rng: np.random.Generator) -> Deployment:
    """Draw where the fragments of queries go; a query has a kind, by name, and a number of fragments.

    >>> setup = Setup(sites=3, capacity_share=0.5)
    >>> found = deploy(setup, ["avg_all", "cov"], [3, 2], np.random.default_rng(0))
    >>> found.fragment_downstream.tolist()  # a tree, then a chain
    [-1, 0, 0, 4, -1]
    >>> found.fragment_sources.tolist(), float(found.capacity.sum())
    ([10, 10, 10, 2, 2], 2550.0)
    """
    if max(fragments) > setup.sites:
        raise PenstockError.setting("fragments", max(fragments), f"at most {setup.sites}, one for each site")
    weights = np.arange(1, setup.sites + 1, dtype=np.float64) ** -setup.zipf
    query, downstream, site, number = [], [], [], 0
    for which, (kind, count) in enumerate(zip(kinds, fragments, strict=True)):
        query += [which] * count
        if KINDS[kind].shape == "tree":
            downstream += [-1] + [number] * (count - 1)
        else:
            downstream += [*range(number + 1, number + count), -1]
        site += rng.choice(setup.sites, count, replace=False, p=weights / weights.sum()).tolist()
        number += count
    of_query = [KINDS[kind] for kind in kinds]
    cost = rng.choice(setup.costs, len(of_query)) if len(setup.costs) > 1 else np.full(len(of_query), setup.costs[0])
    found = Deployment(
        capacity=np.ones(setup.sites),
        fragment_query=np.asarray(query, np.int64),
        fragment_site=np.asarray(site, np.int64),
        fragment_downstream=np.asarray(downstream, np.int64),
        fragment_sources=np.asarray([of_query[one].sources for one in query], np.int64),
        fragment_output=np.asarray([of_query[one].output_tuples for one in query], np.int64),
        query_cost=cost.astype(np.float64),
        data_delay_s=np.full(number, setup.delay_s),
        message_delay_s=np.full(number, setup.delay_s if setup.message_delay_s is None else setup.message_delay_s),
        sources=setup.sources,
    )
    if setup.capacity_per_s is not None:
        return replace(found, capacity=np.full(setup.sites, setup.capacity_per_s))
    usual = replace(found, sources=replace(setup.sources, burst=1.0, rest=1.0)).source_work.sum()
    each = (setup.capacity_share or 1.0) * usual / setup.sites
    return replace(found, capacity=np.full(setup.sites, each))
