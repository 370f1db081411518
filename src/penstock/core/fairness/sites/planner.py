"""Plans for one site of a federation: keep shares of each input, from its own measurements and peer updates.

Rows from other sites have already cost work and are few: they are kept while capacity is left. `fair_shares` divides
the rest among the site's own queries. Shares move only part of the way at each batch, because several sites respond to
the same updates at the same time. The rows of a batch differ from the mean. So a batch is kept by the service debt of
its queries (`core.fairness.service_debt`), within the work that fits.

A source in a burst brings many rows of little SIC. Within a query, sources that currently send less than usual are
therefore kept first. Sources that send as usual are kept alike, regardless of rate: a join needs rows of both sides.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.core.fairness.max_min import Floats
from penstock.core.fairness.service_debt import ServiceDebt
from penstock.core.fairness.sites.capacity import GivenCapacity, LearnedCapacity, SiteCapacity
from penstock.core.fairness.sites.shares import Demand, even_shares, fair_shares
from penstock.messages.report import Known

Policy = Literal["balance", "random"]

#: The maximum step of shares towards their goal per batch, and the minimum time of the whole way as a share of the
#: window. Otherwise short batches would respond to updates from before the last step.
STEP, SETTLE = 0.5, 0.25
#: The usual rate of a source is its mean over about this many windows. Rates differ from it by powers of this factor:
#: within half a power, a source sends as usual.
USUAL_WINDOWS, FACTOR = 10.0, 1.25


@dataclass(frozen=True, slots=True)
class SiteInput:
    """An input of a site."""

    fragment: str  #: which fragment reads it
    query: str  #: of which query that is
    source: bool  #: whether it is a source, and not rows of another fragment


@dataclass(frozen=True, slots=True)
class SiteQuery:
    """A query that has a fragment at the site."""

    sources: int  #: how many sources it has in the whole federation
    importance: float = 1.0  #: a query of importance 2 gets twice the SIC


@dataclass(frozen=True, slots=True)
class Shares:
    """Keep shares of a batch at a site."""

    keep: dict[str, float]  #: the share of rows that each input keeps
    sic: dict[str, float]  #: the SIC of a row of each source
    give: dict[str, float]  #: the share that each query with sources here is given from now on


class SitePlanner:
    """Learns rates and costs of a site's inputs and decides the keep shares of each batch.

    With a capacity of 100 rows a second and twice as many:

    >>> inputs = {"cpu": SiteInput("f", "cov", source=True)}
    >>> planner = SitePlanner(inputs, {"cov": SiteQuery(sources=2)}, rows_per_s=100.0)
    >>> shares = planner.decide({"cpu": 400}, elapsed_s=2.0, known={})
    >>> shares.keep, shares.sic
    ({'cpu': 0.5}, {'cpu': 0.00025})

    Attributes:
        parts: The share of each query's sources that are read at this site.
        capacity: The work that fits.
    """

    def __init__(
        self,
        inputs: Mapping[str, SiteInput],
        queries: Mapping[str, SiteQuery],
        *,
        rows_per_s: float | None = None,
        busy_share: float = 0.8,
        window_s: float = 10.0,
        policy: Policy = "balance",
    ) -> None:
        """Plan for these inputs.

        Args:
            inputs: By name.
            queries: By name.
            rows_per_s: Capacity in rows a second; None: as many as fit into `busy_share` of its time.
            busy_share: Seconds of work in a second, at most.
            window_s: The source time window, over which rates are measured.
            policy: `balance`, or `random` for a shedder that knows of no query.
        """
        self.parts = _parts(inputs, queries)
        self._queries = dict(queries)
        self._inputs = _Inputs(inputs, queries, [one for one in self.parts if self.parts[one]])
        self._window_s, self._policy = window_s, policy
        self.capacity: SiteCapacity = (
            LearnedCapacity(self._inputs.fragments, busy_share) if rows_per_s is None else GivenCapacity(rows_per_s)
        )
        self.learn = self.capacity.learn  #: from the report of a batch
        self._rates = _Rates(window_s)
        self._give: dict[str, float] = {}
        self._debt, self._spare = ServiceDebt(len(self._inputs.here)), 0.0

    def waiting(self, rows: Mapping[str, int]) -> Shares:
        """Keep all of a batch whose rows have waited for an unknown time: they may not be too many."""
        inputs, self._give = self._inputs, dict.fromkeys(self._inputs.here, 1.0)
        sic = self._sic(inputs.counted(rows) / self._window_s)
        return Shares(dict.fromkeys(inputs.names, 1.0), inputs.sources_named(sic), dict(self._give))

    def decide(
        self, rows: Mapping[str, int], elapsed_s: float, known: Mapping[str, Known], *, waited: bool = False
    ) -> Shares:
        """What to keep of a batch.

        Args:
            rows: Rows in, by input.
            elapsed_s: Time over which they came.
            known: What other sites give, by query.
            waited: Whether they waited because the site was stopped, and are not to be thinned for their age.
        """
        elapsed_s, inputs = max(elapsed_s, 1e-3), self._inputs
        budget, count = self.capacity.per_s(elapsed_s), inputs.counted(rows)
        cost = np.array([self.capacity.cost(fragment) for fragment in inputs.fragments])
        rates = self._rates.learn(count, elapsed_s)
        work, sic = rates * cost, self._sic(rates)
        derived = float(work[~inputs.source].sum())
        demands = self._demands(work, known)
        if self._policy == "random":
            total = derived + sum(one.work for one in demands.values())
            passed = min(1.0, budget / total) if total else 1.0
            self._give = even_shares(demands, budget - passed * derived)
        else:
            passed = min(1.0, budget / derived) if derived else 1.0
            wanted = fair_shares(demands, max(budget - derived, 0.0))
            # Part of the way from the last shares, but never more than the budget.
            room, stay = max(budget - passed * derived, 0.0), 1.0 - min(elapsed_s / (SETTLE * self._window_s), STEP)
            step = {query: share + stay * (self._give.get(query, share) - share) for query, share in wanted.items()}
            needs = sum(demands[query].work * share for query, share in step.items())
            self._give = step if needs <= room else {query: share * room / needs for query, share in step.items()}
        keep = np.where(inputs.source, np.array([*self._give.values(), 1.0])[inputs.owner], passed)
        sheds = min(self._give.values(), default=1.0) < 1.0
        if self.capacity.tries(sheds=sheds):
            keep[inputs.source] = 1.0
        elif sheds and self._policy == "balance":
            keep[inputs.source] = self._served(sic * count, cost * count, elapsed_s, budget)
        else:
            self._spare = 0.0
        # What came over more than a window is too much for one: it is thinned, for freshness.
        fresh = 1.0 if waited else min(1.0, self._window_s / elapsed_s)
        keep = np.where(inputs.source & (work > 0.0), keep * fresh, keep)
        return Shares(dict(zip(inputs.names, keep.tolist(), strict=True)), inputs.sources_named(sic), dict(self._give))

    def _served(self, sic: Floats, work: Floats, elapsed_s: float, budget: float) -> Floats:
        """The share to keep of each source's rows of this batch, so that over time each query is given its share.

        What a batch does not use of its room is left for the next ones, up to a window's.
        """
        inputs, source = self._inputs, self._inputs.source
        room = max(budget * elapsed_s + self._spare - float(work[~source].sum()), 0.0)
        owner, own = inputs.owner[source], work[source]
        usual = np.where(self._rates.now[source] > 0.0, elapsed_s / (inputs.sources[source] * self._window_s), 0.0)
        due = np.array(list(self._give.values())) * np.bincount(owner, usual, len(self._give)).astype(np.float64)
        shares = self._debt.serve(due, elapsed_s, owner, (sic[source], own), self._rates.ranks()[source], room)
        self._spare = min(max(room - float(shares @ own), 0.0), budget * self._window_s)
        return shares.round(12)

    def _sic(self, rates: Floats) -> Floats:
        """Equation 1: a source's rows of one window share 1 / sources."""
        rows = self._inputs.sources * rates * self._window_s
        return np.divide(1.0, np.maximum(rows, 1.0), out=np.zeros_like(rows), where=rows > 0.0)

    def _demands(self, work: Floats, known: Mapping[str, Known]) -> dict[str, Demand]:
        inputs, nobody, found = self._inputs, Known(0.0, 0.0), dict[str, Demand]()
        own = np.bincount(inputs.owner[inputs.source], work[inputs.source], len(inputs.here)).tolist()
        for query, needs in zip(inputs.here, own, strict=True):
            told = known.get(query, nobody)
            peers = told.sites if query in self._give else 0
            give, importance = self._give.get(query, 0.0), self._queries[query].importance
            found[query] = Demand(needs, told.sic, min(told.part, 1.0 - self.parts[query]), importance, peers, give)
        return found


