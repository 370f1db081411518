"""Many independent runs over the cores; the results do not depend on how many."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Self, TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

#: Runs handed to a process at once: few enough for a lively progress bar, enough to hide the hand-over.
BATCH = 8


class Workers:
    """A pool of processes, started when first needed and used until the end; one means the current process.

    >>> with Workers(1) as workers:
    ...     workers.run(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        # Fresh processes, not forks: the parent may have threads.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(max_workers=jobs, mp_context=context) if jobs > 1 else None

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait until every process has ended; what has not begun is not begun any more."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def processes(self) -> list[int]:
        """Process numbers of the workers that are alive."""
        return [child.pid for child in multiprocessing.active_children() if child.pid is not None]

    def run(
        self, function: Callable[[_Task], _Result], tasks: Sequence[_Task], done: Callable[[int], None] = lambda _: None
    ) -> list[_Result]:
        """Apply the function to every task, in order; `done` is called with the number of finished ones."""
        if self._pool is None:
            results: Iterator[_Result] = map(function, tasks)
        else:
            # The processes inherit this: a Ctrl-C is for the parent alone.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                results = self._pool.map(function, tasks, chunksize=BATCH)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        found = []
        for result in results:
            found.append(result)
            done(1)
        return found


#: The current process.
_HERE = Workers(1)


@dataclass(frozen=True)
class Effort:
    """How much to run, and where."""

    runs: int = 40
    seed: int = 0
    workers: Workers = _HERE
    done: Callable[[int], None] = lambda _: None

    def each(self, function: Callable[[int], _Result]) -> list[_Result]:
        """Apply the function to the number of every run."""
        return self.workers.run(function, range(self.runs), self.done)
