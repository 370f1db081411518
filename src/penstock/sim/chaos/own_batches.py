"""Schedules of networks and sites: the process that plans also binds and runs the batches."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.core.control.planner import SOURCE
from penstock.core.fairness.sites.decisions import SiteDecisions
from penstock.core.fairness.sites.peers import Peers
from penstock.core.fairness.sites.planner import SiteInput, SitePlanner, SiteQuery
from penstock.core.loop.events import BatchEnded, Misread
from penstock.errors import PenstockError
from penstock.federation.account import AccountLog, BatchAccount, site_report
from penstock.federation.exchange import Inbox, Outbox
from penstock.federation.parcel import Parcel
from penstock.messages.report import PlaceRows, added
from penstock.messages.site_news import News
from penstock.sim.chaos.faults import Died, FaultyStore, Plans, Remembering, require
from penstock.sim.chaos.query import KEEP, PURGE_EVERY, ROWS, Fickle, Kinds, Query
from penstock.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.messages.plan import Plan
    from penstock.messages.report import Report
    from penstock.sim.chaos.faults import Chance
    from penstock.store.bound_plans import BoundPlans, SitePlans

STAGES = ("inputs", "later")
LINK = "link"
#: The part of its query's sources that the other site reads.
PART = 0.5


class _Own(ABC):
    """A process that plans and runs the batches of its queries; it is restarted when it has died."""

    def __init__(self, chance: Chance, kinds: Kinds) -> None:
        self.chance, self._kinds = chance, kinds
        self.now_s, self.runs = 1e6, 0

    @property
    @abstractmethod
    def queries(self) -> dict[str, Query]:
        """The queries, by name."""

    @abstractmethod
    def _restart(self) -> None:
        """Begin in a new process."""

    @abstractmethod
    def _run(self) -> None:
        """Run a batch."""

    @abstractmethod
    def check(self) -> None:
        """What holds after every move."""

    def move(self) -> None:
        """One thing happens."""
        self.now_s += self.chance.choice([0.0, 0.1, 1.0, 2.0, 12.0, 40.0])
        if self.chance.happens(0.03, "clock set back"):
            self.now_s -= 600.0
        for query in self.queries.values():
            query.catch_up()
        self.chance.change()
        self._survives()
        self.check()

    def _survives(self) -> None:
        """Run a batch; a process that died, or could not start, starts again."""
        try:
            self._run()
        except Died:
            self.chance.counts["process that runs batches restarted"] += 1
            self._restart()
        except PenstockError:
            self.chance.counts["batch failed"] += 1
            self._restart()

    def end(self) -> None:
        """Nothing fails any more: of a long run little is left."""
        with self.chance.calm():
            self._restart()
            for _ in range(2 * PURGE_EVERY):
                self.now_s += 1.0
                self._survives()
                self.check()
            for query in self.queries.values():
                query.end()


class Stages(_Own):
    """A network of two stages, which are bound to plans of one log."""

    def __init__(self, chance: Chance, kinds: Kinds) -> None:
        """Begin."""
        super().__init__(chance, kinds)
        plans = Plans(FaultyStore(chance, "plans"))
        self._queries = {name: Query(name, chance, plans) for name in STAGES}
        self._plans: BoundPlans | None = None
        self._in_doubt, self._tried = False, set[tuple[str, int]]()
        self._restart()

    @property
    def queries(self) -> dict[str, Query]:
        """Its stages."""
        return self._queries

    def _restart(self) -> None:
        self.chance.dying, self._plans, self._in_doubt = False, None, False
        loop = self._kinds.loop(Fickle(self.chance, drops=True), "", purge_every=PURGE_EVERY)
        logs = {name: query.bindings for name, query in self._queries.items()}
        plans = self._queries["inputs"].plans
        with suppress(PenstockError):  # Else the network does not start yet.
            self._plans = self._kinds.stages(plans, logs, loop, clock=lambda: self.now_s, keep=KEEP)

    def _run(self) -> None:
        if self._plans is None:
            self._restart()
            return
        # A stage behind the others gets rows rarely, and its batches are replayed late.
        query = self._queries["later" if self.chance.happens(0.1) else "inputs"]
        batch = query.attempt()
        plan, known = self._judging(self._plans, query, batch)
        query.judged(batch, plan, known=known)
        self.runs += 1
        if batch != query.batch or self.chance.happens(0.25, "query died before commit"):
            return
        query.batch += 1
        if query.name == "inputs":
            self._plan(self._plans, batch)

    def _judging(self, plans: BoundPlans, query: Query, batch: int) -> tuple[Plan | None, bool]:
        first = (query.name, batch) not in self._tried
        self._tried.add((query.name, batch))
        try:
            plan = plans.of(query.name, batch)
        except PenstockError:
            bound = None if self.chance.faulty else query.bindings.get(batch)
            lost = bound is not None and not query.torn(bound.plan_version)
            require(not lost, "the plan of a batch stays as long as Spark may run it again")
            return None, False
        bound = query.bindings.get(batch) if not self.chance.faulty else None
        if bound is not None:
            query.found(bound)
        require(not (first and self._in_doubt and plan.drops), "no batch is bound to drops in doubt")
        return plan, True

    def _plan(self, plans: BoundPlans, batch: int) -> None:
        if self.chance.happens(0.1, "progress unreadable"):
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
        """What holds after every move."""
        for query in self._queries.values():
            query.check(None if self._plans is None else self._plans.newest)


class Accounts(Remembering, AccountLog):
    """The accounts of a schedule."""


@dataclass
class Transport:
    """What another site sends: parts of batches, in order, each at least once."""

    chance: Chance
    parts: list[tuple[Parcel, list[str]]] = field(default_factory=list)

    def send(self) -> None:
        """The other site sends a batch, in one part or two."""
        batch, parts = len(self.parts), self.chance.choice([1, 2])
        for part in range(parts):
            lines = [json.dumps({"a": f"{batch}.{part}.{row}"}) for row in range(self.chance.choice([0, 1, 3]))]
            self.parts.append((Parcel("east", "g", 1, batch, part, parts, len(lines), 0.5), lines))

    def deliver(self, inbox: Inbox) -> None:
        """Deliver what is new, and at times what was delivered before."""
        begin = inbox.position
        if begin and self.chance.happens(0.2, "link resent"):
            begin -= self.chance.choice([1, min(3, begin), begin])
        late = self.chance.happens(0.3, "link late")
        for position in range(begin, len(self.parts) - late):
            inbox.take(*self.parts[position])
            inbox.read_up_to(position + 1)


@dataclass
class _Process:
    """A running site."""

    plans: SitePlans
    planner: SitePlanner
    inbox: Inbox
    outbox: Outbox
    peers: Peers


class Site(_Own):
    """A site with a source and a link from another site, which plans each batch before it runs."""

    def __init__(self, chance: Chance, kinds: Kinds) -> None:
        """Begin."""
        super().__init__(chance, kinds)
        self._query = Query("site", chance)
        self._accounts = Accounts(FaultyStore(chance, "accounts"))
        self._boxes = FaultyStore(chance, "inbox"), FaultyStore(chance, "outbox")
        self._link, self._sends = Transport(chance), chance.happens(0.5)
        self._files: dict[int, list[str]] = {}  # of the link, by batch, as Spark's checkpoint has them
        self._read: dict[int, list[str]] = {}  # rows of the link, by batch
        self._process: _Process | None = None
        self._restart()

    @property
    def queries(self) -> dict[str, Query]:
        """Its one query."""
        return {"site": self._query}

    def _restart(self) -> None:
        self.chance.dying, self._process = False, None
        inputs = {SOURCE: SiteInput("f", "q", source=True), LINK: SiteInput("f", "q", source=False)}
        planner = SitePlanner(inputs, {"q": SiteQuery(sources=2)}, rows_per_s=self.chance.choice([2.0, 8.0, 100.0]))
        loop = self._kinds.loop(SiteDecisions(planner, "balance"), "", purge_every=PURGE_EVERY)
        logs = self._query.plans, self._query.bindings, self._accounts
        with suppress(PenstockError):  # Else the site does not start yet.
            plans = self._kinds.site(*logs, loop, clock=lambda: self.now_s, tell=lambda _: None, keep=KEEP)
            inbox = self._kinds.inbox(self._boxes[0])
            outbox = Outbox(self._boxes[1], "here", "f", 1)
            self._process = _Process(plans, planner, inbox, outbox, Peers(10.0, {"q": 1.0 - PART}))

    def _run(self) -> None:
        self._link.send()
        if self._process is None:
            self._restart()
            return
        process, batch = self._process, self._query.batch
        self._hear(process.peers)
        with suppress(StoreError):
            self._link.deliver(process.inbox)
        self._forget(process.inbox, batch)
        files = self._files.setdefault(batch, self._new_files(process.inbox))
        rows = self._rows_of(batch, files)
        plan, known = self._planned(process, batch, len(rows))
        kept = self._query.judged(batch, plan, known=known)
        self.runs += 1
        mark = max(files, default="").removesuffix(".json")
        report = self._account(batch, {SOURCE: PlaceRows(ROWS, sum(kept)), LINK: _linked(plan, len(rows), mark)})
        if self._sends:
            lines = [json.dumps({"row": row}) for row, one in enumerate(kept) if one]
            require(process.outbox.put(batch, lines, 0.5) == [sum(kept)], "a replay sends the same rows")
        process.planner.learn(report)
        if self.chance.happens(0.25, "query died before commit"):
            return
        self._query.batch += 1

    def _hear(self, peers: Peers) -> None:
        number = len(self._link.parts) - self.chance.choice([0, 0, 1, 5])  # Some come late, or twice.
        peers.hear(News("east", "q", 0.5, PART, None, 1, max(number, 0), 0.0), self.now_s)
        known = peers.known("q", self.now_s)
        require(known.sic <= known.part <= PART, "peers give no more of a query than they have")

    def _forget(self, inbox: Inbox, batch: int) -> None:
        """The batch before is complete: delete the files that it has read."""
        last = self._accounts.get(batch - 1)
        if last is not None and last.total.links[LINK].mark:
            inbox.forget(last.total.links[LINK].mark)

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

    def _planned(self, process: _Process, batch: int, linked: int) -> tuple[Plan | None, bool]:
        """The plan of a batch, as a site finds it; whether its binding is known."""
        if self._accounts.taken(batch) and not process.plans.bound(batch):
            return None, False

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
            return None, False
        except PenstockError:
            self._mend(batch)
            raise
        bound = None if self.chance.faulty else self._query.bindings.get(batch)
        if bound is not None:
            self._query.found(bound)
        if plan.drops:
            self._query.check(plan)
        return plan, True

    def _mend(self, batch: int) -> None:
        """An operator deletes a torn binding, as the error says."""
        store: Any = self._query.bindings.store
        name = f"{batch:020d}.binding"
        if name in store.torn:
            self.chance.counts["torn file deleted by an operator"] += 1
            store.torn.discard(name)
            store.pieces().pop(name)

    def _account(self, batch: int, places: Mapping[str, PlaceRows]) -> Report:
        """The account of a batch is written once."""
        last = self._accounts.get(batch - 1)
        report = site_report(batch, self.now_s, 2.0, places)
        total = added(report, *([last.total] if last else []))
        self._accounts.add(batch, BatchAccount("here", 1, report, total))
        return report

    def check(self) -> None:
        """What holds after every move."""
        self._query.check(None)

    def end(self) -> None:
        """Nothing fails any more: each row of the link was read once, in order, and little is left."""
        super().end()
        read = [row for batch in sorted(self._read) for row in self._read[batch]]
        sent = [json.loads(line)["a"] for _, lines in self._link.parts for line in lines]
        require(read == sent[: len(read)], "a link delivers each row once, in order")
        require(len(self._accounts.versions()) <= KEEP.batches + 3 * PURGE_EVERY, "accounts do not grow with batches")
        require(len(self._boxes[0].pieces()) <= 3 * PURGE_EVERY, "an inbox does not grow with batches")


def _linked(plan: Plan | None, rows: int, mark: str) -> PlaceRows:
    """The rows of the link, of which a plan keeps some."""
    drop = None if plan is None else plan.drop(LINK)
    kept = rows if drop is None else round(rows * drop.keep)
    return PlaceRows(rows, kept, sender="east.g", mark=mark)
