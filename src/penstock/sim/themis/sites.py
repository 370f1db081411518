"""Sites as Penstock runs them, in a federation on virtual time: loop, planner, binder and logs of a site on Spark.

A shedding interval is a batch. The site's planner gets the batch's rows and the shares of other sites, and its plan has
the keep share of each input. The plan is stored and the batch bound to it before it acts. A batch with more work than
its interval has time for ends late: if the next interval is over by then, its rows wait. Once a second the site sends
its shares to the other hosts of its queries, which receive them after the delay of their links. If queries differ in
cost, costs are learned from the times of batches.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.core.fairness.input_buffer import Buffer, Decision, Known
from penstock.core.fairness.sites.decisions import SiteDecisions
from penstock.core.fairness.sites.peers import Peers
from penstock.core.fairness.sites.planner import SiteInput, SitePlanner, SiteQuery
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.messages.plan import QueryShare
from penstock.messages.report import BoxStatistics, PlaceRows, Report
from penstock.messages.report import Known as Told
from penstock.messages.site_news import News
from penstock.sim.driver import Plans
from penstock.sim.themis.deployment import Floats, Ints
from penstock.sim.themis.runs import Clock, Layout
from penstock.store.bound_plans import SitePlans
from penstock.store.logs import BindingLog
from penstock.store.memory import MemoryStore

#: Time between two messages of a site, for how long one is believed, and what sums may be off by.
TELL_S, EXPIRY_S, _ROUNDING = 1.0, 10.0, 1e-9
#: Rows of each query in the batches that a site has run before: it begins with learned costs.
LEARNED = 5 * (50, 100, 150, 200)


class Links:
    """News under way to the hosts of each query."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        where = layout.deployment
        late = clock.intervals(where.message_delay_s, np.zeros(len(where.fragment_query)))
        self._hosts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        fragments = where.fragment_query.tolist(), where.fragment_site.tolist(), late.tolist()
        for query, site, steps in zip(*fragments, strict=True):
            self._hosts[query].append((site, steps))
        self._under_way: dict[tuple[int, int], list[News]] = defaultdict(list)

    def send(self, step: int, site: int, query: int, news: News) -> None:
        """Send an update to the other hosts of a query."""
        for host, steps in self._hosts[query]:
            if host != site:
                self._under_way[step + steps, host].append(news)

    def heard(self, step: int, site: int) -> list[News]:
        """Updates that a site receives in an interval."""
        return self._under_way.pop((step, site), [])


class _PeerUpdates:
    """What a site and the other hosts of its queries tell each other."""

    def __init__(self, links: Links, site: int, queries: Sequence[int], parts: dict[str, float]) -> None:
        self._links, self._site, self._parts = links, site, parts
        self.queries = queries  #: that have a fragment here
        self._peers, self._known = Peers(EXPIRY_S, parts), dict[str, Told]()

    def known(self, step: int, now_s: float) -> dict[str, Told]:
        """What other sites give, by query, with the updates that arrive in an interval."""
        if heard := self._links.heard(step, self._site):
            for news in heard:
                self._peers.hear(news, now_s)
            self._known = {query: self._peers.known(query, now_s) for query in map(str, self.queries)}
        return self._known

    def tell(self, step: int, given: Sequence[QueryShare], now_s: float) -> None:
        """Send the site's shares to the other hosts."""
        for query, one in zip(self.queries, given, strict=True):
            news = News(str(self._site), one.query, one.give, self._parts[one.query], None, 1, step + 1, now_s)
            self._links.send(step, self._site, query, news)


class _WholeTuples:
    """Rounds tuples to keep; what rounding leaves of an input counts in the next interval."""

    def __init__(self, inputs: int) -> None:
        self._left_over = np.zeros(inputs)

    def of(self, wanted: Floats, number: Ints) -> Ints:
        """Whole tuples to keep of each batch, which has the number of its input."""
        order = np.argsort(number, kind="stable")
        ends = np.cumsum(wanted[order])
        firsts = np.flatnonzero(np.diff(number[order], prepend=-1))
        lengths = np.diff(firsts, append=len(order))
        ends += np.repeat(self._left_over[number[order][firsts]] - (ends - wanted[order])[firsts], lengths) + _ROUNDING
        kept = np.empty(len(order), np.int64)
        kept[order] = np.floor(ends) - np.floor(ends - wanted[order])
        lasts = firsts + lengths - 1
        self._left_over[number[order][lasts]] = np.maximum(ends[lasts] % 1.0 - _ROUNDING, 0.0)
        return kept


