import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.machines import Arrived, Drop, Executed, Forward, Send
from penstock.errors import PenstockError
from penstock.sim.las.queueing import simulate
from penstock.sim.workload import Stream


class Scripted:
    """A shedder and an operator that follow a script and note what they hear, in order."""

    carried_weight = 0.0
    memory_bytes = 0

    def __init__(self, *, drop: tuple[int, ...] = (), answer: tuple[int, ...] = ()) -> None:
        self.heard: list[tuple[str, object]] = []
        self.arrived: list[Arrived] = []
        self.done: list[Executed] = []
        self._drop, self._answer = drop, answer

    def judge(self, row: Arrived) -> Forward | Drop:
        self.heard.append(("arrived", row.row))
        self.arrived.append(row)
        if row.row in self._drop and not row.must_keep:
            return Drop("odd" if row.row % 2 else "even")
        return Forward(weight=row.row + 1.0, request=f"request {row.row}")

    def receive(self, message: object) -> None:
        self.heard.append(("received", message))

    def executed(self, row: Executed) -> list[Send]:
        self.heard.append(("executed", row.key))
        self.done.append(row)
        return [Send(f"reply to {row.key}")] if row.key in self._answer else []


def stream_of(arrivals_s: list[float], costs_s: list[float]) -> Stream:
    rows = len(arrivals_s)
    return Stream(np.arange(rows), np.array(costs_s, np.float64), np.array(arrivals_s, np.float64), rows)


def test_rows_wait_for_those_before_them() -> None:
    script = Scripted()
    outcome = simulate(stream_of([0, 1, 2, 10], [4, 3, 1, 1]), script, script)
    assert outcome.queuing_s.tolist() == [0, 3, 5, 0]
    assert [(row.start_s, row.finish_s) for row in script.done] == [(0, 4), (4, 7), (7, 8), (10, 11)]


def test_dropped_rows_take_no_time_and_are_counted_by_reason() -> None:
    script = Scripted(drop=(0, 3, 5))
    outcome = simulate(stream_of([0, 0, 0, 0, 0, 0], [5, 1, 1, 9, 1, 9]), script, script)
    assert outcome.kept.tolist() == [False, True, True, False, True, False]
    assert outcome.queuing_s[outcome.kept].tolist() == [0, 1, 2]
    assert outcome.shed == {"even": 1, "odd": 2}
    assert outcome.weights.tolist() == [0, 2, 3, 0, 5, 0]


def test_machines_hear_all_there_is_to_know() -> None:
    script = Scripted()
    simulate(stream_of([0, 1], [2, 3]), script, script, must_keep=np.array([False, True]))
    assert script.arrived == [Arrived(0, 0, 0, cost_s=2), Arrived(1, 1, 1, must_keep=True, cost_s=3)]
    assert script.done == [Executed(0, 0, 0, 2, 2, "request 0"), Executed(1, 1, 2, 5, 3, "request 1")]


def test_at_the_same_moment_messages_come_before_completions_and_completions_before_arrivals() -> None:
    script = Scripted(answer=(0, 1))
    # Row 0 is done at t = 1, its message comes at t = 2, when row 1 is done and row 2 arrives.
    simulate(stream_of([0, 0, 2], [1, 1, 1]), script, script, delay_s=1.0)
    assert script.heard == [
        ("arrived", 0),
        ("arrived", 1),
        ("executed", 0),
        ("received", "reply to 0"),
        ("executed", 1),
        ("arrived", 2),
        ("received", "reply to 1"),
        ("executed", 2),
    ]


def test_a_message_without_delay_is_heard_before_the_row_that_arrives_at_that_moment() -> None:
    script = Scripted(answer=(0,))
    simulate(stream_of([0, 1], [1, 1]), script, script)
    assert script.heard == [
        ("arrived", 0),
        ("executed", 0),
        ("received", "reply to 0"),
        ("arrived", 1),
        ("executed", 1),
    ]


def test_a_delayed_message_is_not_heard_earlier() -> None:
    script = Scripted(answer=(0,))
    simulate(stream_of([0, 1, 2, 3, 4], [0.5] * 5), script, script, delay_s=2.0)
    assert script.heard.index(("received", "reply to 0")) > script.heard.index(("arrived", 2))
    assert script.heard.index(("received", "reply to 0")) < script.heard.index(("arrived", 3))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40),
    st.sets(st.integers(0, 39)),
)
def test_latencies_follow_the_recursion_of_a_single_queue(rows: list[tuple[int, int]], drop: set[int]) -> None:
    arrivals_s = np.cumsum([gap for gap, _ in rows]).astype(float).tolist()
    costs_s = [float(cost) for _, cost in rows]
    script = Scripted(drop=tuple(drop))
    outcome = simulate(stream_of(arrivals_s, costs_s), script, script)
    end_s = 0.0
    for row, (now_s, cost_s) in enumerate(zip(arrivals_s, costs_s, strict=True)):
        if row in drop:
            assert np.isnan(outcome.queuing_s[row])
            continue
        assert outcome.queuing_s[row] == max(end_s - now_s, 0.0)
        end_s = max(end_s, now_s) + cost_s
    assert outcome.kept.sum() + sum(outcome.shed.values()) == len(rows)
    assert [row.key for row in script.done] == np.flatnonzero(outcome.kept).tolist()


def test_an_empty_stream_is_no_trouble() -> None:
    script = Scripted()
    outcome = simulate(stream_of([], []), script, script)
    assert (outcome.queuing_s.size, outcome.shed, script.heard) == (0, {}, [])


@pytest.mark.parametrize("delay_s", [-0.1, float("nan")])
def test_a_message_cannot_arrive_before_it_is_sent(delay_s: float) -> None:
    with pytest.raises(PenstockError, match=r"^delay_s = .* is not usable: give a number of seconds from 0 up$"):
        simulate(stream_of([0], [1]), Scripted(), Scripted(), delay_s=delay_s)


def test_arrivals_that_go_back_in_time_are_refused() -> None:
    with pytest.raises(PenstockError, match="give finite seconds in ascending order"):
        simulate(stream_of([5, 4], [1, 1]), Scripted(), Scripted())
