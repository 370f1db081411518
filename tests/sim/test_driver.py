"""The driver on virtual time: batches are bound by the binder of Spark, to the plans that are found."""

import pytest
from tests.core.networks import example_with_values

from penstock.core.loop.binding import Planned
from penstock.core.loop.events import BatchEnded
from penstock.core.loop.leases import LEASE_S
from penstock.messages.plan import Drop, KeepTable, Plan
from penstock.messages.report import Report
from penstock.sim.driver import Driver
from penstock.sim.network_run import NetworkRun
from penstock.store.binder import Binder


class Halves:
    """A planner that keeps half of what it kept before, at each batch."""

    alarms: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._keep = 1.0

    def decide(self, report: Report, now_s: float) -> Plan:
        self._keep /= 2.0
        return Plan(0, "halves", now_s, report.sequence, gates=(KeepTable("source", (self._keep,), ("more",)),))

    def release(self, version: int, now_s: float, note: str) -> None:
        """Nothing."""


def ended(batch: int, now_s: float) -> BatchEnded:
    return BatchEnded(now_s, batch, Report(sequence=batch, start_s=now_s, end_s=now_s, rows_in=1, rows_kept=1))


def version(driver: Driver, batch: int, now_s: float) -> int | None:
    plan, _ = driver.bind(batch, Planned(None, now_s, None))
    return None if plan is None else plan.version


def test_a_late_plan_is_not_found_yet_and_a_bound_batch_keeps_its_plan() -> None:
    driver = Driver(Halves(), 0.0)
    assert version(driver, 0, 0.0) is None
    driver.handle(ended(0, 1.0))
    assert version(driver, 1, 1.0) is None, "the plan is stored, and late"
    driver.look()
    assert version(driver, 2, 1.0) == 0
    driver.handle(ended(1, 2.0))
    assert version(driver, 3, 2.0) == 0
    driver.look()
    assert [version(driver, batch, 3.0) for batch in (4, 1, 3)] == [1, None, 0]


def test_the_lease_of_a_plan_that_sheds_ends() -> None:
    driver = Driver(Halves(), 0.0)
    driver.handle(ended(0, 1.0))
    driver.look()
    assert version(driver, 1, 1.0 + LEASE_S) == 0
    assert version(driver, 2, 2.0 + LEASE_S) is None
    driver.pass_time(2.0 + LEASE_S)
    assert version(driver, 3, 2.0 + LEASE_S) == 0, "the loop has renewed it"


def test_batches_are_bound_by_the_binder_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Binder, "bound", lambda *_: None)  # as if the binding were damaged
    driver = Driver(Halves(), 0.0)
    driver.handle(ended(0, 1.0))
    driver.look()
    assert version(driver, 1, 1.0) is None


def test_rows_of_a_network_are_cut_by_the_condition_of_the_bound_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    network = example_with_values()
    (first, *_) = network.inputs
    plan = Plan(0, "semantic", 0.0, 0, drops=(Drop(first.name, condition="value > 75 OR value < 5"),))
    monkeypatch.setattr(Driver, "bind", lambda *_: (plan, 1.0))
    run = NetworkRun(network, "semantic")
    run.run({one.name: 1000.0 for one in network.inputs}, 1)
    (batch,) = run.done
    assert batch.arcs[network.out_of[first.name][0].name] == pytest.approx(0.3 * batch.rows[first.name], rel=0.15)
