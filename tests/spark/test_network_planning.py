"""Planning for a network that fails: no batch stops, and rows flow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.core.networks import in_ms

from penstock.core.loop.events import BatchEnded, Event, Misread
from penstock.core.network.planner import NetworkPlanner
from penstock.messages.plan import Plan
from penstock.messages.report import Report

pytest.importorskip("pyspark")

from penstock.spark.network.learning import Learning
from penstock.spark.network.run import Losses, SafePlanning
from penstock.store.bound_plans import ReusedError

STAGE: Any = SimpleNamespace(name="inputs")
PLAN = Plan.keep_all(4, "by hand", 1.0)


class Failing:
    """Plans and learning that raise what they were given; None if they work."""

    snapshots = ()

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.handled: list[Event] = []

    def of(self, stage: str, batch: int, batch_id: str) -> Plan:
        assert (stage, batch, batch_id) == ("inputs", 7, "a")
        return cast("Plan", self._result(PLAN))

    def learn(self, *given: object) -> str:
        assert given[0] is STAGE
        return cast("str", self._result("a snapshot"))

    def _result(self, value: object) -> object:
        if self._error is not None:
            raise self._error
        return value

    def note(self, event: Event) -> None:
        self.handled.append(event)


def planning(failing: Any) -> tuple[SafePlanning, Losses]:
    losses = Losses(SimpleNamespace(boxes=()), [])  # type: ignore[arg-type]
    return SafePlanning("net", failing, losses, failing), losses


def test_planning_that_works_is_passed_on() -> None:
    found, losses = planning(Failing(None))
    assert found.bound(STAGE, 7, "a") is PLAN
    assert found.learned(STAGE, cast("Any", None), 7, PLAN, 0.0) == "a snapshot"
    assert (found.errors, losses.alarms()) == (0, ())


def test_a_batch_whose_plan_cannot_be_read_keeps_every_row_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(OSError("the disk is full"))
    found, losses = planning(failing)
    plan = found.bound(STAGE, 7, "a")
    assert not plan.sheds
    assert found.errors == 1
    assert [type(one) for one in failing.handled] == [Misread], "the loop takes drops back"
    assert losses.alarms() == ("1 batch ran without a plan and kept every row, the last because: the disk is full",)
    assert "the network net caught an error and keeps every row: the disk is full" in caplog.messages


def test_a_number_that_was_used_for_other_rows_stops_the_batch() -> None:
    found, _ = planning(Failing(ReusedError("inputs", 7)))
    with pytest.raises(ReusedError, match="batch 7 of inputs"):
        found.bound(STAGE, 7, "a")
    assert found.errors == 0


@pytest.mark.parametrize(("stopping", "errors"), [(False, 1), (True, 0)])
def test_learning_that_fails_costs_a_snapshot_and_is_no_error_during_a_stop(stopping: bool, errors: int) -> None:  # noqa: FBT001
    failing = Failing(ZeroDivisionError("by zero"))
    found, _ = planning(failing)
    found.stopping = stopping
    assert found.learned(STAGE, cast("Any", None), 7, PLAN, 0.0) is None
    assert (found.errors, len(failing.handled)) == (errors, errors)


@pytest.mark.parametrize(("bound_s", "elapsed_s"), [(40.0, 62.0), (100.1, 2.0), (None, 2.0)])
def test_rows_behind_a_replay_came_since_it_was_bound(bound_s: float | None, elapsed_s: float) -> None:
    ended = list[Event]()
    plans = SimpleNamespace(bound_s=lambda *_: bound_s, handle=ended.append)
    layout = SimpleNamespace(begins_with_inputs=lambda _: True)
    planner = NetworkPlanner(in_ms(), trigger_s=2.0)
    learning = Learning(layout, planner, plans, lambda: ())  # type: ignore[arg-type]
    for number, begun_s in enumerate((100.0, 102.0)):
        batch: Any = SimpleNamespace(
            report=lambda number, begun_s: Report(
                sequence=number, start_s=begun_s, end_s=begun_s + 1.0, rows_in=0, rows_kept=0
            )
        )
        learning.learn(SimpleNamespace(name="inputs", ends=()), batch, number, PLAN, begun_s)  # type: ignore[arg-type]
    first, second = (event.report for event in ended if isinstance(event, BatchEnded))
    assert first is not None
    assert second is not None
    assert (first.elapsed_s, second.elapsed_s) == (0.0, pytest.approx(elapsed_s))
