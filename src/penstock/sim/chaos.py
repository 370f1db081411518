"""Seeded schedules of faults over the loop, its driver, the binder and a store, on virtual time.

A schedule is a query whose batches are bound, judged, committed or replayed, watched by one or two drivers with clocks
of their own. Every operation of the store may be refused, be done without an answer, be done late, tear what it writes,
or be the last one before its process dies. A broken promise raises `BrokenPromise`.
"""

from __future__ import annotations

import logging
import os
import random
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from penstock.core.control.gate import coins, judge
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import LoadAware
from penstock.core.control.targets import MeanQueueLatency
from penstock.core.loop.events import BatchEnded, Misread, Passed
from penstock.core.loop.leases import LEASE_S
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.messages.plan import Drop, Fits, KeepTable, Plan
from penstock.messages.report import Report
from penstock.sim.parallel import Workers
from penstock.store import retention
from penstock.store.binder import Binder
from penstock.store.driver import Driver
from penstock.store.interface import StoreError
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.core.loop.machine import Decides
    from penstock.messages.plan import Binding

QUERY = "query"
ROWS = 16
#: Moves of a schedule; now and then one is long, to see whether anything grows.
MOVES, LONG, LONG_SHARE = 30, 300, 0.01
#: A query of a schedule keeps so little that a short run is long.
BATCHES, LEAST_BATCHES, PURGE_EVERY = 12, 6, 4
_COINS = coins(7, np.arange(ROWS))
_KEYS = np.arange(ROWS)


class BrokenPromise(AssertionError):  # noqa: N818 - what it is, in the words of this module
    """What must never happen has happened."""


class Died(BaseException):
    """The process that was at work is no more."""


def require(holds: object, promise: str) -> None:
    """Refuse to go on if a promise is broken."""
    if not holds:
        raise BrokenPromise(promise)


class Chance:
    """What a schedule draws, and how faulty its store is at the moment."""

    def __init__(self, seed: int) -> None:
        """Draw from this seed."""
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self.choice = self._random.choice
        self.faults = self.choice([0.0, 0.0, 0.1, 0.4])  # share of operations that go wrong
        self.tears = self.happens(0.3)
        self.full = self.dying = False

    def happens(self, share: float) -> bool:
        """Whether something of this probability happens."""
        return self._random.random() < share


class FaultyStore(MemoryStore):
    """A store whose every operation may go wrong."""

    def __init__(self, chance: Chance, where: str) -> None:
        """Go wrong by this chance."""
        super().__init__()
        self.where, self._chance = where, chance
        self._late: list[tuple[str, bytes]] = []
        self.torn: set[str] = set()

    def _may_fail(self, *, writes: bool) -> None:
        if self._chance.dying and self._chance.happens(0.3):
            raise Died
        if (writes and self._chance.full) or self._chance.happens(self._chance.faults / 4):
            raise StoreError("refused")

    def create(self, name: str, content: bytes) -> bool:
        """As a store does, if nothing goes wrong."""
        self._may_fail(writes=True)
        if self._chance.happens(self._chance.faults / 4):
            self._late.append((name, content))  # It completes when no caller waits for it.
            raise StoreError("no answer")
        if self._chance.tears and self._chance.happens(self._chance.faults / 8) and super().create(name, content[:9]):
            self.torn.add(name)
            raise StoreError("torn")
        created = super().create(name, content)
        if self._chance.dying and self._chance.happens(0.3):
            raise Died
        if self._chance.happens(self._chance.faults / 4):
            raise StoreError("done, and the answer is lost")
        return created

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """As a store does, if nothing goes wrong."""
        self._may_fail(writes=True)
        super().replace(name, content, durable=durable)

    def read(self, name: str) -> bytes | None:
        """As a store does, if nothing goes wrong."""
        self._may_fail(writes=False)
        return super().read(name)

    def remove(self, name: str) -> None:
        """As a store does, if nothing goes wrong."""
        self._may_fail(writes=True)
        super().remove(name)

    def pieces(self) -> list[tuple[str, bytes]]:
        """Its content, without faults."""
        return list(self._kept.items())

    def catch_up(self) -> None:
        """What was late is done now."""
        for name, content in self._late:
            super().create(name, content)
        self._late = []


