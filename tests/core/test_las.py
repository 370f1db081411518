"""LAS as published: a test for every arrow of Figures 2 and 3 and for what Listings 3.1 and 3.2 say in between."""

import pytest

from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.las import Delta, LasOperator, LasShedder, Matrices, OperatorState, ShedderState
from penstock.core.row.latency_goals import Maximum, RunningAverage
from penstock.core.row.machines import Arrived, Drop, Executed, Forward, Send
from penstock.errors import PenstockError

WINDOW_ROWS = 3


def operator(**settings: float | str) -> LasOperator:
    return LasOperator(CostSketch(rows=2, columns=8), window_rows=WINDOW_ROWS, **settings)


def execute(machine: LasOperator, costs_s: list[float], *, key: int = 7) -> list[Send]:
    return [
        send
        for cost_s in costs_s
        for send in machine.executed(Executed(key, arrived_s=0.0, start_s=0.0, finish_s=cost_s, cost_s=cost_s))
    ]


def sketch_of(costs_s: dict[int | str, float]) -> CostSketch:
    sketch = CostSketch(rows=4, columns=54)
    for key, cost_s in costs_s.items():
        sketch.update(key, cost_s)
    return sketch


def sketch_of_rows(costs_s: list[float]) -> CostSketch:
    sketch = CostSketch(rows=2, columns=8)
    for cost_s in costs_s:
        sketch.update(7, cost_s)
    return sketch


def shedder_that_knows(costs_s: dict[int | str, float], *, target_s: float = 10.0, epsilon: float = 0.0) -> LasShedder:
    shedder = LasShedder(Maximum(target_s), epsilon=epsilon)
    shedder.receive(Matrices(sketch_of(costs_s)))
    return shedder


# Figure 2: the operator.


def test_figure_2a_start_to_stabilizing_takes_a_snapshot() -> None:
    machine = operator()
    assert execute(machine, [2.0] * (WINDOW_ROWS - 1)) == []
    assert machine.state is OperatorState.START
    assert execute(machine, [2.0]) == []
    assert machine.state is OperatorState.STABILIZING
    # The snapshot holds the mean of 2 s: nothing has changed at the next check, so the matrices are sent.
    assert len(execute(machine, [2.0] * WINDOW_ROWS)) == 1


def test_figure_2b_stabilizing_stays_and_updates_the_snapshot_while_costs_move() -> None:
    machine = operator(tolerance=0.5)
    execute(machine, [1.0] * WINDOW_ROWS)
    assert execute(machine, [3.0] * WINDOW_ROWS) == []  # rows 1 to 5 cost 1.8 s on average: moved by 0.8
    assert machine.state is OperatorState.STABILIZING
    # Rows 1 to 8 cost 2.25 s on average: 0.25 from the new snapshot, but 1.25 from the first one.
    assert len(execute(machine, [3.0] * WINDOW_ROWS)) == 1


def test_figure_2c_stabilizing_to_start_sends_the_matrices_and_resets_them() -> None:
    machine = operator()
    (send,) = execute(machine, [2.0] * (2 * WINDOW_ROWS - 1) + [5.0])
    assert send.message == Matrices(sketch_of_rows([2.0] * (2 * WINDOW_ROWS - 1)))
    assert machine.state is OperatorState.START
    # Reset: of the rows before, only the one that triggered the check is in the next matrices.
    (later,) = execute(machine, [5.0] * (2 * WINDOW_ROWS))
    assert later.message == Matrices(sketch_of_rows([5.0] * (2 * WINDOW_ROWS)))


def test_figure_2c_needs_equation_1_up_to_the_tolerance() -> None:
    # Snapshot of 2 rows of 1 s; at the check 4 rows of 1 s and 1 of 1.25 s: the mean has moved by exactly 0.05.
    for tolerance, sent in ((0.0500001, 1), (0.0499999, 0)):
        machine = operator(tolerance=tolerance)
        execute(machine, [1.0] * WINDOW_ROWS)
        assert len(execute(machine, [1.25, 1.0, 1.0])) == sent


def test_listing_3_1_the_row_that_triggers_the_check_is_not_yet_in_the_sketch() -> None:
    machine = operator()
    (send,) = execute(machine, [2.0] * (2 * WINDOW_ROWS - 1) + [100.0])
    assert send.message.sketch.count == 2 * WINDOW_ROWS - 1
    assert send.message.sketch.estimate(7) == 2.0


