"""One query of a schedule: its logs, its batches, and the promises about them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.control.backlog import age_thresholds
from penstock.core.control.gate import coins, judge
from penstock.core.control.planner import SOURCE
from penstock.core.control.policies import restore
from penstock.core.fairness.member_planner import MemberPlanner
from penstock.core.fairness.planner import FairPlanner
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.federation.exchange import Inbox
from penstock.messages.plan import Drop, Fits, KeepTable, Plan
from penstock.sim.chaos.faults import FaultyStore, require
from penstock.sim.driver import remembering
from penstock.store import retention
from penstock.store.binder import Binder
from penstock.store.bound_plans import BoundPlans, SitePlans
from penstock.store.driver import Driver
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.retention import Keep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.control.policies import Recalling
    from penstock.core.loop.events import Began
    from penstock.messages.plan import Backlog, Binding
    from penstock.sim.chaos.faults import Chance

ROWS = 16
#: A query of a schedule keeps so little that a short run counts as a long one.
KEEP, PURGE_EVERY = Keep(batches=12, least_batches=6, newest_plans=4), 4
#: The most batches whose entries are left at the end.
MOST_BATCHES = KEEP.batches + 3 * PURGE_EVERY
#: The most plans that are left of those older than any plan that a batch is bound to.
MOST_PLANS = KEEP.batches + KEEP.newest_plans
_COINS, _KEYS = coins(7, np.arange(ROWS)), np.arange(ROWS)
#: Every second row has waited for a while when its batch is bound.
_BOUND_S, _ARRIVALS_S = 1e9, 1e9 - np.tile([1.0, 100.0], ROWS // 2)
_WHOLE = KeepTable(SOURCE, (1.0,), ("",))


@dataclass(frozen=True)
class Kinds:
    """The classes under test. A test of the schedules puts broken ones here."""

    loop: type[Loop] = Loop
    binder: type[Binder] = Binder
    driver: type[Driver] = Driver
    purge: Callable[..., None] = retention.purge
    fair: type[FairPlanner] = FairPlanner
    member: type[MemberPlanner] = MemberPlanner
    stages: type[BoundPlans] = BoundPlans
    site: type[SitePlans] = SitePlans
    inbox: type[Inbox] = Inbox


class Fickle:
    """A planner that decides by chance, and remembers how often it has decided."""

    alarms = ()

    def __init__(self, chance: Chance, *, drops: bool) -> None:
        """Shed by keep tables, or by drops, which have no lease."""
        self._chance, self._drops, self._decided = chance, drops, 0

    def decide(self, report: object, now_s: float) -> Plan | None:
        """Any plan, or none."""
        del report
        if not self._chance.calmed and self._chance.happens(0.05, "planner failed"):
            raise PenstockError("the planner does not know what to do")
        self._decided += 1
        keep = self._chance.choice([None, 0.25, 0.5, 1.0])
        fits = Fits(5.0, 10.0) if self._chance.happens(0.3) and not self._drops else None
        if keep is None or self._chance.quiet:
            return None
        if self._drops:
            return Plan(0, "fickle", now_s, 0, drops=(Drop(SOURCE, keep=keep),) if keep < 1.0 else ())
        gates = (KeepTable(SOURCE, (keep,), ("over capacity",)),) if keep < 1.0 else ()
        return Plan(0, "fickle", now_s, 0, gates=gates, fits=fits)

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        """Keep everything, or decide nothing."""
        releases = self._drops or self._chance.calmed or self._chance.happens(0.7)
        return Plan(version, "fickle", now_s, 0, note=note) if releases else None

    def save(self) -> Mapping[str, int]:
        """How often it has decided."""
        return {"decided": self._decided}

    def restore(self, state: Mapping[str, int], now_s: float) -> None:
        """Continue to count."""
        del now_s
        self._decided = state["decided"]

    def recall(self, reports: object, now_s: float) -> None:
        """Nothing follows from reports of an earlier run."""


def check_start(planner: Recalling, another: Recalling, query: str, began: Began) -> None:
    """A planner whose loop has begun so knows what another one learns from the same plan and reports."""
    restore(another, began.newest, query, began.now_s)
    another.recall(began.reports, began.now_s)
    require(planner.save() == another.save(), "a planner that starts knows what the last one has learned")


class Query:
    """The logs of a query, and what its batches and plans were so far.

    Attributes:
        name: Its name.
        plans: Its plans.
        bindings: Its bindings.
        batch: The batch that is not committed.
    """

    def __init__(self, name: str, chance: Chance, plans: FaultyStore | None = None) -> None:
        """Begin; stages of a network share `plans`."""
        self.name, self.chance = name, chance
        self._plans, self._bindings = plans or FaultyStore(chance, "plans"), FaultyStore(chance, "bindings")
        self.plans = remembering(PlanLog(self._plans))
        self.bindings = remembering(BindingLog(self._bindings))
        self.batch = 0
        self._checked: dict[int, Plan] = {}
        self._bound: dict[int, Binding] = {}
        self._kept: dict[int, tuple[bool, ...]] = {}

    def attempt(self) -> int:
        """The batch that Spark runs now: the one not committed, or a late attempt of a recent one."""
        if self._bound and self.chance.happens(0.05, "late attempt of an earlier batch"):
            return max(self.batch - self.chance.choice([1, 2, 3]), 0)
        return self.batch

    def found(self, bound: Binding) -> None:
        """An attempt of a batch has found this binding."""
        if bound.batch in self._bound:
            self.chance.counts["batch replayed"] += 1
        require(self._bound.setdefault(bound.batch, bound) == bound, "a batch is bound once")

    def judged(self, batch: int, plan: Plan | None, bound: Binding | None = None, *, known: bool) -> tuple[bool, ...]:
        """The rows that a plan keeps of a batch; `known` says that the attempt has found the batch's binding."""
        drop = None if plan is None else plan.drop(SOURCE)
        table = None if plan is None else plan.gate(SOURCE)
        if drop is not None:
            table = KeepTable(SOURCE, (drop.keep,), ("dropped",))
        share, backlog = (1.0, None) if bound is None else (bound.share, bound.backlog)
        whole = table is None and share >= 1.0 and backlog is None
        kept, shed = ((True,) * ROWS, 0) if whole else verdicts(table or _WHOLE, share, backlog)
        if known:
            # One attempt gives the sink its rows; what is shed may be counted, and put in quarantine, by another one.
            first = self._kept.setdefault(batch, kept)
            require(sum(first) + shed == ROWS, "rows in = kept + shed")
            require(first == kept, "a batch is judged alike at every replay")
        return kept

    def bound(self, batch: int) -> Binding | None:
        """The binding that an attempt of a batch has found; None if it cannot be known."""
        bound = None if self.chance.faulty else self.bindings.get(batch)
        if bound is not None:
            self.found(bound)
        return bound

    def torn(self, version: int | None) -> bool:
        """Whether the file of a plan was torn."""
        return _file(version or 0) in self._plans.torn

    def mend(self, batch: int) -> None:
        """An operator deletes a torn binding, as the error says."""
        name = f"{batch:020d}.binding"
        if name in self._bindings.torn:
            self.chance.counts["torn file deleted by an operator"] += 1
            self._bindings.torn.discard(name)
            self._bindings.pieces().pop(name)

    def check(self, in_force: Plan | None) -> None:
        """What holds of the store, and of a plan that a loop believes to be in force."""
        require(not self._plans.changed, "a plan never changes")
        if in_force is not None and self._checked.get(in_force.version) is not in_force:
            self._checked[in_force.version] = in_force
            require(self._has(in_force), "a plan is durable before it acts")
            self.chance.counts["shedding plan of a learning planner"] += (
                in_force.policy == "load_aware" and in_force.sheds
            )
            require(in_force.memory, "a plan carries what its planner has learned")

    def _has(self, plan: Plan) -> bool:
        """Whether the store had a plan first under its version."""
        name = _file(plan.version)
        with suppress(ValueError):  # It is torn.
            return bool(self.plans._entry(name, self._plans.first.get(name, b"")) == plan)  # noqa: SLF001 - known here
        return False


def _file(version: int) -> str:
    return f"{version:020d}.plan"


@lru_cache(maxsize=1_000)
def verdicts(table: KeepTable, share: float, backlog: Backlog | None) -> tuple[tuple[bool, ...], int]:
    """Which rows a table keeps of a batch of which a share fits, and how many it sheds."""
    by_age = None if backlog is None else age_thresholds(backlog, _ARRIVALS_S, _BOUND_S)
    found = judge(table, key_hashes=_KEYS, coins=_COINS, by_age=by_age, share=share)
    return tuple(found.kept.tolist()), sum(found.shed_by_reason(table).values())
