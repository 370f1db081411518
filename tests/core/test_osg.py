"""OSG as published: a test for every arrow of Figures 2 and 3, and for what Listings 3.1 and 3.2 say in between."""

import pytest

from penstock.core.grouping.machines import Assign, Done, Received, Send
from penstock.core.grouping.osg import (
    OsgInstance,
    OsgScheduler,
    SchedulerState,
    SyncReply,
    SyncRequest,
)
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.las import Matrices, OperatorState
from penstock.core.row.machines import Arrived
from penstock.errors import PenstockError

WINDOW_ROWS = 3


def instance_of(**settings: float) -> OsgInstance:
    return OsgInstance(CostSketch(rows=2, columns=8), window_rows=WINDOW_ROWS, **settings)


def execute(machine: OsgInstance, costs_s: list[float], *, key: int = 7) -> list[Send]:
    return [send for cost_s in costs_s for send in machine.executed(Done(key, 0.0, finish_s=cost_s, cost_s=cost_s))]


def sketch_of(costs_s: dict[int | str, float]) -> CostSketch:
    sketch = CostSketch(rows=4, columns=54)
    for key, cost_s in costs_s.items():
        sketch.update(key, cost_s)
    return sketch


def rows_of_7(costs_s: list[float]) -> CostSketch:
    sketch = CostSketch(rows=2, columns=8)
    for cost_s in costs_s:
        sketch.update(7, cost_s)
    return sketch


def arrived(key: int | str, now_s: float = 0.0) -> Arrived:
    return Arrived(now_s=now_s, key=key)


def learn(scheduler: OsgScheduler, instance: int, costs_s: dict[int | str, float]) -> None:
    scheduler.receive(Received(0.0, instance, Matrices(sketch_of(costs_s))))


def reply(scheduler: OsgScheduler, instance: int, epoch: int, delta_s: float) -> None:
    scheduler.receive(Received(0.0, instance, SyncReply(epoch, delta_s)))


COSTS_S = {"a": 10.0, "b": 1.0}


def waiting(instances: int = 2, **settings: bool) -> OsgScheduler:
    """A scheduler that has sent its first requests, each with a row `b`, and waits for the replies."""
    scheduler = OsgScheduler(instances, **settings)
    for instance in range(instances):
        learn(scheduler, instance, COSTS_S)
    for _ in range(instances):
        scheduler.assign(arrived("b"))
    assert scheduler.state is SchedulerState.WAIT_ALL
    return scheduler


def running(instances: int = 2, **settings: bool) -> OsgScheduler:
    scheduler = waiting(instances, **settings)
    for instance in range(instances):
        reply(scheduler, instance, 1, 0.0)
    assert scheduler.state is SchedulerState.RUN
    return scheduler


# Figure 2: an instance.


def test_figure_2a_start_to_stabilizing_takes_a_snapshot_after_n_rows() -> None:
    machine = instance_of()
    assert execute(machine, [2.0] * (WINDOW_ROWS - 1)) == []
    assert machine.state is OperatorState.START
    assert execute(machine, [2.0]) == []
    assert machine.state is OperatorState.STABILIZING


def test_figure_2b_stabilizing_stays_and_updates_the_snapshot_while_costs_move() -> None:
    machine = instance_of(tolerance=0.3)
    execute(machine, [1.0] * WINDOW_ROWS)
    assert execute(machine, [3.0] * WINDOW_ROWS) == []  # the mean went from 1 to 2: moved by 1
    assert machine.state is OperatorState.STABILIZING
    (send,) = execute(machine, [3.0] * WINDOW_ROWS)  # from 2 to 7/3: by 0.17, but by 1.33 from the first snapshot
    assert send == Send(Matrices(rows_of_7([1.0] * 3 + [3.0] * 6)))


def test_figure_2c_stabilizing_to_start_sends_the_matrices_to_all_and_resets_them() -> None:
    machine = instance_of()
    (send,) = execute(machine, [2.0] * (2 * WINDOW_ROWS))
    assert send == Send(Matrices(rows_of_7([2.0] * 6)), scheduler=None)
    assert machine.state is OperatorState.START
    (later,) = execute(machine, [5.0] * (2 * WINDOW_ROWS))
    assert later == Send(Matrices(rows_of_7([5.0] * 6)))
    assert send == Send(Matrices(rows_of_7([2.0] * 6)))  # what was sent does not change any more


