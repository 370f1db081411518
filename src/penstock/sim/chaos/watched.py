"""Schedules of guards and of `Fair`: loops run in processes of their own, with their own clocks."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.members import Terms
from penstock.core.loop.events import BatchEnded, Misread, Passed
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.plan import Costs
from penstock.messages.report import BoxStatistics, Latency, Report
from penstock.sim.chaos.faults import Died, require
from penstock.sim.chaos.query import KEEP, PURGE_EVERY, ROWS, Fickle, Kinds, Query
from penstock.sim.chaos.world import World
from penstock.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.control.policies import Planner
    from penstock.core.fairness.planner import FairPlanner
    from penstock.messages.plan import Binding, Plan
    from penstock.sim.chaos.faults import Chance
    from penstock.store.driver import Driver

#: The sources of each query of a `Fair`. Each has another number of them, so that a plan shows whose it is.
SOURCES = {"one": ("a",), "two": ("a", "b"), "four": ("a", "b", "c", "d")}
TARGET = MeanQueueLatency(1.0)


@dataclass
class Member:
    """The loop of one query in a watcher, and the reports that it has not processed yet."""

    driver: Driver
    news: deque[Report] = field(default_factory=deque)
    understands: bool = True


@dataclass
class Watcher:
    """A process that plans for queries."""

    fair: FairPlanner | None = None  #: the planner that all its queries share; None in a guard
    ahead_s: float = 0.0  #: how far its clock is ahead of the world's
    members: dict[str, Member] = field(default_factory=dict)
    hangs: int = 0  #: how often it will not do what it should


class Watched(World):
    """Queries, and the processes that watch them."""

    def __init__(self, chance: Chance, kinds: Kinds, *, fair: bool) -> None:
        """Begin, with one query and its guards, or with the queries of a `Fair`."""
        names = chance.choice([["one", "two"], ["two", "four"], list(SOURCES)]) if fair else ["query"]
        super().__init__(chance, kinds, [Query(name, chance) for name in names])
        self._fair, self._skew_s = fair, chance.choice([0.0, 0.0, 5.0, -5.0])
        self._learns = not fair and chance.happens(0.02)
        self._stamps_s: dict[str, set[float]] = {name: set() for name in names}
        self.watchers: list[Watcher] = []
        for _ in range(chance.choice([1, 1, 2])):
            self._start()

    # Processes that plan.

    def _start(self) -> None:
        """A process begins to watch: all queries, or one of them."""
        fair = self.kinds.fair(TARGET.limit_s, window_s=10.0) if self._fair else None
        watcher = Watcher(fair, self.chance.choice([0.0, 0.0, 3.0, -3.0]))
        names = [*self.queries]
        if self.watchers:
            self.chance.counts["second driver on a checkpoint"] += 1
            names = names[: self.chance.choice([1, len(names)])]
        self.watchers.append(watcher)
        if self.chance.happens(0.1, "planning process hung"):
            watcher.hangs = self.chance.choice([3, 10, 100])
        for name in names:
            self._join(watcher, name)

    def _join(self, watcher: Watcher, name: str) -> None:
        """A query's loop begins in a process, from what the log remembers."""
        self.chance.dying = False
        query = self.queries[name]
        if watcher.fair is not None:
            watcher.fair.join(name, Terms(SOURCES[name]))
        loop = self.kinds.loop(self._planner(watcher, name), name, purge_every=PURGE_EVERY)
        purge = partial(self.kinds.purge, query.plans, query.bindings, keep=KEEP)
        driver = self.kinds.driver(loop, query.plans, lambda: self.now_s + watcher.ahead_s, purge, lambda _: None)
        watcher.members[name] = Member(driver)
        self._survives(watcher, name, lambda: driver.begin(()))

    def _planner(self, watcher: Watcher, name: str) -> Planner:
        if watcher.fair is not None:
            return self.kinds.member(watcher.fair, name, nullcontext())
        return LoadAware().planner(TARGET) if self._learns else Fickle(self.chance, drops=False)

    def _survives(self, watcher: Watcher, name: str, work: Callable[[], None]) -> bool:
        """Do something in a watcher; whether it lives and met no error."""
        try:
            work()
        except Died:
            if watcher.fair is not None and self.chance.happens(0.5):
                self._rejoin(watcher, name)
            elif watcher in self.watchers:
                self.chance.counts["planning process restarted"] += 1
                self.watchers.remove(watcher)
                self._start()
            return False
        except PenstockError:
            return False
        return True

    def _rejoin(self, watcher: Watcher, name: str) -> None:
        """One query of a `Fair` starts again, in the same process."""
        self.chance.counts["one query of a Fair restarted"] += 1
        self._planner(watcher, name).leave()  # type: ignore[attr-defined] # the planner of a member
        self._join(watcher, name)

    def look(self, watcher: Watcher) -> None:
        """The loops of a watcher process the batches that have ended, and the time."""
        if watcher.hangs:
            watcher.hangs -= 1
            return
        for name, member in list(watcher.members.items()):
            if watcher in self.watchers and watcher.members.get(name) is member:
                self._look(watcher, name, member)

    def _look(self, watcher: Watcher, name: str, member: Member) -> None:
        clock_s, handle = self.now_s + watcher.ahead_s, member.driver.handle
        misread = self.chance.happens(0.1, "progress unreadable")
        while member.news and not misread:
            report = member.news.popleft()
            member.understands = True
            self._stamps_s[name].add(clock_s)
            costs = Costs("deal", 2, (self.chance.choice([1.0, 2.0]),)) if self.chance.happens(0.2) else None
            event = BatchEnded(clock_s, report.sequence, report, costs, report.rows_in, report.rows_in)
            misread = not self._survives(watcher, name, partial(handle, event))
        if misread:
            member.understands = False
            self._survives(watcher, name, lambda: handle(Misread(clock_s)))
            return
        if member.understands:
            self._stamps_s[name].add(clock_s)
        self._survives(watcher, name, lambda: handle(Passed(clock_s, self.chance.happens(0.1, "input idle"))))

    # Batches.

    def run_batch(self, query: Query) -> None:
        """Spark runs a batch: once or more often, by one task or by several at once."""
        batch = query.attempt()
        self.chance.dying = self.chance.happens(0.2)
        try:
            plan, kept = self._attempt(query, batch, raced=self.chance.happens(0.2))
        except Died:
            self.chance.counts["binder killed"] += 1
            self.chance.dying = False
            plan, kept = self._attempt(query, batch)
        self.chance.dying = False
        if not self.committed(query, batch):
            return
        report = self._report(query, batch, plan, kept)
        for watcher in self.watchers:
            if query.name in watcher.members and not self.chance.happens(0.05, "progress lost"):
                watcher.members[query.name].news.append(report)

    def _attempt(self, query: Query, batch: int, *, raced: bool = False) -> tuple[Plan | None, tuple[bool, ...]]:
        """A task judges the rows of a batch: by its binding, or keeps all if that cannot be known."""
        binder = self.kinds.binder(query.plans, query.bindings)
        clock_s = self.now_s + self._skew_s

        def new() -> Binding:
            made = binder.new(batch, query.name, clock_s)
            known = made.plan_version is not None and not self.chance.faulty
            plan = query.plans.get(made.plan_version or 0) if known else None
            if plan is not None and plan.gates:
                alive = any(abs(clock_s - one) <= LEASE_S for one in self._stamps_s[query.name])
                require(alive, "rows pass one lease after the last loop that understood")
            if raced:
                self.chance.counts["two binders at once"] += 1
                self._attempt(query, batch)
            return made

        plan: Plan | None = None
        known = False
        try:
            bound = binder.bound(batch, new)
            if bound is not None:
                query.found(bound)
                plan = None if bound.plan_version is None else binder.plan(bound.plan_version)
                known = bound.plan_version is None or plan is not None
                excused = query.torn(bound.plan_version) or self.chance.faulty
                require(known or excused, "the plan of a batch stays as long as Spark may run it again")
        except StoreError:
            known = False
        return plan, query.judged(batch, plan, known=known)

    def _report(self, query: Query, batch: int, plan: Plan | None, kept: tuple[bool, ...]) -> Report:
        kept_rows = sum(kept)
        report = Report(
            sequence=batch,
            start_s=self.now_s - 1.0,
            end_s=self.now_s,
            rows_in=ROWS,
            rows_kept=kept_rows,
            rows_shed={"more": ROWS - kept_rows} if kept_rows < ROWS else {},
            plan_version=None if plan is None else plan.version,
        )
        if not self._fair:
            return report
        wait_s, sources = self.chance.choice([0.2, 3.0, 9.0]), SOURCES[query.name]
        return replace(
            report,
            busy_s=0.05 * kept_rows,
            span_s=0.9,
            cost_sketch=b"",
            queuing=Latency(max(kept_rows, 1), wait_s, wait_s),
            boxes={name: BoxStatistics(ROWS // len(sources), kept_rows // len(sources), 0.0) for name in sources},
        )

    # The schedule.

    def step(self) -> None:
        """One thing happens."""
        what = self.chance.choice(["batch", "batch", "look", "look", "look", "clock", "second"])
        if what == "batch" or not self.watchers:
            self.run_batch(self.chance.choice([*self.queries.values()]))
        elif what == "look":
            self.look(self.chance.choice(self.watchers))
        elif what == "clock" and self.chance.happens(0.3):
            jump_s = self.chance.choice([-600.0, -5.0, 5.0, 600.0])
            self.chance.counts["clock set back" if jump_s < 0.0 else "clock set ahead"] += 1
            self.chance.choice(self.watchers).ahead_s += jump_s
        elif what == "second" and self.chance.happens(0.2):
            self._come_or_go()
        elif what == "second" and self._fair:
            watcher = self.chance.choice(self.watchers)
            self._rejoin(watcher, self.chance.choice([*watcher.members]))

    def calm_step(self) -> None:
        """Every query runs a batch, and every process plans, while nothing fails."""
        for query in self.queries.values():
            self.run_batch(query)
        for watcher in list(self.watchers):
            watcher.hangs = 0
            self.look(watcher)

    def _come_or_go(self) -> None:
        if len(self.watchers) == 1:
            self._start()
        else:
            self._stop(self.watchers.pop())

    def _stop(self, watcher: Watcher) -> None:
        for name, member in list(watcher.members.items()):
            self._survives(watcher, name, partial(member.driver.stop, "over"))
            if watcher.fair is not None:
                self._planner(watcher, name).leave()  # type: ignore[attr-defined] # the planner of a member
                ended = watcher.fair.members[name].known
                require(not ended.present(self.now_s), "a query that has ended takes no part")

    def check(self) -> None:
        """What holds after every step."""
        for watcher in self.watchers:
            for name, member in watcher.members.items():
                loop = member.driver.loop
                self.queries[name].check(loop.in_force)
                if watcher.fair is not None:
                    _check_fair(watcher.fair, name, loop.newest)

    def stop(self) -> list[str]:
        """All watchers stop in turn: rows pass."""
        for watcher in self.watchers:
            self._stop(watcher)
        watched = sorted({name for watcher in self.watchers for name in watcher.members})
        for name in watched:
            newest = self.queries[name].plans.latest()
            require(newest is None or not newest.leased, "rows pass when planning has ended")
        return watched


def _check_fair(fair: FairPlanner, name: str, newest: Plan | None) -> None:
    """What holds of a query of a `Fair`, whose loop has this newest plan."""
    own = fair.plan(name)
    if own is None:
        require(newest is None or not newest.gates, "planner and loop agree on the plan in force")
    else:
        require(newest is not None and newest.gates == own.gates, "planner and loop agree on the plan in force")
        require(newest is not None and newest.query == name, "a plan names its query")
        carried = own.sic_at("source")
        require(carried and len(carried.sic) == len(SOURCES[name]), "a plan is for the sources of its query")
