"""The driver of a loop on virtual time: logs in memory, and batches bound to the plans found in them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from penstock.core.control.policies import Planner
from penstock.core.loop.binding import Planned, Start
from penstock.core.loop.events import Event, Passed
from penstock.core.loop.leases import LEASE_S
from penstock.core.loop.machine import Loop
from penstock.messages.plan import Binding, Plan
from penstock.messages.report import Report
from penstock.store import retention
from penstock.store.binder import Binder
from penstock.store.driver import Driver as LogDriver
from penstock.store.logs import BindingLog, Log, PlanLog
from penstock.store.memory import MemoryStore

_L = TypeVar("_L", bound=Log[Any])
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


class Plans(PlanLog):
    """Plans in memory; the last one is not decoded again."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        super().__init__(store or MemoryStore())
        self._last: Plan | None = None

    def add(self, version: int, entry: Plan) -> bool:
        """Store the plan and return true; false if that version is taken."""
        added = super().add(version, entry)
        self._last = entry if added else self._last
        return added

    def get(self, version: int) -> Plan | None:
        """The plan of that version; `None` if it is absent."""
        return self._last if self._last and self._last.version == version else super().get(version)


class _FoundPlans(Plans):
    """A log of plans as a query sees it that has not found all of them yet: a plan that is late is hidden."""

    def find(self, version: int) -> None:
        """Find the plans up to this version."""
        self._last = self.get(version)

    def taken(self, version: int) -> bool:
        return self._last is not None and version <= self._last.version and super().taken(version)

    def versions(self) -> list[int]:
        return [version for version in super().versions() if self.taken(version)]


class Driver:
    """A query's loop, its plans and its bindings."""

    def __init__(
        self,
        planner: Planner,
        now_s: float,
        *,
        counted: bool = False,
        query: str = "simulated",
        earlier: Earlier = Earlier(),  # noqa: B008 - immutable
    ) -> None:
        """Begin; `counted` says that the source reports the rows of a batch before it runs."""
        store, known = MemoryStore(), dict[bytes, Any]()
        self._plans, self._found = remembering(Plans(store), known), remembering(_FoundPlans(store), known)
        self._bindings = remembering(BindingLog(MemoryStore()))
        self.written: list[Plan] = []  #: every plan that was stored, in order
        self._query, self._start = query, Start(now_s, counted=counted)
        self._passed_s = now_s
        if earlier.newest is not None:
            self._plans.add(earlier.newest.version, earlier.newest)
            self._found.find(earlier.newest.version)
        if earlier.unfinished is not None:
            self._bindings.add(earlier.unfinished.bound.batch, earlier.unfinished.bound)
        self._binder = Binder(self._found, self._bindings)
        purge = partial(retention.purge, self._plans, self._bindings)
        self._driver = LogDriver(Loop(planner, query), self._plans, lambda: now_s, purge, lambda _: None)
        self._driver.begin(earlier.reports)
        self._note()
        self.look()

    @property
    def loop(self) -> Loop:
        """The loop."""
        return self._driver.loop

    def handle(self, event: Event) -> int:
        """Carry out what follows from an event; how many plans were stored."""
        self._driver.handle(event)
        return self._note()

    def _note(self) -> int:
        """Note a plan that is new; how many there are."""
        newest = self.loop.in_force
        if newest is None or (self.written and self.written[-1].version == newest.version):
            return 0
        self.written.append(newest)
        return 1

    def pass_time(self, until_s: float) -> None:
        """Let time pass, in which the loop renews its plan."""
        while self._passed_s + PASS_S < until_s:
            self._passed_s += PASS_S
            self.handle(Passed(self._passed_s))

    def look(self) -> None:
        """Find the newest plan; until then, batches are bound to the one that was found before."""
        if self.loop.in_force is not None:
            self._found.find(self.loop.in_force.version)

    def bind(self, batch: int, planned: Planned) -> tuple[Plan | None, float]:
        """Bind a batch permanently, as Spark does: the plan that judges it, and the factor on its keep shares."""
        bound = self._binder.bound(
            batch,
            lambda: self._binder.new(batch, self._query, planned.planned_s, start=self._start, planned=lambda: planned),
        )
        if bound is None or bound.plan_version is None:
            return None, 1.0 if bound is None else bound.share
        return self._binder.plan(bound.plan_version), bound.share


def remembering(log: _L, known: dict[bytes, Any] | None = None) -> _L:
    """A log that decodes no entry twice, nor what it has encoded itself; logs in one store share what is `known`."""
    found: dict[bytes, Any] = {} if known is None else known
    encode, decode = log._content, log._entry  # noqa: SLF001 - no other part of the log is replaced

    def content(entry: Any) -> bytes:  # noqa: ANN401 - an entry of any kind
        found[made := encode(entry)] = entry
        return made

    def entry(name: str, content: bytes) -> Any:  # noqa: ANN401 - an entry of any kind
        if content not in found:
            found[content] = decode(name, content)
        return found[content]

    log._content, log._entry = content, entry  # type: ignore[method-assign] # noqa: SLF001
    return log
