from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.share import LEAST_SHARE, share_that_fits
from penstock.report import Report

TARGET_S = 2.0
COST_S = 0.001
#: What a micro-batch takes besides the work itself.
OVERHEAD_S = 0.05


def report(*, rows_in: int, rows_kept: int, busy_s: float, backlog_rows: int = 0, duration_s: float = 10.0) -> Report:
    shed = {"more work than capacity": rows_in - rows_kept} if rows_in > rows_kept else {}
    return Report(
        sequence=1,
        start_s=0.0,
        end_s=duration_s,
        rows_in=rows_in,
        rows_kept=rows_kept,
        rows_shed=shed,
        backlog_rows=backlog_rows,
        busy_s=busy_s,
    )


@pytest.mark.parametrize(
    "empty",
    [
        report(rows_in=0, rows_kept=0, busy_s=0.0),
        report(rows_in=10, rows_kept=0, busy_s=0.0),
        report(rows_in=10, rows_kept=10, busy_s=0.0),
    ],
)
def test_a_report_that_tells_nothing_of_costs_gives_no_opinion(empty: Report) -> None:
    assert share_that_fits(empty, TARGET_S) is None


def test_everything_is_kept_when_nothing_waits_and_nothing_was_shed() -> None:
    assert share_that_fits(report(rows_in=100, rows_kept=100, busy_s=10.0), TARGET_S) == 1.0


def test_everything_is_kept_again_when_nothing_waits_and_all_that_is_offered_fits() -> None:
    # 200 rows of 0.03 s are 6 s of work offered in 10 s; half of them were shed for an overload that is over.
    assert share_that_fits(report(rows_in=200, rows_kept=100, busy_s=3.0), TARGET_S) == 1.0


def test_a_share_follows_the_equation() -> None:
    # 60 rows of 0.1 s wait, 6 s of work; the last of them may wait 0.9 of 2 s.
    overloaded = report(rows_in=400, rows_kept=100, busy_s=10.0, backlog_rows=60)
    assert share_that_fits(overloaded, TARGET_S) == pytest.approx(0.9 * 2.0 / 6.0)


def test_two_tasks_at_a_time_take_in_twice_as_much() -> None:
    overloaded = report(rows_in=400, rows_kept=100, busy_s=10.0, backlog_rows=60)
    shares = [share_that_fits(replace(overloaded, slots=slots), TARGET_S) for slots in (1, 2)]
    assert shares[1] == pytest.approx(2.0 * shares[0])


@given(
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.just(0.0) | st.floats(1e-9, 1e6),
    st.integers(0, 10**9),
    st.just(0.0) | st.floats(1e-6, 1e6),
    st.floats(1e-3, 1e3),
)
def test_a_share_is_a_share_and_never_shuts_the_gate(
    kept: int, shed: int, busy_s: float, backlog_rows: int, duration_s: float, target_s: float
) -> None:
    happened = report(
        rows_in=kept + shed, rows_kept=kept, busy_s=busy_s, backlog_rows=backlog_rows, duration_s=duration_s
    )
    share = share_that_fits(happened, target_s)
    assert share is None or LEAST_SHARE <= share <= 1.0


def test_more_backlog_never_means_a_larger_share() -> None:
    shares = [
        share_that_fits(report(rows_in=400, rows_kept=100, busy_s=10.0, backlog_rows=rows), TARGET_S)
        for rows in range(0, 500, 10)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]


# The closed loop, on virtual time.


class Batch(NamedTuple):
    start_s: float
    end_s: float
    share: float
    rows_kept: int
    busy_s: float
    wait_s: float  #: mean time from a kept row's arrival to its start


def micro_batches(load: Callable[[float], float], *, trigger_s: float, until_s: float) -> list[Batch]:
    """Spark's loop: a batch takes every row that came while the batch before it ran, and the gate judges them.

    `load` is the work that arrives per second; 1 is all that the operator can do.
    """
    batches: list[Batch] = []
    share, now_s, waiting_rows, gathered_s = 1.0, trigger_s, round(load(0.0) * trigger_s / COST_S), trigger_s
    while now_s < until_s:
        rows = waiting_rows
        kept = round(rows * share)
        busy_s = kept * COST_S
        duration_s = max(trigger_s, OVERHEAD_S + busy_s)
        waiting_rows = round(load(now_s) * duration_s / COST_S)
        batches.append(Batch(now_s, now_s + duration_s, share, kept, busy_s, gathered_s / 2 + busy_s / 2))
        happened = Report(
            sequence=len(batches),
            start_s=now_s,
            end_s=now_s + duration_s,
            rows_in=rows,
            rows_kept=kept,
            rows_shed={"more work than capacity": rows - kept} if rows > kept else {},
            backlog_rows=waiting_rows,
            busy_s=busy_s,
        )
        share = share_that_fits(happened, TARGET_S) or share
        now_s, gathered_s = now_s + duration_s, duration_s
    return batches


def mean_wait_s(batches: list[Batch]) -> float:
    return sum(batch.wait_s * batch.rows_kept for batch in batches) / sum(batch.rows_kept for batch in batches)


def utilisation(batches: list[Batch]) -> float:
    return sum(batch.busy_s for batch in batches) / (batches[-1].end_s - batches[0].start_s)


@pytest.mark.parametrize("trigger_s", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("overload", [2.0, 8.0])
def test_a_lasting_overload_is_held_within_the_target_without_idling(overload: float, trigger_s: float) -> None:
    batches = micro_batches(lambda _: overload, trigger_s=trigger_s, until_s=200.0)
    settled = [batch for batch in batches if batch.start_s > 50.0]
    assert mean_wait_s(settled) <= TARGET_S
    assert utilisation(settled) > 0.8


@pytest.mark.parametrize("trigger_s", [0.0, 0.5, 1.0])
def test_a_steady_overload_gets_a_steady_share(trigger_s: float) -> None:
    batches = micro_batches(lambda _: 2.0, trigger_s=trigger_s, until_s=200.0)
    shares = [batch.share for batch in batches if batch.start_s > 50.0]
    assert 0.4 < min(shares) <= max(shares) < 0.6


@pytest.mark.parametrize("trigger_s", [0.0, 0.5, 1.0])
def test_shedding_ends_soon_after_the_load_is_gone(trigger_s: float) -> None:
    batches = micro_batches(lambda now_s: 8.0 if now_s < 100.0 else 0.3, trigger_s=trigger_s, until_s=200.0)
    assert min(batch.share for batch in batches if batch.start_s < 100.0) < 1.0
    calm = [batch.share for batch in batches if batch.start_s >= 100.0 + TARGET_S]
    assert calm[10:] == [1.0] * len(calm[10:])


@pytest.mark.parametrize("trigger_s", [0.0, 0.5, 1.0])
def test_a_load_below_capacity_sheds_nothing(trigger_s: float) -> None:
    batches = micro_batches(lambda _: 0.7, trigger_s=trigger_s, until_s=100.0)
    assert {batch.share for batch in batches} == {1.0}
