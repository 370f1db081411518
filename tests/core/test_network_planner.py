"""The planner of a network: what it decides without a run."""

import pytest
from tests.core.networks import in_ms

from penstock.core.network.planner import NetworkPlanner
from penstock.messages.report import PlaceRows, Report

TRIGGER_S = 2.0


def report(elapsed_s: float, duration_s: float, rows: int) -> Report:
    sources = {name: PlaceRows(rows, rows) for name in ("I1", "I2")}
    times = {"start_s": 0.0, "end_s": duration_s, "span_s": duration_s, "elapsed_s": elapsed_s}
    return Report(sequence=0, **times, rows_in=2 * rows, rows_kept=2 * rows, sources=sources)


def test_nothing_is_shed_while_nothing_is_known() -> None:
    found = NetworkPlanner(in_ms(), trigger_s=TRIGGER_S).learn(report(1.0, 50.0, 10**6))
    assert (found.index, found.changed) == (0, False)


def test_a_batch_without_rows_says_nothing_about_the_pace() -> None:
    planner = NetworkPlanner(in_ms(), trigger_s=TRIGGER_S, pace=2.0)
    planner.known.calibrate({box.name: 0.001 for box in in_ms().boxes}, 0.3)
    planner.learn(report(TRIGGER_S, 0.6, 0))
    assert planner.known.capacity == pytest.approx(2.0)


@pytest.mark.parametrize(("pause_s", "drops"), [(30.0, True), (7 * 86_400.0, False)])
def test_the_first_batch_of_a_run_is_cut_by_recent_rates_alone(pause_s: float, *, drops: bool) -> None:
    planner, again = (NetworkPlanner(in_ms(), trigger_s=TRIGGER_S) for _ in range(2))
    planner.known.calibrate({box.name: 0.001 for box in in_ms().boxes}, 0.3)
    planner.learn(report(TRIGGER_S, 50.0, 10**5))
    again.restore(planner.save(), 50.0 + pause_s)
    assert bool(again.recall((), 50.0 + pause_s).drops) is drops
