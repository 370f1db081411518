import itertools
from dataclasses import replace

import numpy as np
import pytest

from penstock.core.hashing import xxhash64
from penstock.core.row.load_aware import (
    SYNC_EVERY,
    UNREPORTED_ROWS,
    Feedback,
    LoadAwareOperator,
    LoadAwareShedder,
    Request,
)
from penstock.core.row.machines import Arrived, Drop, Executed, Forward
from penstock.core.row.price import FLOOR, Price
from penstock.sim.las.queueing import Outcome, simulate
from penstock.sim.workload import Stream

AMPLE_S = 1e6
TARGET_S = 1.0


def forwarded(shedder: LoadAwareShedder, now_s: float, key: str = "a") -> Request:
    """Let a row through that carries a request, as the first ones do, and return it."""
    verdict = shedder.judge(Arrived(now_s=now_s, key=key))
    assert isinstance(verdict, Forward)
    assert isinstance(verdict.request, Request)
    return verdict.request


def reply(request: Request, finish_s: float, costs_s: dict[str, float], waited_s: float = 0.0) -> Feedback:
    """What the operator answers when the row is done at `finish_s` and all rows so far have waited `waited_s`."""
    return Feedback(
        request.number,
        finish_s,
        tuple(xxhash64(key) for key in costs_s),
        tuple(costs_s.values()),
        clock_error_s=finish_s - request.work_s,
        queued_error_s=waited_s - request.queued_s,
    )


def shedder_that_knows(costs_s: dict[str, float], *, free_at_s: float, **settings: float | str) -> LoadAwareShedder:
    """A shedder at t = 0 that expects the operator to be free at `free_at_s`."""
    shedder = LoadAwareShedder(**{"target_s": TARGET_S} | settings)
    shedder.receive(reply(forwarded(shedder, 0.0), free_at_s, costs_s))
    return shedder


def run(
    costs_s: list[float], gaps_s: list[float], *, keys: list[str] | None = None, **settings: float | str
) -> tuple[Outcome, Stream]:
    arrivals_s = np.concatenate([[0.0], np.cumsum(gaps_s)[:-1]])
    stream = Stream(np.array(keys or ["a"] * len(costs_s)), np.array(costs_s), arrivals_s, items=2)
    shedder = LoadAwareShedder(**{"target_s": TARGET_S} | settings)
    return simulate(stream, shedder, LoadAwareOperator()), stream


def test_each_of_the_first_rows_and_then_every_eighth_carries_a_request() -> None:
    shedder = LoadAwareShedder(AMPLE_S)
    verdicts = [shedder.judge(Arrived(now_s=0.0, key="a")) for _ in range(100)]
    carrying = [row for row, verdict in enumerate(verdicts, start=1) if verdict.request]
    assert carrying == [*range(1, 9), *range(16, 101, 8)]
    assert [verdicts[row - 1].request.number for row in carrying] == list(range(1, len(carrying) + 1))


def test_dropped_rows_carry_no_request_and_do_not_count() -> None:
    shedder = shedder_that_knows({"a": 1.0}, free_at_s=1000.0)
    for _ in range(50):
        assert shedder.judge(Arrived(now_s=1.0, key="a")) == Drop("latency budget spent")
    assert forwarded(shedder, 1000.0).number == 2


def test_a_request_tells_the_sums_up_to_and_including_its_row() -> None:
    shedder = shedder_that_knows({"a": 2.0}, free_at_s=0.0, target_s=AMPLE_S)
    requests = [forwarded(shedder, 0.0) for _ in range(3)]
    assert [request.work_s for request in requests] == [2.0, 4.0, 6.0]
    assert [request.queued_s for request in requests] == [0.0, 2.0, 6.0]


