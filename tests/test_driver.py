"""The driver of a loop, and the plans of networks and sites, over a store that fails."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from penstock.core.control.memory import from_text
from penstock.core.control.policies import memory_of
from penstock.core.fairness.sites.decisions import SiteDecisions
from penstock.core.fairness.sites.planner import SiteInput, SitePlanner, SiteQuery
from penstock.core.loop.binding import Newest
from penstock.core.loop.events import BatchEnded, Misread, Passed
from penstock.core.loop.leases import LEASE_S
from penstock.core.loop.machine import Loop
from penstock.errors import PenstockError
from penstock.federation.account import site_report
from penstock.messages.plan import Drop, KeepTable, Plan
from penstock.messages.report import BoxStatistics, PlaceRows
from penstock.store.bound_plans import BoundPlans, SitePlans
from penstock.store.driver import Driver
from penstock.store.interface import StoreError
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.memory import MemoryStore
from penstock.store.retention import Keep

SHEDDING = (KeepTable("source", (0.5,), ("over capacity",)),)


class Moody(MemoryStore):
    """A store that can be made to refuse."""

    refuses_reads = refuses_writes = False

    def create(self, name: str, content: bytes) -> bool:
        if self.refuses_writes:
            raise StoreError("full")
        return super().create(name, content)

    def names(self) -> list[str]:
        if self.refuses_reads:
            raise StoreError("unreadable")
        return super().names()


class Sheds:
    """A planner whose every plan sheds, by gates or by drops."""

    alarms = ()

    def __init__(self, **parts: object) -> None:
        self.parts: Mapping[str, object] = parts or {"gates": SHEDDING}
        self.fails: Exception | None = None

    def decide(self, report: object, now_s: float) -> Plan | None:
        del report
        if self.fails is not None:
            raise self.fails
        return Plan(0, "sheds", now_s, 0, **self.parts)  # type: ignore[arg-type]

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        return Plan(version, "sheds", now_s, 0, note=note)


def driver(plans: PlanLog, planner: Sheds | None = None) -> Driver:
    clock = itertools.count(1.0)
    return Driver(Loop(planner or Sheds(), "query"), plans, lambda: next(clock), lambda *_: None, lambda _: None)


def test_a_version_is_not_used_again_after_it_was_deleted() -> None:
    plans = PlanLog(MemoryStore())
    slow, other = driver(plans), driver(plans)
    slow.begin(())  # It finds no plan, and writes late.
    other.begin(())
    for batch in range(20):
        other.handle(BatchEnded(float(batch), batch, "report"))
    plans.purge(15)
    slow.handle(BatchEnded(21.0, 20, "report"))
    assert plans.versions() == [15, 16, 17, 18, 19, 20]


def test_a_driver_is_stopped_even_if_its_log_cannot_be_read() -> None:
    store = Moody()
    plans = PlanLog(store)
    one = driver(plans)
    one.handle(BatchEnded(1.0, 0, "report"))
    store.refuses_reads = True
    with pytest.raises(StoreError):
        one.stop("over")
    store.refuses_reads = False
    for event in (Passed(3.0), BatchEnded(4.0, 1, "report")):
        one.handle(event)
    newest = plans.latest()
    assert newest is not None
    assert not newest.sheds


def test_a_driver_that_could_not_begin_is_stopped_too() -> None:
    store = Moody()
    store.refuses_reads = True
    one = driver(PlanLog(store))
    for work in (lambda: one.begin(()), lambda: one.stop("over")):
        with pytest.raises(StoreError):
            work()
    store.refuses_reads = False
    one.handle(BatchEnded(4.0, 1, "report"))
    assert one.plans.latest() is None


@pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
def test_a_plan_of_a_clock_that_was_wrong_acts_only_once_it_is_renewed(ahead_s: float) -> None:
    plan = Plan(0, "sheds", 1e6 + ahead_s, 0, gates=SHEDDING)
    assert Newest(plan).in_lease(1e6) == (ahead_s == 0.0)
    assert Newest(plan, 1e6 - LEASE_S).in_lease(1e6)


def bound_plans(stores: Mapping[str, MemoryStore], planner: Sheds, keep: Keep | None = None) -> BoundPlans:
    bindings = {name: BindingLog(store) for name, store in stores.items() if name != "plans"}
    clock = itertools.count(1.0)
    loop = Loop(planner, "", purge_every=5)
    return BoundPlans(PlanLog(stores["plans"]), bindings, loop, clock=lambda: next(clock), keep=keep)


def test_no_stage_of_a_network_deletes_the_plan_that_another_may_replay() -> None:
    stores = {name: MemoryStore() for name in ("plans", "inputs", "idle")}
    keep = Keep(batches=20, least_batches=10, newest_plans=3)
    plans = bound_plans(stores, Sheds(drops=(Drop("I", keep=0.5),)), keep)
    plans.handle(BatchEnded(1.0, 0, "report"))
    first = plans.of("idle", 0)
    for batch in range(1, 2_050):
        plans.of("inputs", batch)
        plans.handle(BatchEnded(float(batch), batch, "report"))
    again = bound_plans(stores, Sheds(drops=()), keep)
    assert again.of("idle", 0) == first
    assert len(PlanLog(stores["plans"]).versions()) < 40


def test_in_doubt_a_network_keeps_every_row_even_if_that_plan_cannot_be_written() -> None:
    stores = {"plans": Moody(), "inputs": MemoryStore()}
    plans = bound_plans(stores, Sheds(drops=(Drop("I", keep=0.5),)))
    plans.handle(BatchEnded(1.0, 0, "report"))
    assert plans.of("inputs", 1).drops
    stores["plans"].refuses_writes = True  # type: ignore[attr-defined]
    with pytest.raises(StoreError):
        plans.handle(Misread(2.0))
    assert not plans.of("inputs", 2).drops


def test_an_error_that_cannot_be_written_either_is_logged_and_no_batch_stops() -> None:
    store, told = Moody(), list[str]()
    loop = Loop(Sheds(drops=(Drop("I", keep=0.5),)), "")
    plans = BoundPlans(PlanLog(store), {"inputs": BindingLog(MemoryStore())}, loop, clock=lambda: 1.0, tell=told.append)
    plans.handle(BatchEnded(1.0, 0, "report"))
    store.refuses_writes = True
    plans.note(Misread(2.0))
    plans.stop()
    assert told == ["a plan cannot be made or written: full"] * 2
    assert not plans.of("inputs", 1).drops


def test_the_last_plan_of_a_stopped_network_keeps_every_row() -> None:
    stores = {name: MemoryStore() for name in ("plans", "inputs")}
    planner = Sheds(drops=(Drop("I", keep=0.5),))
    plans = bound_plans(stores, planner)
    plans.handle(BatchEnded(1.0, 0, "report"))
    first = plans.of("inputs", 1)
    assert first.sheds
    plans.stop()
    last = PlanLog(stores["plans"]).latest()
    assert last is not None
    assert (last.sheds, last.note) == (False, "stopped")
    plans.note(BatchEnded(3.0, 1, "report"))  # The end of a batch that a stop has interrupted.
    assert PlanLog(stores["plans"]).latest() == last
    again = bound_plans(stores, planner)
    assert again.of("inputs", 1) == first, "a batch that was bound is judged as before"
    assert not again.of("inputs", 2).sheds


def site_plans(stores: Sequence[MemoryStore], planner: SiteDecisions, now_s: float) -> SitePlans:
    logs = PlanLog(stores[0]), BindingLog(stores[1]), BindingLog(stores[2])
    return SitePlans(*logs, Loop(planner, ""), clock=lambda: now_s, tell=lambda _: None)


def test_a_site_learns_through_its_loop_and_its_last_plan_keeps_every_row_and_has_what_was_learned() -> None:
    def decisions() -> SiteDecisions:
        inputs = {"f.I": SiteInput("f", "q", source=True)}
        return SiteDecisions(SitePlanner(inputs, {"q": SiteQuery(sources=1)}, busy_share=0.1), "balance")

    stores = [MemoryStore() for _ in range(3)]
    planner, refused = decisions(), list[Exception]()
    plans = site_plans(stores, planner, 10.0)
    for batch in range(3):
        came = site_report(batch, 10.0, 2.0, {"f.I": PlaceRows(400, 400)})
        plan = plans.of(batch, "", lambda came=came: came, refused.append)  # type: ignore[misc]
        kept = round(400 * plan.drops[0].keep)
        plans.learn(replace(came, boxes={"f": BoxStatistics(kept, kept, 0.01 * kept)}))
    assert PlanLog(stores[0]).versions() == [0, 1, 2], "what a batch measured is no plan"
    assert plan.sheds
    assert plan.memory != memory_of(planner), "the last batch is learned after its plan"
    plans.stop()
    last = PlanLog(stores[0]).latest()
    assert last is not None
    assert (last.sheds, last.note, last.memory) == (False, "stopped", memory_of(planner))

    planner = decisions()
    again = site_plans(stores, planner, 60.0)
    assert from_text(memory_of(planner)) == from_text(last.memory)
    assert again.last_s == 10.0, "the plan of a stop is for no batch"
    assert again.of(2, "", lambda: came, refused.append) == plan
    assert not refused


@pytest.mark.parametrize("fault", [ZeroDivisionError("division by zero"), PenstockError("no such input")])
def test_a_batch_of_a_site_that_cannot_be_planned_keeps_every_row_at_every_replay(fault: Exception) -> None:
    stores = [MemoryStore() for _ in range(3)]
    logs = PlanLog(stores[0]), BindingLog(stores[1]), BindingLog(stores[2])
    planner, met = Sheds(drops=(Drop("I", keep=0.5),)), list[Exception]()
    planner.fails = fault
    for _ in range(2):
        loop = Loop(planner, "")
        plans = SitePlans(*logs, loop, clock=lambda: 1.0, tell=lambda _: None)
        assert not plans.of(0, "", lambda: "came", met.append).drops
        planner.fails = None
    assert met == [fault]
    assert plans.of(1, "", lambda: "came", met.append).drops
