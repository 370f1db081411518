"""Plans for one site of a federation: keep shares of each input, from its own measurements and peer updates.

Rows from other sites have already cost work and are few: they are kept while capacity is left. `fair_shares` divides
the rest among the site's own sources. Shares move only part of the way at each batch, because several sites respond to
the same updates at the same time. The rows of a batch differ from the mean, so a batch is kept by the service debt of
its queries (`core.fairness.service_debt`), within the work that fits.

Each fragment has a capacity model (`core.control.capacity`), and so has the rest of a batch: the time per row is its
cost, and the overheads reduce the work that fits.
"""

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.core.control.capacity import LEAST_SHARE, Capacity, work_per_s
from penstock.core.fairness.service_debt import ServiceDebt
from penstock.core.fairness.sites.shares import Demand, even_shares, fair_shares
from penstock.messages.report import Known, Report

Policy = Literal["balance", "random"]

#: The maximum step of shares towards their goal per batch, and the minimum time of the whole way as a share of the
#: window, or short batches would respond to updates from before the last step.
STEP, SETTLE = 0.5, 0.25
#: While it is uncertain whether shedding shortens batches, everything is kept after this many batches, and again after
#: twice as many each time. It is uncertain if the standard error of the overhead is more than this share of the time
#: from batch to batch.
FIRST_TRY, IN_DOUBT = 4, 0.05
#: The fixed share of the time inside and outside fragments until more is known.
FIXED_INSIDE, FIXED_OUTSIDE = 0.5, 0.8


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
        self._inputs, self._queries = dict(inputs), dict(queries)
        self.parts = _parts(self._inputs, self._queries)
        self._rows_per_s, self._busy_share = rows_per_s, busy_share
        self._window_s, self._policy = window_s, policy
        self._recent: deque[tuple[float, Counter[str]]] = deque()
        self._in_window: Counter[str] = Counter()
        #: The learned times of batches: by fragment, and outside all of them.
        self.times = {one.fragment: Capacity(FIXED_INSIDE) for one in self._inputs.values()}
        self.outside = Capacity(FIXED_OUTSIDE)
        self._elapsed_s = self._took_s = 0.0  # of the last batch
        self._shed_for, self._try_after = 0, FIRST_TRY  # batches with shedding, and those before a try without
        self._give: dict[str, float] = {}
        self._spare = 0.0  # capacity that earlier batches did not use
        self._debt = ServiceDebt(sum(part > 0.0 for part in self.parts.values()))

    @property
    def counts_rows(self) -> bool:
        """Whether capacity is given in rows, so that nothing is learned of their costs."""
        return self._rows_per_s is not None

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms, one line each."""
        fixed_s, may_s = self._fixed_s, self._busy_share * self._elapsed_s
        if self._rows_per_s is not None or self._took_s <= may_s or fixed_s <= (1.0 - LEAST_SHARE) * may_s:
            return ()
        line = (
            f"batches take {self._took_s:.2f} s of {self._elapsed_s:.2f} s, at least {fixed_s:.2f} s of it without any "
            f"rows, so budget = {self._busy_share:.0%} is not held: give a longer interval, or fewer shuffle "
            "partitions"
        )
        return (line,)

    def waiting(self, rows: Mapping[str, int]) -> Shares:
        """Keep all of a batch whose rows have waited for an unknown time: they may not be too many."""
        counts = {name: max(rows.get(name, 0) / self._window_s, 0.0) for name in self._inputs}
        self._give = {query: 1.0 for query, part in self.parts.items() if part}
        return Shares(dict.fromkeys(self._inputs, 1.0), self._sic(counts), dict(self._give))

    def decide(
        self, rows: Mapping[str, int], elapsed_s: float, known: Mapping[str, Known], *, waited: bool = False
    ) -> Shares:
        """Keep shares of a batch.

        Args:
            rows: Rows in, by input.
            elapsed_s: Time over which they came.
            known: SIC at other sites, by query.
            waited: Whether they waited because the site was stopped, and must not be thinned by age.
        """
        elapsed_s = self._elapsed_s = max(elapsed_s, 1e-3)
        rates = self._rates(rows, elapsed_s)
        work = {name: rates[name] * self._cost(one.fragment) for name, one in self._inputs.items()}
        budget = self._budget(elapsed_s)
        derived = sum(work[name] for name, one in self._inputs.items() if not one.source)
        demands = self._demands(work, known)
        if self._policy == "random":
            total = derived + sum(one.work for one in demands.values())
            passed = min(1.0, budget / total) if total else 1.0
            give = even_shares(demands, budget - passed * derived)
        else:
            passed = min(1.0, budget / derived) if derived else 1.0
            give = self._towards(fair_shares(demands, max(budget - derived, 0.0)), demands, budget - passed * derived)
        self._give = give
        sic, served = self._sic(rates), give
        if self._tries(give):
            served = dict.fromkeys(give, 1.0)
        elif self._policy == "balance":
            served = self._served(rows, sic, elapsed_s, budget)
        # Rows of more than a window are too many for one: they are thinned, for freshness.
        fresh = 1.0 if waited else min(1.0, self._window_s / elapsed_s)
        keep = {
            name: served[one.query] * (fresh if work[name] else 1.0) if one.source else passed
            for name, one in self._inputs.items()
        }
        return Shares(keep, sic, dict(give))

    def _served(
        self, rows: Mapping[str, int], sic: Mapping[str, float], elapsed_s: float, budget: float
    ) -> dict[str, float]:
        """The keep share of this batch, so that each query gets its share over time.

        Unused capacity of a batch is left for the next ones, up to that of a window.
        """
        if min(self._give.values(), default=1.0) >= 1.0:
            self._spare = 0.0
            return self._give
        here = {query: at for at, query in enumerate(self._give)}
        usual, offered, work = np.zeros((3, len(here)))
        room = budget * elapsed_s + self._spare
        for name, one in self._inputs.items():
            count = rows.get(name, 0)
            if one.source:
                at = here[one.query]
                usual[at] += elapsed_s / (self._queries[one.query].sources * self._window_s) if sic[name] else 0.0
                offered[at] += count * sic[name]
                work[at] += count * self._cost(one.fragment)
            else:
                room -= count * self._cost(one.fragment)
        due = np.array(list(self._give.values())) * usual
        shares = self._debt.serve(due, elapsed_s, offered, work, max(room, 0.0))
        self._spare = min(max(room - float(shares @ work), 0.0), budget * self._window_s)
        return dict(zip(here, shares.round(12).tolist(), strict=True))

    def learn(self, report: Report) -> None:
        """Learn from the times of a batch: those of its fragments, and `overhead_s` for all the rest."""
        for fragment, box in report.boxes.items():
            if box.rows_in:
                self.times[fragment].learn(box.rows_in, box.busy_s)
        self._took_s = sum(box.busy_s for box in report.boxes.values()) + report.overhead_s
        self.outside.learn(sum(box.rows_in for box in report.boxes.values()), report.overhead_s)

    def _cost(self, fragment: str) -> float:
        """Work on a row: 1 if capacity is given in rows, otherwise seconds, 0 until known."""
        if self._rows_per_s is not None:
            return 1.0
        return self.times[fragment].unit_s + self.outside.unit_s if self.times[fragment].batches else 0.0

    @property
    def _fixed_s(self) -> float:
        """The time of a batch without rows."""
        return sum(one.overhead_s for one in self.times.values() if one.batches) + self.outside.overhead_s

    def _budget(self, elapsed_s: float) -> float:
        if self._rows_per_s is not None:
            return self._rows_per_s
        return work_per_s(self._busy_share, self._fixed_s, self._busy_share * elapsed_s)

    def _tries(self, give: dict[str, float]) -> bool:
        """Whether to keep everything once, because it is unknown whether shedding shortens batches."""
        if self._rows_per_s is not None or min(give.values(), default=1.0) >= 1.0:
            self._shed_for, self._try_after = 0, FIRST_TRY
            return False
        self._shed_for += 1
        in_doubt = math.hypot(*(one.doubt_s for one in self.times.values() if one.batches)) > IN_DOUBT * self._elapsed_s
        if not in_doubt or self._shed_for < self._try_after:
            return False
        self._shed_for, self._try_after = 0, 2 * self._try_after
        return True

    def _rates(self, rows: Mapping[str, int], elapsed_s: float) -> dict[str, float]:
        """Rows a second over about the last window."""
        self._recent.append((elapsed_s, Counter(rows)))
        total_s = sum(one for one, _ in self._recent)
        self._in_window.update(rows)
        while len(self._recent) > 1 and total_s - self._recent[0][0] >= self._window_s:
            gone_s, gone = self._recent.popleft()
            total_s -= gone_s
            self._in_window.subtract(gone)
        return {name: self._in_window[name] / total_s for name in self._inputs}

    def _sic(self, rates: Mapping[str, float]) -> dict[str, float]:
        """Equation 1: a source's rows of one window share 1 / sources."""
        return {
            name: min(1.0 / (self._queries[one.query].sources * rates[name] * self._window_s), 1.0)
            if rates[name]
            else 0.0
            for name, one in self._inputs.items()
            if one.source
        }

    def _demands(self, work: Mapping[str, float], known: Mapping[str, Known]) -> dict[str, Demand]:
        found: dict[str, Demand] = {}
        own, nobody = dict.fromkeys(self._queries, 0.0), Known(0.0, 0.0)
        for name, one in self._inputs.items():
            own[one.query] += work[name] if one.source else 0.0
        for query, part in self.parts.items():
            if part:
                told = known.get(query, nobody)
                peers = told.sites if query in self._give else 0
                give, importance = self._give.get(query, 0.0), self._queries[query].importance
                found[query] = Demand(own[query], told.sic, min(told.part, 1.0 - part), importance, peers, give)
        return found

    def _towards(self, wanted: dict[str, float], demands: Mapping[str, Demand], budget: float) -> dict[str, float]:
        """A step from the last shares, within the budget."""
        stay = 1.0 - min(self._elapsed_s / (SETTLE * self._window_s), STEP)
        step = {query: share + stay * (self._give.get(query, share) - share) for query, share in wanted.items()}
        work = sum(demands[query].work * share for query, share in step.items())
        budget = max(budget, 0.0)
        return step if work <= budget else {query: share * budget / work for query, share in step.items()}


def _parts(inputs: Mapping[str, SiteInput], queries: Mapping[str, SiteQuery]) -> dict[str, float]:
    """The share of each query's sources among the inputs."""
    own = dict.fromkeys(queries, 0)
    for one in inputs.values():
        own[one.query] += one.source
    return {query: min(count / queries[query].sources, 1.0) for query, count in own.items()}
