"""Schedules of guards and of `Fair`: loops run in processes of their own, with their own clocks."""

from __future__ import annotations

import math
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.fairness.members import Terms
from penstock.core.loop.binding import START_S, Newest, Planned, Start
from penstock.core.loop.events import BatchEnded, Began, Misread, Passed
from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.messages.plan import Costs
from penstock.messages.report import BoxStatistics, Latency, Report
from penstock.sim.chaos.faults import Died, clumsy, require
from penstock.sim.chaos.query import KEEP, PURGE_EVERY, ROWS, Fickle, Kinds, Query, check_start
from penstock.sim.chaos.world import World
from penstock.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.fairness.planner import FairPlanner
    from penstock.messages.plan import Binding, Plan
    from penstock.sim.chaos.faults import Chance
    from penstock.store.driver import Driver

#: The sources of each query of a `Fair`. Each has another number of them, so that a plan shows whose it is.
SOURCES = {"one": ("a",), "two": ("a", "b"), "four": ("a", "b", "c", "d")}
TARGET = MeanQueueLatency(1.0)
#: The share of guards whose planner learns. Such a schedule takes several times as long as others.
LEARNS = 0.04


@dataclass
class Member:
    """The loop of one query in a watcher, and the reports that it has not processed yet."""

    driver: Driver
    news: deque[Report] = field(default_factory=deque)
    understands: bool = True
    costs: Costs | None = None  #: what its loop has learned last; None if that is not known


@dataclass
class Watcher:
    """A process that plans for queries."""

    fair: FairPlanner | None = None  #: the planner that all its queries share; None in a guard
    ahead_s: float = 0.0  #: how far its clock is ahead of the world's
    members: dict[str, Member] = field(default_factory=dict)
    hangs: int = 0  #: how often it will not do what it should
    dead: bool = False


@dataclass
class Gate:
    """The gate of a query, made when a run of the query starts, and the batches that Spark has planned."""

    start: Start
    planned_s: dict[int, float] = field(default_factory=dict)
    reports: deque[Report] = field(default_factory=lambda: deque(maxlen=3))  #: the last ones, which are kept

    def planned(self, batch: int, now_s: float) -> Planned:
        """The batch as Spark has planned it at its first attempt."""
        times = [self.planned_s.get(one) for one in (batch - 1, batch - 2)]
        return Planned(ROWS, self.planned_s.setdefault(batch, now_s), *times)

    def is_first(self, batch: int) -> bool:
        """Whether a batch is the first one of this run, or was planned by an earlier one."""
        return self.planned_s.get(batch - 1, -math.inf) < self.start.since_s


