"""Schedules of networks and sites: the process that plans also binds and runs the batches."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.control.planner import SOURCE
from penstock.core.fairness.sites.decisions import SiteDecisions
from penstock.core.fairness.sites.peers import Peers
from penstock.core.fairness.sites.planner import SiteInput, SitePlanner, SiteQuery
from penstock.core.loop.events import BatchEnded, Began, Misread
from penstock.errors import PenstockError
from penstock.federation.account import AccountLog, BatchAccount, site_report
from penstock.federation.exchange import Inbox, Outbox
from penstock.federation.parcel import Parcel
from penstock.messages.report import BoxStatistics, PlaceRows, added
from penstock.messages.site_news import News
from penstock.sim.chaos.faults import FaultyStore, clumsy, require
from penstock.sim.chaos.query import KEEP, MOST_BATCHES, PURGE_EVERY, ROWS, Fickle, Kinds, Query, check_start
from penstock.sim.chaos.world import OwnBatches
from penstock.sim.driver import remembering
from penstock.store.bound_plans import BoundPlans, SitePlans
from penstock.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.messages.plan import Plan
    from penstock.messages.report import Report
    from penstock.sim.chaos.faults import Chance

STAGES = ("inputs", "later")
LINK = "link"
#: The part of its query's sources that the other site reads.
PART = 0.5


class Stages(OwnBatches[BoundPlans]):
    """A network of two stages, which are bound to plans of one log."""

    def __init__(self, chance: Chance, kinds: Kinds) -> None:
        """Begin."""
        plans = FaultyStore(chance, "plans")
        super().__init__(chance, kinds, [Query(name, chance, plans) for name in STAGES])
        self._in_doubt, self._tried = False, set[tuple[str, int]]()

    def start(self) -> BoundPlans:
        """The plans of a network that starts."""
        self._in_doubt = False
        planner, plans = Fickle(self.chance, drops=True), self.queries["inputs"].plans
        began = None if self.chance.faulty else Began(self.now_s, plans.latest())
        self._loop = self.kinds.loop(planner, "", purge_every=PURGE_EVERY)
        logs = {name: query.bindings for name, query in self.queries.items()}
        process = self.kinds.stages(plans, logs, self._loop, clock=lambda: self.now_s, keep=KEEP)
        clumsy(process._driver, self.chance)  # noqa: SLF001 - the faults lie between loop and driver
        if began is not None:
            check_start(planner, Fickle(self.chance, drops=True), "", began)
        return process

    def settle(self) -> None:
        """What is decided is written."""
        require(self._loop.newest is self._loop.in_force, "what is decided is written")

    def stop(self) -> list[str]:
        """The network stops: its last plan drops nothing."""
        if self.process is not None:
            self.process.stop()
            self.check()
            require(not (self.process.newest and self.process.newest.drops), "rows pass when planning has ended")
        return super().stop()

    def run(self, process: BoundPlans) -> None:
        """Run a batch of a stage; a stage behind the others gets rows rarely, and its batches are replayed late."""
        query = self.queries["later" if self.chance.happens(0.1) else "inputs"]
        batch = query.attempt()
        plan = self._judging(process, query, batch)
        query.judged(batch, plan, known=plan is not None)
        if self.committed(query, batch) and query.name == "inputs":
            self._plan(process, batch)

    def _judging(self, plans: BoundPlans, query: Query, batch: int) -> Plan | None:
        """The plan of a batch; None if it cannot be known."""
        first = (query.name, batch) not in self._tried
        self._tried.add((query.name, batch))
        try:
            plan = plans.of(query.name, batch)
        except PenstockError:
            bound = None if self.chance.faulty else query.bindings.get(batch)
            lost = bound is not None and not query.torn(bound.plan_version)
            require(not lost, "the plan of a batch stays as long as Spark may run it again")
            return None
        query.bound(batch)
        require(not (first and self._in_doubt and plan.drops), "no batch is bound to drops in doubt")
        return plan

    def _plan(self, plans: BoundPlans, batch: int) -> None:
        if not self.chance.calmed and self.chance.happens(0.1, "progress unreadable"):
            self._in_doubt = True
        else:
            try:
                plans.handle(BatchEnded(self.now_s, batch, site_report(batch, self.now_s, 0.0, {})))
                self._in_doubt = False
            except StoreError:
                self._in_doubt = False  # It is understood, and written later.
            except PenstockError:
                self._in_doubt = True
        if self._in_doubt:
            with suppress(PenstockError):
                plans.handle(Misread(self.now_s))

    def check(self) -> None:
        """What holds after every step."""
        for query in self.queries.values():
            query.check(None if self.process is None else self.process.newest)


class _Site(NamedTuple):
    """A running site."""

    plans: SitePlans
    inbox: Inbox
    outbox: Outbox
    peers: Peers


class Site(OwnBatches[_Site]):
    """A site with a source and a link from another site, which plans each batch before it runs."""

    short_end = 2 * PURGE_EVERY  # A batch reads what came while the site was down, and the one after it deletes that.

    def __init__(self, chance: Chance, kinds: Kinds) -> None:
        """Begin."""
        self._query = Query("site", chance)
        super().__init__(chance, kinds, [self._query])
        self._accounts = remembering(AccountLog(FaultyStore(chance, "accounts")))
        self._boxes = FaultyStore(chance, "inbox"), FaultyStore(chance, "outbox")
        self._sends = chance.happens(0.5)
        self._sent: list[tuple[Parcel, list[str]]] = []  # what the other site has sent: parts of batches, in order
        self._files: dict[int, list[str]] = {}  # of the link, by batch, as Spark's checkpoint has them
        self._read: dict[int, list[str]] = {}  # rows of the link, by batch

    def start(self) -> _Site:
        """A site that starts."""
        inputs = {SOURCE: SiteInput("f", "q", source=True), LINK: SiteInput("f", "q", source=False)}
        planner = SitePlanner(inputs, {"q": SiteQuery(sources=2)}, rows_per_s=self.chance.choice([2.0, 8.0, 100.0]))
        loop = self.kinds.loop(SiteDecisions(planner, "balance"), "", purge_every=PURGE_EVERY)
        logs = self._query.plans, self._query.bindings, self._accounts
        plans = self.kinds.site(*logs, loop, clock=lambda: self.now_s, tell=lambda _: None, keep=KEEP)
        clumsy(plans._driver, self.chance)  # noqa: SLF001 - the faults lie between loop and driver
        inbox, outbox = self.kinds.inbox(self._boxes[0]), Outbox(self._boxes[1], "here", "f", 1)
        return _Site(plans, inbox, outbox, Peers(10.0, {"q": 1.0 - PART}))

    def settle(self) -> None:
        """Every batch has a plan of its own, so nothing is left to be written."""

    def step(self) -> None:
        """The other site sends a batch, in one part or two, and this one runs a batch."""
        batch, parts = len(self._sent), self.chance.choice([1, 2])
        for part in range(parts):
            lines = [json.dumps({"a": f"{batch}.{part}.{row}"}) for row in range(self.chance.choice([0, 1, 3]))]
            self._sent.append((Parcel("east", "g", 1, batch, part, parts, len(lines), 0.5), lines))
        super().step()

    calm_step = step

    def run(self, process: _Site) -> None:
        """Run a batch."""
        batch = self._query.batch
        self._hear(process.peers)
        with suppress(StoreError):
            self._deliver(process.inbox)
        last = self._accounts.get(batch - 1)
        if last is not None and last.total.links[LINK].mark:  # The batch is complete: its files are not needed.
            process.inbox.forget(last.total.links[LINK].mark)
        files = self._files.setdefault(batch, self._new_files(process.inbox))
        rows = self._rows_of(batch, files)
        plan = self._planned(process, batch, len(rows))
        kept = self._query.judged(batch, plan, known=plan is not None)
        mark = max(files, default="").removesuffix(".json")
        report = self._account(batch, {SOURCE: PlaceRows(ROWS, sum(kept)), LINK: _linked(plan, len(rows), mark)})
        if self._sends:
            lines = [json.dumps({"row": row}) for row, one in enumerate(kept) if one]
            require(process.outbox.put(batch, lines, 0.5) == [sum(kept)], "a replay sends the same rows")
        process.plans.learn(replace(report, boxes={"f": BoxStatistics(sum(kept), sum(kept), 0.1)}))
        self.committed(self._query, batch)

    def _deliver(self, inbox: Inbox) -> None:
        """The link delivers what is new, and at times what was delivered before."""
        begin = inbox.position
        if begin and self.chance.happens(0.2, "link resent"):
            begin -= self.chance.choice([1, min(3, begin), begin])
        late = self.chance.happens(0.3, "link late")
        for position in range(begin, len(self._sent) - late):
            inbox.take(*self._sent[position])
            inbox.read_up_to(position + 1)

    def _hear(self, peers: Peers) -> None:
        number = len(self._sent) - self.chance.choice([0, 0, 1, 5])  # Some come late, or twice.
        peers.hear(News("east", "q", 0.5, PART, None, 1, max(number, 0), 0.0), self.now_s)
        known = peers.known("q", self.now_s)
        require(known.sic <= known.part <= PART, "peers give no more of a query than they have")

    def _new_files(self, inbox: Inbox) -> list[str]:
        read = {name for files in self._files.values() for name in files}
        return [name for name in inbox.files() if name not in read]

    def _rows_of(self, batch: int, files: list[str]) -> list[str]:
        pieces = self._boxes[0].pieces()
        require(all(name in pieces for name in files), "a file stays until its batch is committed")
        lines = [line for name in files for line in pieces[name].decode().splitlines()]
        rows = [row["row"]["a"] for line in lines if "row" in (row := json.loads(line))]
        require(self._read.setdefault(batch, rows) == rows, "a replay reads the same rows")
        return rows

    def _planned(self, process: _Site, batch: int, linked: int) -> Plan | None:
        """The plan of a batch, as a site finds it; None if its binding cannot be known."""
        if self._accounts.taken(batch) and not process.plans.bound(batch):
            return None

        def refused(error: Exception) -> None:
            if isinstance(error, StoreError) and self._sends:
                raise PenstockError("the plan cannot be written") from None

        places = {SOURCE: PlaceRows(ROWS, ROWS), LINK: _linked(None, linked, "")}
        known = {"q": process.peers.known("q", self.now_s)}
        came = replace(site_report(batch, self.now_s, 2.0, places), peers=known)
        try:
            plan = process.plans.of(batch, "", lambda: came, refused)
        except StoreError as error:
            refused(error)
            return None
        except PenstockError:
            self._query.mend(batch)
            raise
        self._query.bound(batch)
        if plan.drops:
            self._query.check(plan)
        return plan

    def _account(self, batch: int, places: Mapping[str, PlaceRows]) -> Report:
        """The account of a batch is written once."""
        last = self._accounts.get(batch - 1)
        report = site_report(batch, self.now_s, 2.0, places)
        total = added(report, *([last.total] if last else []))
        self._accounts.add(batch, BatchAccount("here", 1, report, total))
        return report

    def check(self) -> None:
        """What holds after every step."""
        self._query.check(None)

    def end(self) -> None:
        """Nothing fails any more: each row of the link was read once, in order, and little is left."""
        super().end()
        read = [row for batch in sorted(self._read) for row in self._read[batch]]
        sent = [json.loads(line)["a"] for _, lines in self._sent for line in lines]
        require(read == sent[: len(read)], "a link delivers each row once, in order")
        require(len(self._accounts.versions()) <= MOST_BATCHES, "accounts do not grow with batches")
        require(len(self._boxes[0].pieces()) <= 3 * PURGE_EVERY, "an inbox does not grow with batches")


def _linked(plan: Plan | None, rows: int, mark: str) -> PlaceRows:
    """The rows of the link, of which a plan keeps some."""
    drop = None if plan is None else plan.drop(LINK)
    kept = rows if drop is None else round(rows * drop.keep)
    return PlaceRows(rows, kept, sender="east.g", mark=mark)