def test_the_operator_answers_with_the_rows_since_the_last_request_and_both_errors() -> None:
    operator = LoadAwareOperator()
    assert operator.executed(Executed("a", arrived_s=0.0, start_s=1.0, finish_s=3.0, cost_s=2.0)) == []
    request = Request(number=5, work_s=4.0, queued_s=0.5)
    (send,) = operator.executed(Executed("b", 1.0, start_s=3.0, finish_s=7.0, cost_s=4.0, request=request))
    assert send.message == Feedback(
        5, 7.0, (xxhash64("a"), xxhash64("b")), (2.0, 4.0), clock_error_s=3.0, queued_error_s=2.5
    )
    (send,) = operator.executed(
        Executed("c", arrived_s=7.0, start_s=7.0, finish_s=8.0, cost_s=1.0, request=replace(request, number=6))
    )
    assert (send.message.key_hashes, send.message.queued_error_s) == ((xxhash64("c"),), 2.5)


def test_after_a_reply_the_operator_is_expected_free_at_its_clock_plus_the_work_outstanding() -> None:
    shedder = shedder_that_knows({"a": 2.0}, free_at_s=2.0, target_s=AMPLE_S)
    second = forwarded(shedder, 2.0)
    third = forwarded(shedder, 2.0)
    assert third.queued_s - second.queued_s == 2.0
    # The second row took 5 s instead of 2 and is done at t = 7; the third, of 2 s, is still to come.
    shedder.receive(reply(second, 7.0, {"a": 5.0}))
    fourth = forwarded(shedder, 3.0)
    assert fourth.queued_s - third.queued_s == pytest.approx(7.0 + 2.0 - 3.0)


def test_silence_tells_that_a_row_is_still_being_worked_on() -> None:
    shedder = shedder_that_knows({"a": 1.0}, free_at_s=0.0, target_s=AMPLE_S)
    stalled = forwarded(shedder, 0.0)
    # The row should be done at t = 1 and stalls until t = 11. What came after it still waits: 0, 1, 2 and 3 rows.
    outstanding = [forwarded(shedder, now_s) for now_s in (3.0, 5.0, 7.0, 9.0)]
    assert np.diff([0.0, *(request.queued_s for request in outstanding)]).tolist() == [0.0, 1.0, 2.0, 3.0]
    shedder.receive(reply(stalled, 11.0, {"a": 1.0}))
    # The clock says 11 s, and four rows of 1 s are outstanding: nothing is counted twice.
    assert forwarded(shedder, 11.0).queued_s - outstanding[-1].queued_s == pytest.approx(4.0)


def test_few_rows_are_let_into_a_stall() -> None:
    rows, stalled = 3000, 1000
    costs_s = [0.03] * rows
    costs_s[stalled] = 60.0
    outcome, stream = run(costs_s, [0.02] * rows)
    during = (stream.arrivals_s > stream.arrivals_s[stalled]) & (stream.arrivals_s < stream.arrivals_s[stalled] + 60.0)
    # What a full budget and the silence allow, not the two thirds that fit at other times.
    assert outcome.kept[during].mean() < 0.1


def test_an_operator_that_stops_reporting_does_not_shut_the_gate() -> None:
    shedder = shedder_that_knows({"a": 0.01}, free_at_s=0.0)
    verdicts = [shedder.judge(Arrived(now_s=0.1 * row, key="a", row=row)) for row in range(20_000)]
    # A tenth of the capacity is asked for; after the silence has been long enough, estimates alone decide again.
    assert sum(isinstance(verdict, Forward) for verdict in verdicts[-5_000:]) > 0.9 * 5_000


def test_rows_let_in_blind_are_not_held_against_those_after_them() -> None:
    bursts, size = 12, 1000
    costs_s = [0.01] * (bursts * size)
    gaps_s = ([0.0] * (size - 1) + [20.0]) * bursts
    outcome, _ = run(costs_s, gaps_s)
    kept = outcome.kept.reshape(bursts, size).sum(axis=1)
    assert kept[0] == size  # nothing was known yet
    # A target of 1 s is a mean wait: two seconds' worth of rows of 10 ms may stand in the queue.
    assert (kept[1:] >= 50).all()