class _Work:
    """When a site is done with its batches, and what they cost."""

    def __init__(self, queries: Sequence[int], seconds: Floats) -> None:
        """Begin with nothing to do; `seconds` has the work on a row of each query."""
        self._queries, self._seconds = queries, seconds
        self.free_s = 0.0  #: when the last batch is done

    def do(self, now_s: float, rows: Ints) -> None:
        """Run a batch with these rows of each query, at once or when the one before is done."""
        self.free_s = max(self.free_s, now_s) + float(rows @ self._seconds)

    def report(self, number: int, rows: Ints) -> Report:
        """The report of a batch that has run with these rows of each query."""
        each = zip(self._queries, rows.tolist(), (rows * self._seconds).tolist(), strict=True)
        boxes = {str(query): BoxStatistics(count, 0, busy_s) for query, count, busy_s in each}
        return Report(sequence=number, start_s=0.0, end_s=0.0, rows_in=0, rows_kept=0, boxes=boxes)


class SiteShedder:
    """One site of a federation.

    Attributes:
        planner: What it has learned.
        plans: Its loop, and the bindings of its batches.
        work: What its batches take.
    """

    name = "penstock"

    def __init__(self, layout: Layout, clock: Clock, links: Links, site: int) -> None:
        where, here = layout.deployment, layout.sites[site]
        self._interval_s, self._grain = clock.interval_s, where.sources.grain
        queries = where.fragment_query[here.fragments].tolist()
        names = [str(query) for query in queries]
        # The inputs in the order of their numbers: groups of sources, then rows of other sites for each query.
        sources = {f"{names[one]} source {at}": names[one] for at, one in enumerate(here.group_owner.tolist())}
        self._inputs = [*sources, *(f"{name} in" for name in names)]
        given = {name: SiteInput(query, query, source=True) for name, query in sources.items()}
        given |= {f"{names[one]} in": SiteInput(names[one], names[one], source=False) for one in {*here.sender_owner}}
        counts = where.query_fragments if where.sources.steady else where.query_sources
        alike = bool((where.query_cost == 1.0).all())
        self.planner = SitePlanner(
            given,
            {str(query): SiteQuery(int(counts[query])) for query in queries},
            rows_per_s=float(where.capacity[site]) if alike else None,
            busy_share=1.0,
            window_s=clock.stw_s,
        )
        loop = Loop(SiteDecisions(self.planner, "balance"), "")
        self._now_s = self._planned_s = 0.0
        logs = Plans(), BindingLog(MemoryStore()), BindingLog(MemoryStore())  # the last one for accounts: none are kept
        self.plans = SitePlans(*logs, loop, tell=_refuse, clock=lambda: self._now_s)
        self._updates = _PeerUpdates(links, site, queries, self.planner.parts)
        self.work = _Work(queries, where.query_cost[queries] / where.capacity[site])
        self._whole, self._step = _WholeTuples(len(self._inputs)), 0
        for rows in LEARNED:
            self.plans.learn(self.work.report(0, np.full(len(queries), rows)))

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - it has news
        """Keep of each input the share that its plan says; while the batch before runs, all rows wait."""
        self._now_s = now_s
        step, self._step = self._step, self._step + 1
        peers = self._updates.known(step, now_s)
        if self.work.free_s >= now_s + self._interval_s:
            return Decision(np.zeros_like(buffer.tuples), waits=True)
        grains = np.where(buffer.derived, 1, self._grain)
        queries = self._updates.queries
        number = np.where(buffer.derived, len(self._inputs) - len(queries) + buffer.owner, buffer.place)
        came = np.bincount(number, buffer.tuples * grains, minlength=len(self._inputs)).astype(int).tolist()
        plan = self.plans.of(step, "", lambda: self._arrived(step, came, peers), _refuse)
        shares = {drop.place: drop.keep for drop in plan.drops}
        keep = np.array([shares.get(one, 1.0) for one in self._inputs])
        kept = self._whole.of(keep[number] * buffer.tuples, number)
        rows = np.bincount(buffer.owner, kept * grains, len(queries)).astype(int)
        self.work.do(now_s, rows)
        if self._step % max(round(TELL_S / self._interval_s), 1) == 0:
            self._updates.tell(step, plan.queries, now_s)
            self.plans.learn(self.work.report(step, rows))  # To learn from every batch would change little.
        return Decision(kept)

    def _arrived(self, step: int, came: Sequence[int], peers: Mapping[str, Told]) -> Report:
        """The report of a batch that is about to run."""
        rows = {name: PlaceRows(count, count) for name, count in zip(self._inputs, came, strict=True) if count}
        before_s, self._planned_s = self._planned_s, self._now_s
        return Report(
            sequence=step,
            start_s=self._now_s,
            end_s=self._now_s,
            elapsed_s=self._now_s - before_s,
            rows_in=sum(came),
            rows_kept=sum(came),
            sources=rows,
            peers=peers,
        )


def _refuse(met: Exception | str) -> None:
    """Fail: on virtual time every plan can be written."""
    raise met if isinstance(met, Exception) else PenstockError(met)
