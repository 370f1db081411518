"""Runs spread over processes: same results, in order, and nothing left behind."""

import math
import multiprocessing
import operator
import os
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sim.parallel import Workers


def run_all(
    function: Callable[..., Any],
    tasks: Sequence[Any],
    jobs: int = 1,
    done: Callable[[int], None] = lambda _: None,
) -> list[Any]:
    with Workers(jobs) as workers:
        return workers.run(function, tasks, done)


# Tasks for other processes are functions of the standard library: a test module cannot be imported there.
MANY = 50


@given(st.lists(st.integers(), max_size=40))
def test_results_come_in_the_order_of_the_tasks(tasks: list[int]) -> None:
    assert run_all(operator.neg, tasks) == [-task for task in tasks]


@pytest.mark.parametrize("jobs", [2, 3])
def test_results_come_in_the_order_of_the_tasks_from_other_processes_too(jobs: int) -> None:
    tasks = [*range(MANY, 0, -1)]
    assert run_all(math.factorial, tasks, jobs=jobs) == [math.factorial(task) for task in tasks]


def test_work_is_shared_by_as_many_processes_as_asked_for_and_not_done_here() -> None:
    processes = run_all(operator.call, [os.getpid] * MANY, jobs=2)
    assert os.getpid() not in processes
    assert 1 <= len(set(processes)) <= 2


def test_one_job_stays_in_this_process() -> None:
    assert set(run_all(operator.call, [os.getpid] * MANY, jobs=1)) == {os.getpid()}


@given(st.integers(0, 100))
def test_progress_adds_up_to_the_number_of_tasks(tasks: int) -> None:
    finished: list[int] = []
    run_all(abs, range(tasks), done=finished.append)
    assert sum(finished) == tasks
    assert all(finished)


def test_progress_adds_up_over_processes_and_comes_in_steps() -> None:
    finished: list[int] = []
    run_all(abs, range(MANY), jobs=2, done=finished.append)
    assert sum(finished) == MANY
    assert len(finished) >= 5


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_run_reaches_the_caller_and_stops_the_rest(jobs: int) -> None:
    finished: list[int] = []
    with pytest.raises(ValueError, match="math domain error"):
        run_all(math.sqrt, [*range(20), -1, *range(1000)], jobs=jobs, done=finished.append)
    assert sum(finished) < 21
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_an_error_and_not_a_wait_for_ever() -> None:
    with pytest.raises(BrokenProcessPool):
        run_all(os._exit, [3] * MANY, jobs=2)
    assert not multiprocessing.active_children()


def test_no_process_outlives_the_call() -> None:
    run_all(abs, range(MANY), jobs=2)
    assert not multiprocessing.active_children()