def test_a_repeated_reply_changes_nothing() -> None:
    once, twice = (shedder_that_knows({"a": 2.0}, free_at_s=0.0) for _ in range(2))
    for shedder, times in ((once, 1), (twice, 3)):
        feedback = reply(forwarded(shedder, 0.0), 1.5, {"a": 1.0}, waited_s=9.0)
        for _ in range(times):
            shedder.receive(feedback)
    later = [Arrived(now_s=0.1 * row, key="a") for row in range(200)]
    assert [once.judge(row) for row in later] == [twice.judge(row) for row in later]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_replies_that_overtake_each_other_leave_the_newest_in_force(order: tuple[int, ...]) -> None:
    shedder = shedder_that_knows({"a": 1.0}, free_at_s=0.0, target_s=AMPLE_S)
    requests = [forwarded(shedder, 0.0) for _ in range(3)]
    replies = [reply(request, finish_s, {}) for request, finish_s in zip(requests, (10.0, 20.0, 30.0), strict=True)]
    for number in order:
        shedder.receive(replies[number])
    assert forwarded(shedder, 0.0).queued_s - requests[-1].queued_s == pytest.approx(30.0)


def test_lost_replies_are_healed_by_the_next_one() -> None:
    """The errors are told in full and not as a change, so nothing depends on the replies before."""
    heard, deaf = (shedder_that_knows({"a": 1.0}, free_at_s=0.0) for _ in range(2))
    for shedder, lost in ((heard, 0), (deaf, 3)):
        requests = [forwarded(shedder, float(second)) for second in range(5)]
        for number, request in enumerate(requests[lost:], start=lost + 1):
            shedder.receive(reply(request, 1.5 * number, {}, waited_s=2.0 * number))
    later = [Arrived(now_s=5.0 + 0.1 * row, key="a") for row in range(200)]
    verdicts = [deaf.judge(row) for row in later]
    assert [heard.judge(row) for row in later] == verdicts
    assert {type(verdict) for verdict in verdicts} == {Forward, Drop}


def test_waiting_beyond_prediction_is_paid_for() -> None:
    shedder = shedder_that_knows({"a": 1.0}, free_at_s=0.0)
    request = forwarded(shedder, 0.0)
    shedder.receive(reply(request, request.work_s, {}, waited_s=100.0 * TARGET_S))
    # In debt, a row that would wait 0.95 of the target is refused; before the reply it would have passed.
    assert isinstance(shedder.judge(Arrived(now_s=request.work_s - 0.95 * TARGET_S, key="a")), Drop)


def test_a_message_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="not a message of the load-aware operator"):
        LoadAwareShedder(TARGET_S).receive(3.0)


@pytest.mark.parametrize("prefer", ["any", "cheap"])
def test_a_must_keep_row_is_never_dropped_but_its_work_and_wait_count(prefer: str) -> None:
    shedder = shedder_that_knows({"a": 1.0}, free_at_s=1000.0, prefer=prefer)
    assert isinstance(shedder.judge(Arrived(now_s=0.0, key="a")), Drop)
    for _ in range(20):
        assert shedder.judge(Arrived(now_s=0.0, key="a", must_keep=True)).weight == 1.0
    # What the price refuses is stood for by those it spares, not carried.
    assert shedder.carried_weight == (1.0 if prefer == "any" else 0.0)
    assert isinstance(shedder.judge(Arrived(now_s=1018.0, key="b", must_keep=True)), Forward)
    # Free at t = 1021 or later, and deep in debt: not even half the target may be waited.
    assert isinstance(shedder.judge(Arrived(now_s=1020.0 - TARGET_S / 2, key="a")), Drop)


@pytest.mark.parametrize("prefer", ["any", "cheap"])
def test_an_idle_operator_gets_the_next_row_whatever_came_before(prefer: str) -> None:
    shedder = shedder_that_knows({"a": 1.0}, free_at_s=1000.0, prefer=prefer)
    for row in range(1000):
        assert isinstance(shedder.judge(Arrived(now_s=0.0, key="a", row=row)), Drop)
    assert isinstance(shedder.judge(Arrived(now_s=1000.0, key="a", row=1000)), Forward)