def test_listing_3_1_the_matrices_sent_do_not_change_with_the_operator() -> None:
    machine = operator()
    (send,) = execute(machine, [2.0] * (2 * WINDOW_ROWS))
    execute(machine, [50.0] * 2)
    assert send.message == Matrices(sketch_of_rows([2.0] * (2 * WINDOW_ROWS - 1)))


def test_listing_3_1_a_request_is_answered_at_once_with_the_clock_minus_the_estimate() -> None:
    machine = operator()
    row = Executed(7, arrived_s=1.0, start_s=40.0, finish_s=42.5, cost_s=2.5, request=40.0)
    assert machine.executed(row) == [Send(Delta(2.5))]
    assert execute(machine, [1.0]) == []


def test_listing_3_1_a_request_is_answered_before_the_matrices_go_out() -> None:
    machine = operator()
    execute(machine, [2.0] * (2 * WINDOW_ROWS - 1))
    row = Executed(7, arrived_s=0.0, start_s=10.0, finish_s=12.0, cost_s=2.0, request=15.0)
    assert [type(send.message) for send in machine.executed(row)] == [Delta, Matrices]


@pytest.mark.parametrize("costs_s", [[2.0] * 60, [1.0, 50.0, 3.0] * 20])
def test_first_check_sends_at_two_windows_and_every_two_windows_after_it(costs_s: list[float]) -> None:
    machine = operator(first_check=True, tolerance=0.0)
    sent_at = [row for row, cost_s in enumerate(costs_s, start=1) if execute(machine, [cost_s])]
    assert sent_at == list(range(2 * WINDOW_ROWS, 61, 2 * WINDOW_ROWS))


def test_printed_rule_sends_later_than_the_first_check_on_new_cells() -> None:
    """Equation 1 weighs new cells in full, so a stream of new keys is never stable."""
    machine = LasOperator(CostSketch(rows=2, columns=512), window_rows=10)
    sent = [send for key in range(60) for send in execute(machine, [1.0], key=key)]
    assert sent == []
    assert machine.state is OperatorState.STABILIZING


@pytest.mark.parametrize(("setting", "value"), [("window_rows", 0), ("tolerance", -0.1), ("tolerance", float("nan"))])
def test_settings_of_the_operator_that_mean_nothing_are_refused(setting: str, value: float) -> None:
    with pytest.raises(PenstockError, match=rf"^{setting} = .* is not usable: give a .*number from"):
        LasOperator(CostSketch(1, 1), **{setting: value})


def test_a_request_that_is_not_of_las_is_refused() -> None:
    with pytest.raises(TypeError, match="not a request of LAS: 'soon'"):
        operator().executed(Executed(7, 0.0, 0.0, 1.0, 1.0, request="soon"))


def test_operator_memory_is_the_two_matrices_and_the_snapshot() -> None:
    machine = operator()
    assert machine.memory_bytes == 3 * 2 * 8 * 8
    execute(machine, [2.0] * 20)
    assert machine.memory_bytes == 3 * 2 * 8 * 8


# Figure 3: the shedder.


def test_nop_lets_every_row_through_and_checks_nothing() -> None:
    shedder = LasShedder(Maximum(1e-9))
    for _ in range(100):
        assert shedder.judge(Arrived(now_s=0.0, key=7)) == Forward(1.0, None)
    assert shedder.state is ShedderState.NOP


def test_figure_3a_nop_to_send_on_first_matrices() -> None:
    shedder = LasShedder(Maximum(1.0), epsilon=0.0)
    shedder.judge(Arrived(now_s=0.0, key=7))
    assert shedder.state is ShedderState.NOP
    shedder.receive(Matrices(sketch_of({7: 2.0})))
    assert shedder.state is ShedderState.SEND
    # The pair is in use: the next row adds its 2 s.
    assert shedder.judge(Arrived(now_s=0.0, key=7)) == Forward(1.0, 2.0)


def test_figure_3b_send_to_run_piggybacks_the_estimate() -> None:
    shedder = shedder_that_knows({7: 2.0})
    # The row's own cost is in the estimate it carries (Listing 3.2, lines 23 to 25).
    assert shedder.judge(Arrived(now_s=5.0, key=7)) == Forward(1.0, 7.0)
    assert shedder.state is ShedderState.RUN
    assert shedder.judge(Arrived(now_s=5.0, key=7)) == Forward(1.0, None)


