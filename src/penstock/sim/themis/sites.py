"""Sites as Penstock runs them, in a federation on virtual time: the planner of a site on Spark, and news between sites.

A shedding interval is a batch. The site's planner gets the batch's rows and the shares of other sites, and its plan has
the keep share of each input. Once a second the site sends its shares to the other hosts of its queries, which receive
them after the delay of their links. If queries differ in cost, costs are learned from the times of batches.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.core.fairness.input_buffer import Buffer, Decision, Known, within
from penstock.core.fairness.sites.decisions import SiteDecisions
from penstock.core.fairness.sites.peers import Peers
from penstock.core.fairness.sites.planner import SiteInput, SitePlanner, SiteQuery
from penstock.messages.plan import QueryShare
from penstock.messages.report import BoxStatistics, PlaceRows, Report
from penstock.messages.report import Known as Told
from penstock.messages.site_news import News
from penstock.sim.themis.deployment import Floats, Ints
from penstock.sim.themis.runs import Clock, Layout

#: Time between two messages of a site, for how long one is believed, and what sums may be off by.
TELL_S, EXPIRY_S, _ROUNDING = 1.0, 10.0, 1e-9


class Links:
    """News under way to the hosts of each query."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        where = layout.deployment
        late = clock.intervals(where.message_delay_s, np.zeros(len(where.fragment_query)))
        self._hosts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for query, site, steps in zip(
            where.fragment_query.tolist(), where.fragment_site.tolist(), late.tolist(), strict=True
        ):
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
        self._links, self._site, self._queries, self._parts = links, site, queries, parts
        self._peers, self._known = Peers(EXPIRY_S, parts), dict[str, Told]()

    def known(self, step: int, now_s: float) -> dict[str, Told]:
        """What other sites give, by query, with the updates that arrive in an interval."""
        if heard := self._links.heard(step, self._site):
            for news in heard:
                self._peers.hear(news, now_s)
            self._known = {query: self._peers.known(query, now_s) for query in map(str, self._queries)}
        return self._known

    def tell(self, step: int, given: Sequence[QueryShare], now_s: float) -> None:
        """Send the site's shares to the other hosts."""
        for query, one in zip(self._queries, given, strict=True):
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


class SiteShedder:
    """One site of a federation."""

    name = "penstock"

    def __init__(self, layout: Layout, clock: Clock, links: Links, site: int) -> None:
        where, here = layout.deployment, layout.sites[site]
        self._clock, self._grain = clock, where.sources.grain
        self._queries = where.fragment_query[here.fragments].tolist()
        names = [str(query) for query in self._queries]
        # The inputs in the order of their numbers: groups of sources, then rows of other sites for each query.
        sources = {f"{names[one]} source {at}": names[one] for at, one in enumerate(here.group_owner.tolist())}
        self._inputs = [*sources, *(f"{name} in" for name in names)]
        given = {name: SiteInput(query, query, source=True) for name, query in sources.items()}
        given |= {f"{names[one]} in": SiteInput(names[one], names[one], source=False) for one in {*here.sender_owner}}
        counts = where.query_fragments if where.sources.steady else where.query_sources
        alike = bool((where.query_cost == 1.0).all())
        self.planner = SitePlanner(
            given,
            {str(query): SiteQuery(int(counts[query])) for query in self._queries},
            rows_per_s=float(where.capacity[site]) if alike else None,
            busy_share=1.0,
            window_s=clock.stw_s,
        )
        self._decisions = SiteDecisions(self.planner, "balance")
        self._updates = _PeerUpdates(links, site, self._queries, self.planner.parts)
        self._seconds = where.query_cost[self._queries] / where.capacity[site]  # of work on a row, by fragment
        self._whole, self._worked = _WholeTuples(len(self._inputs)), np.zeros(len(names))
        self._step = 0

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:  # noqa: ARG002 - it has news
        """Keep of each input the share that the planner says, and no more than there is capacity."""
        grains = np.where(buffer.derived, 1, self._grain)
        first = len(self._inputs) - len(self._queries)
        number = np.where(buffer.derived, first + buffer.owner, buffer.place)
        came = np.bincount(number, buffer.tuples * grains, minlength=len(self._inputs)).astype(int).tolist()
        plan = self._decisions.plan(self._arrived(came, now_s), now_s)
        shares = {drop.place: drop.keep for drop in plan.drops}
        keep = np.array([shares.get(one, 1.0) for one in self._inputs])
        kept = self._whole.of(keep[number] * buffer.tuples, number)
        # A site on Spark would take longer over a batch that is too much for its interval; here its sources lose rows.
        derived = float((kept * buffer.work)[buffer.derived].sum())
        if derived < capacity:
            spared = np.where(buffer.derived, 0.0, buffer.work)
            kept = np.where(buffer.derived, kept, within(kept, replace(buffer, work=spared), capacity - derived))
        kept = within(kept, buffer, capacity)
        self._worked += np.bincount(buffer.owner, kept * grains, len(self._queries))
        every = max(round(TELL_S / self._clock.interval_s), 1)
        self._step += 1
        if self._step % every == 0:
            self._updates.tell(self._step - 1, plan.queries, now_s)
            self._learn(self._worked / every)
            self._worked[:] = 0.0
        return Decision(kept)

    def _arrived(self, came: Sequence[int], now_s: float) -> Report:
        """The report of a batch that is about to run."""
        rows = {name: PlaceRows(count, count) for name, count in zip(self._inputs, came, strict=True) if count}
        return Report(
            sequence=self._step,
            start_s=now_s,
            end_s=now_s,
            elapsed_s=self._clock.interval_s,
            rows_in=sum(came),
            rows_kept=sum(came),
            sources=rows,
            peers=self._updates.known(self._step, now_s),
        )

    def _learn(self, worked: Floats) -> None:
        """Send the planner the time of one batch since the last time; sending each would change little."""
        rows, seconds = worked.astype(int).tolist(), (worked * self._seconds).tolist()
        boxes = {
            str(query): BoxStatistics(count, 0, busy_s)
            for query, count, busy_s in zip(self._queries, rows, seconds, strict=True)
        }
        self.planner.learn(Report(sequence=self._step, start_s=0.0, end_s=0.0, rows_in=0, rows_kept=0, boxes=boxes))
