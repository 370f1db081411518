"""The driver of a loop on virtual time: logs in memory, and batches bound to the plans found in them."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from penstock.core.loop.binding import Newest, Planned, Start, share
from penstock.core.loop.events import Event, Passed
from penstock.core.loop.leases import LEASE_S
from penstock.core.loop.machine import Decides, Loop
from penstock.messages.plan import Binding, Plan
from penstock.messages.report import Report
from penstock.store import retention
from penstock.store.driver import Driver as LogDriver
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.memory import MemoryStore

#: How often a driver sends the time to the loop.
PASS_S = LEASE_S / 2.0


class Unfinished(NamedTuple):
    """The batch in which a query was killed: its next run replays it."""

    bound: Binding
    rows: int


class Earlier(NamedTuple):
    """What an earlier run of the query has left behind."""

    newest: Plan | None = None  #: its newest plan
    reports: Sequence[Report] = ()  #: the last ones, which are kept
    unfinished: Unfinished | None = None  #: None if it was stopped between two batches


class _Plans(PlanLog):
    """Plans in memory, which remembers all that were ever stored."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.written: list[Plan] = []

    def add(self, version: int, entry: Plan) -> bool:
        added = super().add(version, entry)
        if added:
            self.written.append(entry)
        return added


class Driver:
    """A query's loop, its plans and its bindings."""

    def __init__(
        self,
        planner: Decides,
        now_s: float,
        *,
        counted: bool = False,
        query: str = "simulated",
        earlier: Earlier = Earlier(),  # noqa: B008 - immutable
    ) -> None:
        """Begin; `counted` says that the source reports the rows of a batch before it runs."""
        self._plans, self._bindings = _Plans(), BindingLog(MemoryStore())
        self._query, self._start = query, Start(now_s, counted=counted)
        self._passed_s = now_s
        self._found = earlier.newest  # the plan that batches are bound to
        if earlier.newest is not None:
            self._plans.add(earlier.newest.version, earlier.newest)
            self._plans.written.clear()  # That was not this run.
        if earlier.unfinished is not None:
            self._bindings.add(earlier.unfinished.bound.batch, earlier.unfinished.bound)
        purge = partial(retention.purge, self._plans, self._bindings)
        self._driver = LogDriver(Loop(planner, query), self._plans, lambda: now_s, purge, lambda _: None)
        self._driver.begin(earlier.reports)
        self.look()

    @property
    def loop(self) -> Loop:
        """The loop."""
        return self._driver.loop

    @property
    def written(self) -> list[Plan]:
        """Every plan that was stored, in order."""
        return self._plans.written

    def handle(self, event: Event) -> int:
        """Carry out what follows from an event; how many plans were stored."""
        before = len(self.written)
        self._driver.handle(event)
        return len(self.written) - before

    def pass_time(self, until_s: float) -> None:
        """Let time pass, in which the loop renews its plan."""
        while self._passed_s + PASS_S < until_s:
            self._passed_s += PASS_S
            self.handle(Passed(self._passed_s))

    def look(self) -> None:
        """Find the newest plan; until then, batches are bound to the one that was found before."""
        newest = self.loop.in_force
        if newest is not None and (self._found is None or newest.version != self._found.version):
            self._found = self._plans.get(newest.version)

    def bind(self, batch: int, planned: Planned) -> tuple[Plan | None, float]:
        """Bind a batch permanently: the plan that judges it, and the factor on its keep shares."""
        bound = self._bindings.get(batch)
        if bound is not None:
            return None if bound.plan_version is None else self._plans.get(bound.plan_version), bound.share
        now_s, found = planned.planned_s, self._found
        newest = Newest(found, 0.0 if found is None else self._plans.renewed_s(found.version))
        plan, fits = newest.acting(now_s), share(self._start, self._query, newest, planned, now_s)
        version = None if plan is None else plan.version
        self._bindings.add(batch, Binding(batch, self._query, now_s, version, share=fits))
        return plan, fits