def test_figure_3b_only_a_row_that_is_not_dropped_carries_the_request() -> None:
    shedder = shedder_that_knows({7: 20.0})
    shedder.judge(Arrived(now_s=0.0, key=7))
    shedder.receive(Matrices(sketch_of({7: 1.0})))
    assert isinstance(shedder.judge(Arrived(now_s=1.0, key=7)), Drop)
    assert shedder.state is ShedderState.SEND
    assert shedder.judge(Arrived(now_s=12.0, key=7)) == Forward(2.0, 21.0)
    assert shedder.state is ShedderState.RUN


@pytest.mark.parametrize(("delta_s", "refused"), [(+9.0, True), (0.0, False), (-1.0, False)])
def test_figure_3c_delta_corrects_the_estimate(delta_s: float, *, refused: bool) -> None:
    shedder = shedder_that_knows({7: 2.0})
    shedder.judge(Arrived(now_s=0.0, key=7))
    shedder.receive(Delta(delta_s))
    assert shedder.state is ShedderState.RUN
    assert isinstance(shedder.judge(Arrived(now_s=0.0, key=7)), Drop) is refused


def test_figure_3c_delta_is_added_to_what_the_estimate_has_become() -> None:
    shedder = shedder_that_knows({7: 2.0}, target_s=100.0)
    for _ in range(3):
        shedder.judge(Arrived(now_s=0.0, key=7))
    shedder.receive(Delta(10.0))
    shedder.receive(Matrices(sketch_of({7: 2.0})))
    assert shedder.judge(Arrived(now_s=0.0, key=7)) == Forward(1.0, 3 * 2.0 + 10.0 + 2.0)


def test_figure_3c_a_delta_in_the_send_state_leaves_the_state_alone() -> None:
    shedder = shedder_that_knows({7: 2.0})
    shedder.receive(Delta(1.0))
    assert shedder.state is ShedderState.SEND


def test_figure_3d_run_to_send_on_new_matrices() -> None:
    shedder = shedder_that_knows({7: 2.0})
    shedder.judge(Arrived(now_s=0.0, key=7))
    assert shedder.state is ShedderState.RUN
    shedder.receive(Matrices(sketch_of({7: 4.0})))
    assert shedder.state is ShedderState.SEND
    assert shedder.judge(Arrived(now_s=0.0, key=7)) == Forward(1.0, 2.0 + 4.0)


def test_matrices_that_arrive_in_send_replace_the_pair_and_ask_once() -> None:
    shedder = shedder_that_knows({7: 2.0})
    shedder.receive(Matrices(sketch_of({7: 3.0})))
    assert shedder.state is ShedderState.SEND
    verdicts = [shedder.judge(Arrived(now_s=0.0, key=7)) for _ in range(3)]
    assert verdicts == [Forward(1.0, 3.0), Forward(1.0, None), Forward(1.0, None)]


def test_estimates_are_raised_by_one_plus_epsilon() -> None:
    shedder = shedder_that_knows({7: 2.0}, epsilon=0.25)
    assert shedder.judge(Arrived(now_s=0.0, key=7)) == Forward(1.0, 2.5)


def test_an_idle_operator_is_free_now_and_not_earlier() -> None:
    shedder = shedder_that_knows({7: 2.0}, target_s=1.0)
    shedder.judge(Arrived(now_s=0.0, key=7))
    # Free since t = 2. Without the clamp the 98 s of idling would pay for 49 rows.
    assert isinstance(shedder.judge(Arrived(now_s=100.0, key=7)), Forward)
    assert isinstance(shedder.judge(Arrived(now_s=100.0, key=7)), Drop)
    assert isinstance(shedder.judge(Arrived(now_s=101.0, key=7)), Forward)


def test_a_negative_delta_makes_no_negative_queuing_latency() -> None:
    shedder = LasShedder(RunningAverage(1.0), epsilon=0.0)
    shedder.receive(Matrices(sketch_of({7: 5.0})))
    shedder.judge(Arrived(now_s=0.0, key=7))
    shedder.receive(Delta(-1000.0))
    shedder.judge(Arrived(now_s=0.0, key=7))
    # Both rows were taken to wait 0; the third would wait 5, an average of 5 / 3.
    assert isinstance(shedder.judge(Arrived(now_s=0.0, key=7)), Drop)