class _Inputs:
    """The inputs of a site as arrays."""

    def __init__(self, inputs: Mapping[str, SiteInput], queries: Mapping[str, SiteQuery], here: list[str]) -> None:
        self.names, self.here = list(inputs), here  # of inputs, and of queries that have sources here
        self.fragments = [one.fragment for one in inputs.values()]
        self.source = np.array([one.source for one in inputs.values()], np.bool_)
        self.sources = np.array([queries[one.query].sources for one in inputs.values()], np.float64)
        number = {query: at for at, query in enumerate(here)}
        self.owner = np.array([number.get(one.query, len(here)) for one in inputs.values()], np.int64)

    def counted(self, rows: Mapping[str, int]) -> Floats:
        return np.array([rows.get(name, 0) for name in self.names], np.float64)

    def sources_named(self, values: Floats) -> dict[str, float]:
        named = zip(self.names, values.tolist(), self.source.tolist(), strict=True)
        return {name: value for name, value, source in named if source}


class _Rates:
    """Rows a second of each input, over about the last window and over many."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._recent: deque[tuple[float, Floats]] = deque()
        self._in_window, self._usual, self._usual_s = np.zeros(0), np.zeros(0), 0.0
        self.now = np.zeros(0)

    def learn(self, count: Floats, elapsed_s: float) -> Floats:
        self._recent.append((elapsed_s, count))
        total_s = sum(one for one, _ in self._recent)
        self._in_window = self._in_window + count if len(self._recent) > 1 else count
        while len(self._recent) > 1 and total_s - self._recent[0][0] >= self._window_s:
            gone_s, gone = self._recent.popleft()
            total_s -= gone_s
            self._in_window = self._in_window - gone
        self.now = self._in_window / total_s
        self._usual_s = min(self._usual_s + elapsed_s, USUAL_WINDOWS * self._window_s)
        gain = min(elapsed_s / self._usual_s, 1.0)
        self._usual = (1.0 - gain) * self._usual + gain * count / elapsed_s if gain < 1.0 else count / elapsed_s
        return self.now

    def ranks(self) -> Floats:
        """How many times less than usual each input sends, as a power of `FACTOR`."""
        less = np.divide(
            self._usual, self.now, out=np.ones_like(self.now), where=(self.now > 0.0) & (self._usual > 0.0)
        )
        return FACTOR ** np.round(np.log(less) / math.log(FACTOR))


def _parts(inputs: Mapping[str, SiteInput], queries: Mapping[str, SiteQuery]) -> dict[str, float]:
    """The share of each query's sources that the inputs are."""
    own = dict.fromkeys(queries, 0)
    for one in inputs.values():
        own[one.query] += one.source
    return {query: min(count / queries[query].sources, 1.0) for query, count in own.items()}