def test_figure_2c_needs_equation_1_up_to_the_tolerance() -> None:
    # The mean moves from 1 to 1.05.
    for tolerance, sent in ((0.0500001, 1), (0.0499999, 0)):
        assert len(execute(instance_of(tolerance=tolerance), [1.0] * WINDOW_ROWS + [1.0, 1.0, 1.3])) == sent


def test_first_check_sends_whatever_has_moved() -> None:
    assert len(execute(instance_of(first_check=True), [1.0] * WINDOW_ROWS + [90.0] * WINDOW_ROWS)) == 1


def test_a_request_is_answered_by_the_instances_own_clock_to_the_scheduler_that_asked() -> None:
    row = Done("a", 1.0, finish_s=9.0, cost_s=2.0, request=SyncRequest(scheduler=3, epoch=5, cumulated_s=4.0))
    assert instance_of().executed(row) == [Send(SyncReply(epoch=5, delta_s=5.0), scheduler=3)]


def test_the_row_that_completes_a_window_and_carries_a_request_answers_first() -> None:
    machine = instance_of()
    execute(machine, [2.0] * (2 * WINDOW_ROWS - 1))
    sends = machine.executed(Done(7, 0.0, finish_s=2.0, cost_s=2.0, request=SyncRequest(0, 1, 2.0)))
    assert [type(send.message) for send in sends] == [SyncReply, Matrices]


# Figure 3: a scheduler.


def test_figure_3a_round_robin_until_every_instance_has_sent_matrices() -> None:
    scheduler = OsgScheduler(3)
    learn(scheduler, 0, COSTS_S)
    learn(scheduler, 0, COSTS_S)
    learn(scheduler, 2, COSTS_S)
    assert scheduler.state is SchedulerState.ROUND_ROBIN
    assert [scheduler.assign(arrived("a")) for _ in range(4)] == [Assign(0), Assign(1), Assign(2), Assign(0)]
    assert scheduler.cumulated_s == (0.0, 0.0, 0.0)


def test_figure_3b_and_c_the_next_k_rows_go_in_turn_and_carry_a_request_each() -> None:
    scheduler = OsgScheduler(2, scheduler=4)
    scheduler.assign(arrived("a"))  # the turn goes on from here
    for instance in range(2):
        learn(scheduler, instance, COSTS_S)
    assert scheduler.state is SchedulerState.SEND_ALL
    assert scheduler.assign(arrived("a")) == Assign(1, SyncRequest(4, 1, 10.0))
    assert scheduler.state is SchedulerState.SEND_ALL
    assert scheduler.assign(arrived("b")) == Assign(0, SyncRequest(4, 1, 1.0))
    assert scheduler.state is SchedulerState.WAIT_ALL


def test_figure_3d_and_e_differences_are_added_when_all_are_in() -> None:
    scheduler = waiting()
    reply(scheduler, 1, 1, 3.0)
    assert (scheduler.state, scheduler.cumulated_s) == (SchedulerState.WAIT_ALL, (1.0, 1.0))
    assert scheduler.assign(arrived("a")) == Assign(0)  # scheduling as in RUN meanwhile
    reply(scheduler, 0, 1, 0.5)
    assert (scheduler.state, scheduler.cumulated_s) == (SchedulerState.RUN, (11.5, 4.0))


def test_a_reply_that_comes_before_the_last_request_is_out_counts() -> None:
    scheduler = OsgScheduler(2)
    for instance in range(2):
        learn(scheduler, instance, COSTS_S)
    scheduler.assign(arrived("b"))
    reply(scheduler, 0, 1, 2.0)
    scheduler.assign(arrived("b"))
    assert scheduler.state is SchedulerState.WAIT_ALL
    reply(scheduler, 1, 1, 4.0)
    assert (scheduler.state, scheduler.cumulated_s) == (SchedulerState.RUN, (3.0, 5.0))