class Watched(World):
    """Queries, and the processes that watch them."""

    def __init__(self, chance: Chance, kinds: Kinds, *, fair: bool) -> None:
        """Begin, with one query and its guards, or with the queries of a `Fair`."""
        names = chance.choice([["one", "two"], ["two", "four"], list(SOURCES)]) if fair else ["query"]
        super().__init__(chance, kinds, [Query(name, chance) for name in names])
        self._fair, self._clocks_right, self._skew_s = fair, True, chance.choice([0.0, 0.0, 5.0, -5.0])
        self._learns = not fair and chance.happens(LEARNS)
        self._stamps_s: dict[str, set[float]] = {name: set() for name in names}
        self._gates = {name: Gate(self._made()) for name in names}
        self.watchers: list[Watcher] = []
        for _ in range(chance.choice([1, 1, 2])):
            self._start()

    def _made(self) -> Start:
        """A gate that is made now."""
        choice = self.chance.choice
        rate = None if self._learns or self._fair else choice([None, None, None, 4.0])
        return Start(self.now_s + self._skew_s, choice([None, None, 2.0]), rate, counted=choice([False, True]))

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
        planner, reports = self._planner(watcher, name), list(self._gates[name].reports)
        began = None if self.chance.faulty else Began(self.now_s + watcher.ahead_s, query.plans.latest(), reports)
        loop = self.kinds.loop(planner, name, purge_every=PURGE_EVERY)
        purge = partial(self.kinds.purge, query.plans, query.bindings, keep=KEEP)
        driver = self.kinds.driver(loop, query.plans, lambda: self.now_s + watcher.ahead_s, purge, lambda _: None)
        watcher.members[name] = Member(clumsy(driver, self.chance))
        self._stamps_s[name].update(report.end_s for report in reports)
        self._survives(watcher, name, lambda: driver.begin(reports))
        if began is not None and watcher.fair is None:
            check_start(planner, self._planner(watcher, name), name, began)

    def _planner(self, watcher: Watcher, name: str) -> Any:  # noqa: ANN401 - one that learns, of any kind
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
                return False
            watcher.dead = True
            if watcher in self.watchers:
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
        self._planner(watcher, name).leave()
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
        misread = not self.chance.calmed and self.chance.happens(0.1, "progress unreadable")
        while member.news and not misread:
            report = member.news.popleft()
            member.understands = True
            self._stamps_s[name].add(clock_s)
            costs = Costs("deal", 2, (self.chance.choice([1.0, 2.0]),)) if self.chance.happens(0.2) else None
            event = BatchEnded(clock_s, report.sequence, report, costs, report.rows_in, report.rows_in)
            misread = not self._survives(watcher, name, partial(handle, event))
            member.costs = None if misread else costs or member.costs
        if misread:
            member.understands = False
            self._survives(watcher, name, lambda: handle(Misread(clock_s)))
            return
        if member.understands:
            self._stamps_s[name].add(clock_s)
        idle = not self.chance.calmed and self.chance.happens(0.1, "input idle")
        self._survives(watcher, name, lambda: handle(Passed(clock_s, idle)))

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
            if batch == query.batch:
                self._gates[query.name].start = self._made()  # The query starts again.
            return
        report = self._report(query, batch, plan, kept)
        self._gates[query.name].reports.append(report)
        for watcher in self.watchers:
            if query.name in watcher.members and not self.chance.happens(0.05, "progress lost"):
                watcher.members[query.name].news.append(report)

    def _attempt(self, query: Query, batch: int, *, raced: bool = False) -> tuple[Plan | None, tuple[bool, ...]]:
        """A task judges the rows of a batch: by its binding, or keeps all if that cannot be known."""
        binder = self.kinds.binder(query.plans, query.bindings)
        clock_s, gate = self.now_s + self._skew_s, self._gates[query.name]

        def new() -> Binding:
            planned = partial(gate.planned, batch, clock_s)
            made = binder.new(batch, query.name, clock_s, start=gate.start, planned=planned)
            self._check_parts(query, made, clock_s)
            known = made.plan_version is not None and not self.chance.faulty
            plan = query.plans.get(made.plan_version or 0) if known else None
            if plan is not None and plan.gates:
                self._check_lease(query, clock_s)
            if raced:
                self.chance.counts["two binders at once"] += 1
                self._attempt(query, batch)
            return made

        plan: Plan | None = None
        bound: Binding | None = None
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
        return plan, query.judged(batch, plan, bound if known else None, known=known)

    def _check_lease(self, query: Query, clock_s: float) -> None:
        alive = any(abs(clock_s - one) <= LEASE_S for one in self._stamps_s[query.name])
        require(alive, "rows pass one lease after the last loop that understood")

    def _check_parts(self, query: Query, made: Binding, clock_s: float) -> None:
        """What a binding sheds beside its plan is by the settings of the gate, or by a plan within its lease."""
        gate = self._gates[query.name]
        self.chance.counts["backlog thinned"] += made.backlog is not None
        self.chance.counts["batch cut to what fits"] += made.share < 1.0
        if made.share < 1.0 and gate.start.rows_per_s is None and not gate.is_first(made.batch):
            self._check_lease(query, clock_s)

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
        if not (self._learns or self._fair):
            return report
        wait_s, sources = self.chance.choice([0.2, 3.0, 9.0]), SOURCES.get(query.name, ())
        return replace(
            report,
            busy_s=0.05 * kept_rows,
            span_s=0.9,
            backlog_rows=self.chance.choice([0, 40, 400]) if self._learns else 0,
            cost_sketch=None if self._learns else b"",
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
            self._clocks_right = False
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
            if not watcher.dead and watcher.members[name] is member:
                self._after_stop(watcher, name, member)
            if watcher.fair is not None:
                self._planner(watcher, name).leave()
                ended = watcher.fair.members[name].known
                require(not ended.present(self.now_s), "a query that has ended takes no part")

    def _after_stop(self, watcher: Watcher, name: str, member: Member) -> None:
        """A batch has ended since, or time passes: a loop that was stopped sheds nothing any more."""
        loop, clock_s, query = member.driver.loop, self.now_s + watcher.ahead_s, self.queries[name]
        last = loop.newest
        batch = max(query.batch - 1, 0)
        ended = BatchEnded(clock_s, batch, self._report(query, batch, None, (True,) * ROWS))
        for event in (ended, Misread(clock_s), Passed(clock_s)):
            if self.chance.happens(0.3, "event after stop"):
                self._survives(watcher, name, partial(member.driver.handle, event))
                require(
                    loop.newest is last or loop.newest is None or not loop.newest.sheds, "a stopped loop sheds nothing"
                )

    def settle(self) -> None:
        """Loops write what is decided and renew what they understand; without input they shed nothing."""
        for watcher in self.watchers:
            for member in watcher.members.values():
                loop = member.driver.loop
                require(loop.newest is loop.in_force, "what is decided is written")
        for _ in range(2):
            self.now_s += 0.55 * LEASE_S
            for watcher in self.watchers:
                self.look(watcher)
        for watcher in self.watchers:
            for name, member in watcher.members.items():
                self._check_settled(name, member, self.now_s + watcher.ahead_s)

    def _check_settled(self, name: str, member: Member, clock_s: float) -> None:
        driver, plans = member.driver, self.queries[name].plans
        in_force = driver.loop.in_force
        if in_force is not None and in_force.leased and len(self.watchers) == 1 and member.understands:
            renewed = Newest(in_force, plans.renewed_s(in_force.version)).in_lease(clock_s)
            require(renewed, "a plan acts as long as its loop runs")
        if self.chance.happens(0.5, "input idle"):
            driver.handle(Passed(clock_s, idle=True))
            left = driver.loop.in_force
            require(left is None or not left.gates, "the first row after a pause is kept")

    def check(self) -> None:
        """What holds after every step."""
        for watcher in self.watchers:
            for name, member in watcher.members.items():
                loop = member.driver.loop
                self.queries[name].check(loop.in_force)
                carried = member.costs is None or loop.newest is None or loop.newest.costs == (member.costs,)
                require(carried, "a plan carries the costs that rows are dealt by")
                if watcher.fair is not None:
                    _check_fair(watcher.fair, name, loop.newest)

    def stop(self) -> list[str]:
        """All watchers stop in turn, or die at once: rows pass."""
        watched = sorted({name for watcher in self.watchers for name in watcher.members})
        if self.chance.happens(0.3, "all planning processes died"):
            self._die()
            return watched
        for watcher in self.watchers:
            self._stop(watcher)
        for name in watched:
            newest = self.queries[name].plans.latest()
            require(newest is None or not newest.leased, "rows pass when planning has ended")
        return watched

    def _die(self) -> None:
        """After a lease by any clock, every row of a batch is kept."""
        self.now_s += LEASE_S + 10.0 if self._clocks_right else 1e6
        for query in self.queries.values():
            for _ in range(2):  # The first one may be the first of a run, or replayed.
                self.now_s += START_S
                _, kept = self._attempt(query, query.batch)
                query.batch += 1
            require(all(kept), "rows pass one lease after all loops have died")


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
