"""Many independent runs over the cores; the results do not depend on how many."""

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

#: Runs handed to a process at once: few enough for a lively progress bar, enough to hide the hand-over.
_BATCH = 8


def run_all(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    *,
    jobs: int = 1,
    done: Callable[[int], None] = lambda _: None,
) -> list[_Result]:
    """Apply the function to every task, in order; `done` hears how many more are finished.

    >>> run_all(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    batches = [tasks[first : first + _BATCH] for first in range(0, len(tasks), _BATCH)]
    if jobs == 1 or len(batches) <= 1:
        return _collect((_run_batch(function, batch) for batch in batches), done)
    # Fresh processes, not forks: the parent may have threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=min(jobs, len(batches)), mp_context=context) as pool:
        try:
            return _collect(pool.map(_run_batch, [function] * len(batches), batches), done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_batch(function: Callable[[_Task], _Result], batch: Sequence[_Task]) -> list[_Result]:
    return [function(task) for task in batch]


def _collect(batches: Iterable[list[_Result]], done: Callable[[int], None]) -> list[_Result]:
    results: list[_Result] = []
    for batch in batches:
        results.extend(batch)
        done(len(batch))
    return results