class _Remembering:
    """Decodes each entry once: entries do not change, and a schedule reads them often."""

    def __init__(self, *given: Any, **more: Any) -> None:  # noqa: ANN401 - those of a log
        super().__init__(*given, **more)
        self._decoded: dict[tuple[str, bytes], Any] = {}

    def _read(self, name: str) -> Any:  # noqa: ANN401 - an entry of any kind
        content = self.store.read(name)  # type: ignore[attr-defined]
        if content is None or (name, content) not in self._decoded:
            found = super()._read(name)  # type: ignore[misc]
            if content is None:
                return found
            self._decoded[name, content] = found
        return self._decoded[name, content]


class Plans(_Remembering, PlanLog):
    """The plans of a schedule."""


class Bindings(_Remembering, BindingLog):
    """The bindings of a schedule."""


class Fickle:
    """A planner that decides by chance."""

    alarms = ()

    def __init__(self, chance: Chance, *, drops: bool) -> None:
        """Shed by keep tables, or by drops, which have no lease."""
        self._chance, self._drops = chance, drops

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """Any plan, or none."""
        if self._chance.happens(0.05):
            raise PenstockError("the planner does not know what to do")
        keep = self._chance.choice([None, 0.25, 0.5, 1.0])
        fits = Fits(5.0, 10.0) if self._chance.happens(0.3) and not self._drops else None
        if keep is None:
            return None
        if self._drops:
            return Plan(0, "fickle", now_s, 0, drops=(Drop(SOURCE, keep=keep),) if keep < 1.0 else ())
        gates = (KeepTable(SOURCE, (keep,), ("over capacity",)),) if keep < 1.0 else ()
        return Plan(0, "fickle", now_s, report.sequence, gates=gates, fits=fits)

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        """Keep everything, or say nothing."""
        return Plan(version, "fickle", now_s, 0, note=note) if self._drops or self._chance.happens(0.7) else None


@dataclass
class Watcher:
    """A process that plans for the query."""

    driver: Driver
    ahead_s: float = 0.0  #: what its clock is ahead of the world's
    news: deque[Report] = field(default_factory=deque)
    understands: bool = True


@dataclass(frozen=True)
class Kinds:
    """The tested parts; a test of the tests replaces them with broken ones."""

    loop: type[Loop] = Loop
    binder: type[Binder] = Binder
    driver: type[Driver] = Driver
    purge: Any = retention.purge


