"""The reminder for guards that nobody watches, on virtual time."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.spark.guard.misuse import LOOK_S, ONE_GATE, UNWATCHED_S, Gate, Reminder
from penstock.testing import ManualClock


def query(number: int, guard: str | None) -> Any:
    observed = {} if guard is None else {ONE_GATE: {"rows_in": 5, "guard": guard}}
    shown = {"batchId": 0, "timestamp": "2026-11-16T10:00:00Z", "numInputRows": 5, "observedMetrics": observed}
    return SimpleNamespace(id=f"query-{number}", lastProgress=shown)


def gate(*queries: Any) -> Gate:
    spark: Any = SimpleNamespace(streams=SimpleNamespace(active=list(queries)))
    return Gate("mine", ONE_GATE, spark)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "penstock")
    return caplog


def looks(reminder: Reminder, clock: ManualClock, length_s: float) -> None:
    for _ in range(int(length_s / LOOK_S)):
        clock.advance(LOOK_S)
        reminder.look()


def test_a_guard_that_nobody_watches_is_told_of_once(told: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(0.0)
    reminder = Reminder(clock)
    reminder.expect("token", gate(query(0, None), query(1, "another"), query(2, "mine")))
    looks(reminder, clock, UNWATCHED_S)
    assert told.messages == []
    looks(reminder, clock, 2.0 * UNWATCHED_S)
    (line,) = told.messages
    assert line.startswith("query query-2 uses the gate of guard 'mine' but is not watched")
    assert line.endswith("call guard.watch(query)")


def test_who_watches_in_time_is_not_told(told: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(0.0)
    reminder = Reminder(clock)
    reminder.expect("token", gate(query(2, "mine")))
    looks(reminder, clock, UNWATCHED_S - LOOK_S)
    reminder.done("token")
    looks(reminder, clock, 10.0 * UNWATCHED_S)
    assert told.messages == []


def test_a_frame_that_no_query_runs_is_not_told_of(told: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(0.0)
    reminder = Reminder(clock)
    waiting = gate()
    reminder.expect("token", waiting)
    looks(reminder, clock, 10.0 * UNWATCHED_S)
    assert told.messages == []
    waiting.spark.streams.active.append(query(2, "mine"))  # type: ignore[attr-defined]
    looks(reminder, clock, 2.0 * UNWATCHED_S)
    assert len(told.messages) == 1


def test_a_session_that_has_ended_ends_the_wait(told: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(0.0)
    reminder = Reminder(clock)
    reminder.expect("token", Gate("mine", ONE_GATE, None))  # type: ignore[arg-type]  # it has no streams
    looks(reminder, clock, 2.0 * UNWATCHED_S)
    assert told.messages == []