@pytest.mark.parametrize("sent_before", [0, 1, 2])
def test_figure_3f_new_matrices_begin_a_new_epoch_in_every_state_but_the_first(sent_before: int) -> None:
    scheduler = running()
    learn(scheduler, 0, COSTS_S)
    for _ in range(sent_before):
        scheduler.assign(arrived("b"))
    learn(scheduler, 1, COSTS_S)
    assert scheduler.state is SchedulerState.SEND_ALL
    requests = [scheduler.assign(arrived("b")).request for _ in range(2)]
    assert [request.epoch for request in requests if isinstance(request, SyncRequest)] == [3, 3]
    reply(scheduler, 0, 2, 100.0)  # of the epoch before: too late
    reply(scheduler, 0, 3, 0.0)
    assert scheduler.state is SchedulerState.WAIT_ALL
    reply(scheduler, 1, 3, 0.0)
    assert scheduler.state is SchedulerState.RUN
    assert max(scheduler.cumulated_s) < 100.0


def test_a_second_reply_of_the_same_instance_changes_nothing() -> None:
    scheduler = waiting()
    reply(scheduler, 0, 1, 2.0)
    reply(scheduler, 0, 1, 50.0)
    assert scheduler.state is SchedulerState.WAIT_ALL
    reply(scheduler, 1, 1, 0.0)
    assert scheduler.cumulated_s == (3.0, 1.0)
    reply(scheduler, 1, 1, 50.0)
    assert (scheduler.state, scheduler.cumulated_s) == (SchedulerState.RUN, (3.0, 1.0))


# Listing 3.2.


def test_rows_go_where_the_cumulated_time_is_least_and_to_the_first_among_equals() -> None:
    scheduler = running()
    assert [scheduler.assign(arrived(key)).instance for key in "abbb"] == [0, 1, 1, 1]
    assert scheduler.cumulated_s == (11.0, 4.0)


def test_each_instance_is_estimated_by_its_own_matrices() -> None:
    scheduler = OsgScheduler(2)
    learn(scheduler, 0, {"a": 1.0})
    learn(scheduler, 1, {"a": 3.0})
    for _ in range(2):
        scheduler.assign(arrived("a"))
    assert scheduler.cumulated_s == (1.0, 3.0)


def test_a_key_never_seen_costs_the_mean_of_the_instances_sketch() -> None:
    scheduler = running()
    scheduler.assign(arrived("never seen"))
    assert scheduler.cumulated_s == (6.5, 1.0)


def test_an_idle_instance_is_pulled_up_to_now_with_clamp_only() -> None:
    for clamp, cumulated_s in ((False, (2.0, 1.0)), (True, (21.0, 20.0))):
        scheduler = running(clamp=clamp)
        scheduler.assign(arrived("b", now_s=20.0))
        assert scheduler.cumulated_s == cumulated_s


# What it takes, and what it refuses.


def test_memory_is_a_pair_of_matrices_an_instance() -> None:
    scheduler = running(instances=3)
    assert scheduler.memory_bytes == 3 * 2 * 4 * 54 * 8 + 3 * 16
    assert OsgInstance(CostSketch(4, 54)).memory_bytes == 3 * 4 * 54 * 8


def test_what_is_no_message_of_osg_is_refused() -> None:
    with pytest.raises(TypeError, match="not a message of OSG"):
        OsgScheduler(1).receive(Received(0.0, 0, "hello"))
    with pytest.raises(TypeError, match="not a request of OSG"):
        instance_of().executed(Done(1, 0.0, 1.0, 1.0, request="hello"))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: OsgScheduler(0), "instances = 0 is not usable: give a whole number from 1 up"),
        (lambda: OsgScheduler(1, scheduler=-1), "scheduler = -1"),
        (lambda: instance_of(tolerance=-1.0), "tolerance = -1.0"),
        (lambda: OsgInstance(CostSketch(1, 1), window_rows=0), "window_rows = 0"),
        (lambda: Done(1, 0.0, 1.0, cost_s=float("nan")), "cost_s = nan"),
        (lambda: Done(1, 2.0, 1.0, cost_s=1.0), "assigned_s, finish_s"),
    ],
)
def test_bad_settings_are_named(make: object, said: str) -> None:
    with pytest.raises(PenstockError, match=said):
        make()