class World:
    """A query, its store, and those that watch it."""

    def __init__(self, seed: int, kinds: Kinds | None = None) -> None:
        """Begin the schedule of this seed."""
        self.chance, self.kinds = Chance(seed), kinds or Kinds()
        self.now_s, self._skew_s = 1e6, self.chance.choice([0.0, 0.0, 5.0, -5.0])
        self._stores = FaultyStore(self.chance, "plans"), FaultyStore(self.chance, "bindings")
        self.plans, self.bindings = Plans(self._stores[0]), Bindings(self._stores[1])
        self._by_drops = self.chance.happens(0.25)
        self._real = not self._by_drops and self.chance.happens(0.02)
        self._batch, self._runs = 0, 0
        self._seen: dict[str, bytes] = {}
        self._checked: dict[int, Plan] = {}
        self._bound: dict[int, Binding] = {}
        self._kept: dict[int, tuple[bool, ...]] = {}
        self._stamp_s = -1e12  # when somebody who understood last decided or renewed, by that one's clock
        self.watchers = [self._begun() for _ in range(self.chance.choice([1, 1, 2]))]

    # Processes that plan.

    def _planner(self) -> Decides:
        return LoadAware().planner(MeanQueueLatency(1.0)) if self._real else Fickle(self.chance, drops=self._by_drops)

    def _begun(self) -> Watcher:
        watcher: Watcher
        purge = partial(self.kinds.purge, self.plans, self.bindings)
        loop = self.kinds.loop(self._planner(), QUERY)
        driver = self.kinds.driver(loop, self.plans, lambda: self.now_s + watcher.ahead_s, purge, lambda _: None)
        watcher = Watcher(driver, self.chance.choice([0.0, 0.0, 3.0, -3.0]))
        self._survived(watcher, lambda: driver.begin(()))
        return watcher

    def _survived(self, watcher: Watcher, work: Any) -> bool:  # noqa: ANN401 - anything that is done
        """Do something in the watcher's process; whether it survived, and met no error."""
        try:
            work()
        except Died:
            if watcher in self.watchers:
                self.watchers.remove(watcher)
                self.watchers.append(self._begun_calmly())
            return False
        except PenstockError:
            return False
        return True

    def _begun_calmly(self) -> Watcher:
        self.chance.dying = False
        return self._begun()

    def look(self, watcher: Watcher) -> None:
        """A watcher receives ended batches, and the time."""
        clock_s = self.now_s + watcher.ahead_s
        handle = watcher.driver.handle
        if self.chance.happens(0.1):
            watcher.understands = False
            if self._survived(watcher, lambda: handle(Misread(clock_s))) and self._by_drops and not self._is_faulty:
                plan = watcher.driver.loop.in_force
                require(plan is None or not plan.drops, "drops are withdrawn when no driver can interpret events")
            return
        while watcher.news and watcher in self.watchers:
            report = watcher.news.popleft()
            watcher.understands = True
            self._stamp_s = max(self._stamp_s, clock_s)
            event = BatchEnded(clock_s, report.sequence, report, rows=report.rows_in, offsets=report.rows_in)
            if not self._survived(watcher, lambda event=event: handle(event)):
                watcher.understands = False
                self._survived(watcher, lambda: handle(Misread(clock_s)))
                return
        if watcher in self.watchers:
            self._stamp_s = max(self._stamp_s, clock_s) if watcher.understands else self._stamp_s
            self._survived(watcher, lambda: handle(Passed(clock_s, self.chance.happens(0.1))))

    # Batches.

    def _attempt(self, batch: int, *, raced: bool = False) -> Report:
        """A task judges the rows of a batch: by its binding, or by none if that cannot be known."""
        binder = self.kinds.binder(self.plans, self.bindings)
        clock_s = self.now_s + self._skew_s

        def new() -> Binding:
            made = self._new(binder, batch, clock_s)
            if raced:  # another task of the batch is faster
                self._attempt(batch)
            return made

        plan: Plan | None = None
        known = False
        try:
            bound = binder.bound(batch, new)
            if bound is not None:
                require(self._bound.setdefault(batch, bound) == bound, "a batch is bound once")
                plan = None if bound.plan_version is None else binder.plan(bound.plan_version)
                known = bound.plan_version is None or plan is not None
                torn = bound.plan_version is not None and f"{bound.plan_version:020d}.plan" in self._stores[0].torn
                require(known or torn or self._is_faulty, "the plan of a batch stays as long as Spark may run it again")
        except StoreError:
            known = False
        return self._judged(batch, plan, known=known)

    def _new(self, binder: Binder, batch: int, clock_s: float) -> Binding:
        bound = binder.new(batch, QUERY, clock_s)
        if bound.plan_version is not None:
            plan = self.plans.get(bound.plan_version) if not self._is_faulty else None
            if plan is not None and plan.gates:
                require(clock_s - self._stamp_s <= LEASE_S, "rows flow one lease after the last who understood")
        return bound

    def _judged(self, batch: int, plan: Plan | None, *, known: bool) -> Report:
        table = None if plan is None else plan.gate(SOURCE)
        drop = None if plan is None else plan.drop(SOURCE)
        if drop is not None:
            table = KeepTable(SOURCE, (drop.keep,), ("dropped",))
        shed: Mapping[str, int] = {}
        kept = (True,) * ROWS
        if table is not None:
            verdicts = judge(table, key_hashes=_KEYS, coins=_COINS)
            kept, shed = tuple(verdicts.kept.tolist()), verdicts.shed_by_reason(table)
        if known:
            require(self._kept.setdefault(batch, kept) == kept, "a batch is judged alike at every replay")
        require(sum(kept) + sum(shed.values()) == ROWS, "rows in = kept + shed")
        start_s = self.now_s - 1.0
        return Report(
            sequence=batch,
            start_s=start_s,
            end_s=self.now_s,
            rows_in=ROWS,
            rows_kept=sum(kept),
            rows_shed=shed,
            plan_version=None if plan is None else plan.version,
        )

    def run_batch(self) -> None:
        """Spark runs the batch that is not committed: once or more often, by one task or several at once."""
        report = self._attempt(self._batch, raced=self.chance.happens(0.2))
        self._runs += 1
        if self.chance.happens(0.25):
            return  # The query dies before it commits, and runs the batch again.
        self._batch += 1
        for watcher in self.watchers:
            if not self.chance.happens(0.05):  # Spark may have forgotten it
                watcher.news.append(report)

    # The schedule.

    @property
    def _is_faulty(self) -> bool:
        return bool(self.chance.faults) or self.chance.full

    def move(self) -> None:
        """One thing happens."""
        self.now_s += self.chance.choice([0.0, 0.1, 1.0, 2.0, 12.0, 40.0])
        for store in self._stores:
            store.catch_up()
        self.chance.full = self.chance.happens(0.5) if self.chance.full else self.chance.happens(0.05)
        self.chance.dying = self.chance.happens(0.1)
        what = self.chance.choice(["batch", "batch", "look", "look", "look", "clock", "second"])
        if what == "batch" or not self.watchers:
            self.chance.dying = False
            self.run_batch()
        elif what == "look":
            self.look(self.chance.choice(self.watchers))
        elif what == "clock" and self.chance.happens(0.3):
            self.chance.choice(self.watchers).ahead_s += self.chance.choice([-600.0, -5.0, 5.0])
        elif what == "second" and self.chance.happens(0.2):
            self._come_or_go()
        self.check()

    def _come_or_go(self) -> None:
        if len(self.watchers) == 1:
            self.watchers.append(self._begun_calmly())
            return
        gone = self.watchers.pop()
        self._survived(gone, lambda: gone.driver.stop("over"))

    def check(self) -> None:
        """What holds after every move."""
        for name, content in self._stores[0].pieces():
            if name.endswith(".plan"):
                require(self._seen.setdefault(name, content) == content, "a plan never changes")
        for watcher in self.watchers:
            plan = watcher.driver.loop.in_force
            if plan is not None and self._checked.get(plan.version) is not plan:
                self._checked[plan.version] = plan
                written = self._seen.get(f"{plan.version:020d}.plan", b"")
                require(plan.to_json().encode() in written, "a plan is durable before it acts")

    @contextmanager
    def _calm(self) -> Iterator[None]:
        """Nothing goes wrong meanwhile."""
        chance = self.chance
        before = chance.faults, chance.full, chance.dying
        chance.faults, chance.full, chance.dying = 0.0, False, False
        try:
            yield
        finally:
            chance.faults, chance.full, chance.dying = before

    def end(self) -> None:
        """All watchers stop, in turn: rows flow. Of a long run, little is left."""
        with self._calm():
            for _ in range(2 * PURGE_EVERY):
                self.run_batch()
                for watcher in list(self.watchers):
                    self.look(watcher)
                    self.check()
            for watcher in self.watchers:
                self._survived(watcher, lambda watcher=watcher: watcher.driver.stop("over"))
            newest = self.plans.latest()
            require(newest is None or not newest.leased, "rows flow when no driver plans")
            self.check()
            most = BATCHES + 3 * PURGE_EVERY
            require(len(self.bindings.versions()) <= most, "bindings do not grow with batches")


