"""The readable simulation of grouping: who hears what, when and in which order."""

import numpy as np
import pytest

from penstock.core.grouping.machines import Assign, Done, Received, Send
from penstock.core.row.machines import Arrived
from penstock.errors import PenstockError
from penstock.sim.osg.queueing import simulate
from penstock.sim.workload import Stream


class Scripted:
    """A scheduler that follows a script and notes what it hears."""

    memory_bytes = 0

    def __init__(self, instances: list[int]) -> None:
        self.heard: list[object] = []
        self._instances = iter(instances)

    def assign(self, row: Arrived) -> Assign:
        self.heard.append((row.now_s, row.key))
        return Assign(next(self._instances), request=f"request of {row.row}")

    def receive(self, event: Received) -> None:
        self.heard.append(event)


class Telling:
    """An instance that notes rows and tells of each."""

    memory_bytes = 0

    def __init__(self, to: int | None = None) -> None:
        self.rows: list[Done] = []
        self._to = to

    def executed(self, row: Done) -> list[Send]:
        self.rows.append(row)
        return [Send(row.request, self._to)]


def stream_of(arrivals_s: list[float], costs_s: list[float]) -> Stream:
    return Stream(np.arange(len(costs_s)), np.array(costs_s), np.array(arrivals_s), len(costs_s))


def test_each_instance_executes_its_rows_one_after_the_other() -> None:
    instances = [Telling(), Telling()]
    finish_s = simulate(stream_of([0, 1, 2, 3], [5, 1, 1, 1]), [Scripted([0, 1, 0, 1])], instances)
    assert finish_s.tolist() == [5.0, 2.0, 6.0, 4.0]
    assert instances[0].rows == [
        Done(0, 0.0, 5.0, 5.0, waiting=1, request="request of 0"),
        Done(2, 2.0, 6.0, 1.0, waiting=0, request="request of 2"),
    ]


def test_costs_are_multiplied_by_stretch_and_instance() -> None:
    speeds = np.array([[1.0, 2.0], [3.0, 4.0]])
    finish_s = simulate(stream_of([0, 10, 20, 30], [1] * 4), [Scripted([0, 1, 0, 1])], [Telling()] * 2, speeds=speeds)
    assert finish_s.tolist() == [1.0, 12.0, 23.0, 34.0]


def test_rows_alternate_between_schedulers_and_messages_find_theirs() -> None:
    schedulers = [Scripted([0, 0]), Scripted([1])]
    simulate(stream_of([0, 0, 9], [1, 2, 1]), schedulers, [Telling(), Telling(to=0)], delay_s=0.5)
    to_all = [Received(1.5, 0, "request of 0"), Received(10.5, 0, "request of 2")]
    to_first = Received(2.5, 1, "request of 1")
    assert schedulers[0].heard == [(0.0, 0), to_all[0], to_first, (9.0, 2), to_all[1]]
    assert schedulers[1].heard == [(0.0, 1), *to_all]


def test_at_the_same_moment_messages_come_before_arrivals_and_lower_instances_first() -> None:
    scheduler = Scripted([1, 0, 0])
    simulate(stream_of([0, 0, 3], [2, 2, 1]), [scheduler], [Telling(), Telling()], delay_s=1.0)
    first, second = Received(3.0, 0, "request of 1"), Received(3.0, 1, "request of 0")
    assert scheduler.heard[2:5] == [first, second, (3.0, 2)]


def test_nothing_happens_without_rows() -> None:
    assert simulate(stream_of([], []), [Scripted([])], [Telling()]).tolist() == []


def test_bad_settings_are_named() -> None:
    stream = stream_of([0], [1])
    with pytest.raises(PenstockError, match="delay_s = -1"):
        simulate(stream, [Scripted([0])], [Telling()], delay_s=-1)
    with pytest.raises(
        PenstockError, match=r"speeds = \(1, 2\) is not usable: give an array of shape \(stretches, 1\)"
    ):
        simulate(stream, [Scripted([0])], [Telling()], speeds=np.ones((1, 2)))