def test_an_unseen_key_is_taken_to_cost_the_mean_of_all() -> None:
    sketch = CostSketch(rows=1, columns=10_000)
    for key, cost_s in {1: 1.0, 2: 2.0, 3: 6.0}.items():
        sketch.update(key, cost_s)
    shedder = LasShedder(Maximum(10.0), epsilon=0.0)
    shedder.receive(Matrices(sketch))
    assert shedder.judge(Arrived(now_s=0.0, key=4)) == Forward(1.0, 3.0)


def test_dropped_rows_do_not_move_the_estimate() -> None:
    shedder = shedder_that_knows({7: 20.0})
    shedder.judge(Arrived(now_s=0.0, key=7))
    for _ in range(50):
        assert shedder.judge(Arrived(now_s=1.0, key=7)) == Drop("queuing latency over target")
    # Still free at t = 20: a row at t = 10 waits the 10 s that are allowed.
    assert isinstance(shedder.judge(Arrived(now_s=10.0, key=7)), Forward)


def test_dropped_rows_do_not_count_in_the_average() -> None:
    shedder = LasShedder(RunningAverage(1.0), epsilon=0.0)
    shedder.receive(Matrices(sketch_of({7: 10.0})))
    shedder.judge(Arrived(now_s=0.0, key=7))
    for _ in range(50):
        assert isinstance(shedder.judge(Arrived(now_s=0.0, key=7)), Drop)
    # One row of 0 s so far: 2 s more make an average of exactly 1.
    assert isinstance(shedder.judge(Arrived(now_s=7.9, key=7)), Drop)
    assert isinstance(shedder.judge(Arrived(now_s=8.0, key=7)), Forward)


def test_must_keep_rows_pass_but_are_recorded() -> None:
    shedder = LasShedder(RunningAverage(1.0), epsilon=0.0)
    shedder.receive(Matrices(sketch_of({7: 10.0})))
    shedder.judge(Arrived(now_s=0.0, key=7))
    assert shedder.judge(Arrived(now_s=0.0, key=7, must_keep=True)) == Forward(1.0, None)
    # Its work counts: free at t = 20 now. Its wait counts: 10 s in two rows, so a third must wait for nothing.
    assert isinstance(shedder.judge(Arrived(now_s=19.0, key=7)), Drop)
    assert isinstance(shedder.judge(Arrived(now_s=20.0, key=7)), Drop)
    for now_s in (20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0):
        shedder.judge(Arrived(now_s=now_s, key=7, must_keep=True))
    # Eight more rows without a wait, and the average of 10 / 10 is back at the target.
    assert isinstance(shedder.judge(Arrived(now_s=90.0, key=7)), Forward)


def test_a_must_keep_row_may_carry_the_request_but_no_weight_of_others() -> None:
    shedder = shedder_that_knows({7: 20.0})
    shedder.judge(Arrived(now_s=0.0, key=7))
    assert isinstance(shedder.judge(Arrived(now_s=0.0, key=7)), Drop)
    shedder.receive(Matrices(sketch_of({7: 20.0})))
    assert shedder.judge(Arrived(now_s=0.0, key=7, must_keep=True)) == Forward(1.0, 40.0)
    assert shedder.carried_weight == 1.0


@pytest.mark.parametrize("message", [None, 3.0, "delta", sketch_of({})])
def test_a_message_of_the_wrong_type_is_refused(message: object) -> None:
    shedder = LasShedder(Maximum(1.0))
    with pytest.raises(TypeError, match="not a message of LAS"):
        shedder.receive(message)
    assert shedder.state is ShedderState.NOP


@pytest.mark.parametrize("epsilon", [-0.1, float("nan")])
def test_a_negative_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(PenstockError, match=r"^epsilon = .* is not usable: give a number from 0 up$"):
        LasShedder(Maximum(1.0), epsilon=epsilon)


def test_shedder_memory_is_fixed_once_the_matrices_are_in() -> None:
    shedder = shedder_that_knows({7: 1.0})
    before = shedder.memory_bytes
    assert before >= 2 * 4 * 54 * 8
    for key in range(100):
        shedder.judge(Arrived(now_s=float(key), key=key))
    shedder.receive(Matrices(sketch_of({"many": 1.0, "more": 2.0})))
    assert shedder.memory_bytes == before