def _small() -> mock._patch_dict:
    """Keep little, so that a short run is long."""
    limits = {"BATCHES": BATCHES, "LEAST_BATCHES": LEAST_BATCHES}
    return mock.patch.dict(vars(retention), limits)


def run(seed: int, kinds: Kinds | None = None) -> int:
    """Run the schedule of a seed; how often batches were run.

    Raises:
        BrokenPromise: If a promise was broken.
    """
    quiet = mock.patch.object(logging.getLogger("penstock"), "disabled", new=True)
    every = mock.patch("penstock.core.loop.machine.PURGE_EVERY", PURGE_EVERY)
    logs = mock.patch.object(logging.getLogger("penstock.store.logs"), "disabled", new=True)
    binders = mock.patch.object(logging.getLogger("penstock.store.binder"), "disabled", new=True)
    with _small(), every, quiet, logs, binders:
        world = World(seed, kinds)
        for _ in range(LONG if world.chance.happens(LONG_SHARE) else MOVES):
            world.move()
        world.end()
        return world._runs  # noqa: SLF001 - its own


@dataclass(frozen=True)
class Found:
    """What many schedules have found: how often batches were run, and the promises broken, by seed."""

    batches: int
    broken: dict[int, str]


def tried(seed: int) -> int | str:
    """How often batches were run in the schedule of a seed, or the promise that it broke."""
    try:
        return run(seed)
    except BrokenPromise as error:
        return str(error)


def run_all(schedules: int, seed: int = 0, jobs: int = 0, done: Callable[[int], None] = lambda _: None) -> Found:
    """Run the schedules from a seed on, on this many processes; 0 means one per core."""
    seeds = range(seed, seed + schedules)
    with Workers(jobs or os.cpu_count() or 1) as workers:
        results = dict(zip(seeds, workers.run(tried, seeds, done), strict=True))
    broken = {one: found for one, found in results.items() if isinstance(found, str)}
    return Found(sum(found for found in results.values() if isinstance(found, int)), broken)