def test_weight_of_dropped_rows_is_carried_to_the_next_row_kept() -> None:
    shedder = shedder_that_knows({"a": 1.0}, free_at_s=1000.0)
    for _ in range(4):
        assert isinstance(shedder.judge(Arrived(now_s=0.0, key="a", weight=2.0)), Drop)
    assert shedder.carried_weight == 8.0
    assert shedder.judge(Arrived(now_s=1000.0, key="a")).weight == 9.0


# Preferring cheap rows.


def overloaded_at_the_lowest_price(seed: int) -> LoadAwareShedder:
    shedder = shedder_that_knows({"cheap": 0.1, "dear": 1.9}, free_at_s=100.0, prefer="cheap", seed=seed)
    for _ in range(300):
        shedder.judge(Arrived(now_s=0.0, key="dear"))
    return shedder


def test_cheap_rows_are_preferred_under_overload() -> None:
    rows = 6000
    keys = ["cheap", "dear"] * (rows // 2)
    # Work of 1.0 s a row on average comes every 0.65 s: a third must go.
    outcome, _ = run([0.1, 1.9] * (rows // 2), [0.65] * rows, keys=keys, prefer="cheap", target_s=5.0)
    kept = outcome.kept.reshape(-1, 2)[rows // 20 :].mean(axis=0)
    assert kept[0] > 0.95
    assert 0.3 < kept[1] < 0.75
    blind, _ = run([0.1, 1.9] * (rows // 2), [0.65] * rows, keys=keys, prefer="any", target_s=5.0)
    assert outcome.kept.sum() > 1.1 * blind.kept.sum()
    for each in (outcome, blind):
        assert np.nanmean(each.queuing_s) <= 5.0


def spared_rows(seed: int) -> set[int]:
    """At this queue, the price or the budget refuses every row; the reason tells which rows the price had spared."""
    shedder = overloaded_at_the_lowest_price(seed)
    verdicts = [(row, shedder.judge(Arrived(now_s=0.0, key="dear", row=row))) for row in range(20_000)]
    assert {type(verdict) for _, verdict in verdicts} == {Drop}
    return {row for row, verdict in verdicts if verdict.reason != Price.reason}


def test_about_one_in_a_hundred_dear_rows_is_spared_by_its_identity() -> None:
    spared = spared_rows(seed=1)
    # Five standard deviations of a binomial count.
    assert abs(len(spared) - FLOOR * 20_000) < 5 * np.sqrt(FLOOR * 20_000)
    assert spared_rows(seed=1) == spared
    assert len(spared_rows(seed=2) & spared) < 20


def test_a_row_that_stands_for_ten_may_cost_ten_times_as_much() -> None:
    plain = [too_dear(shedder, "x", 1.0) for shedder in priced_shedders()]
    heavy = [too_dear(shedder, "ten x", 10.0) for shedder in priced_shedders()]
    light = [too_dear(shedder, "ten x", 1.0) for shedder in priced_shedders()]
    assert plain == heavy
    assert sum(light) > sum(plain) > 0


def priced_shedders() -> list[LoadAwareShedder]:
    """Shedders whose price has fallen more and more."""
    shedders = []
    for rows in range(0, 60, 2):
        shedder = shedder_that_knows({"x": 1.0, "ten x": 10.0}, free_at_s=3.0, prefer="cheap")
        for _ in range(rows):
            shedder.judge(Arrived(now_s=0.0, key="x"))
        shedders.append(shedder)
    return shedders


def too_dear(shedder: LoadAwareShedder, key: str, weight: float) -> bool:
    verdict = shedder.judge(Arrived(now_s=0.0, key=key, row=1, weight=weight))
    return isinstance(verdict, Drop) and verdict.reason == Price.reason


def test_a_lightly_loaded_operator_keeps_even_a_very_dear_row() -> None:
    rows = 3000
    costs_s = [0.5 if row % 1000 == 999 else 0.001 for row in range(rows)]
    keys = ["dear" if cost_s == 0.5 else "cheap" for cost_s in costs_s]
    outcome, _ = run(costs_s, [1.0] * rows, keys=keys, prefer="cheap")
    assert np.nanmax(outcome.queuing_s) == 0.0
    assert outcome.shed == {}


# The target, on virtual time.


@pytest.mark.parametrize("prefer", ["any", "cheap"])
@pytest.mark.parametrize("overload", [2.0, 10.0])
def test_an_overload_from_the_first_row_on_stays_within_the_target(prefer: str, overload: float) -> None:
    rows = 8000
    costs_s = np.random.default_rng(1).exponential(0.05, rows)
    outcome, _ = run(costs_s.tolist(), [0.05 / overload] * rows, prefer=prefer)
    assert np.nanmean(outcome.queuing_s) <= 1.01 * TARGET_S
    # Nor is it held by dropping everything: the operator has enough to do.
    assert outcome.kept.mean() > 0.8 / overload
    assert np.nanmax(outcome.queuing_s) < 20 * TARGET_S


@pytest.mark.parametrize("prefer", ["any", "cheap"])
def test_shedding_ends_after_a_stall_of_the_operator(prefer: str) -> None:
    rows = 20_000
    costs_s = [0.03] * rows
    costs_s[1000] = 600.0
    outcome, stream = run(costs_s, [0.1] * rows, prefer=prefer)
    after = np.flatnonzero(~outcome.kept)
    assert after.size
    # The stall ends at t = 700 s with 180 s of work waiting; twice that later it is as if it had never been.
    assert stream.arrivals_s[after].max() < 700.0 + 2 * 180.0
    assert np.nanmax(outcome.queuing_s[15_000:]) == 0.0


def test_memory_of_the_operator_stays_bounded_if_no_row_ever_carries_a_request() -> None:
    operator = LoadAwareOperator()
    for row in range(5000):
        operator.executed(Executed(row, 0.0, 0.0, 1.0, 1.0))
    (send,) = operator.executed(Executed(0, 0.0, 0.0, 1.0, 1.0, Request(1, 0.0, 0.0)))
    assert SYNC_EVERY <= len(send.message.key_hashes) <= UNREPORTED_ROWS


def test_a_lost_reply_does_not_shut_the_gate() -> None:
    shedder = shedder_that_knows({"a": 0.5}, free_at_s=0.0)
    lost = [forwarded(shedder, now_s) for now_s in (0.0, 0.1, 0.2)]
    assert len(lost) == 3
    # None of them is ever answered. Each target one row goes as a probe, and its reply opens the gate again.
    probes = []
    for step in range(300):
        now_s = 0.3 + 0.05 * step
        verdict = shedder.judge(Arrived(now_s=now_s, key="a", row=step))
        if isinstance(verdict, Forward) and verdict.request is not None:
            probes.append(now_s)
            shedder.receive(reply(verdict.request, now_s, {"a": 0.5}))
    assert len(probes) > 10


def test_one_wrong_clock_heals() -> None:
    shedder = shedder_that_knows({"a": 0.01}, free_at_s=0.0)
    shedder.judge(Arrived(now_s=3600.0, key="a"))  # an hour ahead, once
    kept = 0
    for step in range(2_000):
        now_s = 1.0 + 0.1 * step
        verdict = shedder.judge(Arrived(now_s=now_s, key="a", row=step))
        if isinstance(verdict, Forward):
            kept += 1
            if verdict.request is not None:
                shedder.receive(reply(verdict.request, now_s + 0.01, {"a": 0.01}))
    assert kept > 1_000


def test_a_pause_of_the_stream_does_not_hide_a_stall() -> None:
    rows, stalled = 4000, 1010
    costs_s = [0.015] * rows
    costs_s[stalled] = 30.0
    gaps_s = [0.01] * rows
    gaps_s[1000] = 30.0
    outcome, stream = run(costs_s, gaps_s)
    during = (stream.arrivals_s > stream.arrivals_s[stalled]) & (stream.arrivals_s < stream.arrivals_s[stalled] + 30.0)
    assert outcome.kept[during].mean() < 0.1
