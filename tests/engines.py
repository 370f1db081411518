"""Test files that are run in processes of their own, beside the other tests: most of their time is waiting.

Two at a time, in the order given here: the guard's tests on other engines, then on the usual one tests of whole
programs, which start sessions of their own, and of what is apart from the guard of one query.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Semaphore, Thread

from tests import class_archive

ROOT = Path(__file__).parents[1]
ENGINES = ("local-cluster", "connect")
AT_ONCE = 2
#: What is not tried on other engines: what the planner, the columns' checks and the plans' files do by themselves, a
#: second time zone, and of grouping all but one test with a stream and one with a batch.
_NOT_ON_ENGINES = (
    "must_keep_rows_beyond",
    "America",
    "columns_that_do_not_fit",
    "backlog_that_is_replayed",
    "serves_one_query_after_the_other",
    "off_leaves_nothing",
    "checkpoint_of_another_guard",
    "odd",
)
ON_ENGINES = f"not ({' or '.join(_NOT_ON_ENGINES)}) and (test_guard or a_stream_learns or a_batch_goes_by)"
#: Each run by its name: the engine, the files, and what else pytest is told.
BESIDE = {
    **{
        engine: (engine, "tests/spark/test_guard.py", "tests/spark/test_grouping.py", "-k", ON_ENGINES)
        for engine in ENGINES
    },
    **{
        ", ".join(names): ("classic", *(f"tests/spark/test_{name}.py" for name in names))
        for names in (
            ("exactly_once", "demo", "bench"),
            ("network", "grouping"),
            ("kafka", "site_kafka"),
            ("fair", "balanced", "quarantine", "answers"),
            ("site", "tour", "connect"),
        )
    },
}
#: Files that are run beside alone.
NOT_HERE = tuple(
    file for engine, *what in BESIDE.values() if engine == "classic" for file in what if file.endswith(".py")
)
#: Files whose tests hold a query to a target: they come last, when nothing runs beside them.
UNDISTURBED = tuple(f"tests/spark/test_{name}.py" for name in ("cluster", "network_overload", "fair_overload"))


def quick_start() -> dict[str, str]:
    """The variables with which a JVM of the tests starts."""
    return {"JDK_JAVA_OPTIONS": class_archive.java_options()}


@dataclass
class RunsBeside:
    """The runs, each waited for when its result is asked for."""

    _folder: tempfile.TemporaryDirectory[str] | None = None
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _begun: dict[str, Event] = field(default_factory=lambda: {name: Event() for name in BESIDE})
    _stopped: bool = False

    def start(self) -> None:
        """Start the first runs, and the next whenever one is over."""
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-engines-", ignore_cleanup_errors=True)
        Thread(target=self._start_all, daemon=True).start()

    def _start_all(self) -> None:
        class_archive.make()
        free = Semaphore(AT_ONCE)
        for name, (engine, *what) in BESIDE.items():
            free.acquire()
            if not self._stopped:
                self._start(name, engine, what)
                Thread(target=self._wait, args=(name, free), daemon=True).start()
            self._begun[name].set()

    def _wait(self, name: str, free: Semaphore) -> None:
        self._started[name].wait()
        free.release()

    def _start(self, name: str, engine: str, what: list[str]) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *what]
        with self._said(name).open("wb") as said:
            self._started[name] = subprocess.Popen(
                [*command, f"--basetemp={self._said(name).with_suffix('')}"],
                cwd=ROOT,
                env={**os.environ, **quick_start(), "PENSTOCK_TEST_ENGINE": engine},
                stdout=said,
                stderr=said,
            )

    def result(self, name: str) -> tuple[int, str]:
        """The run's exit code and what it printed."""
        self._begun[name].wait()
        return self._started[name].wait(), self._said(name).read_text(errors="replace")

    def stop(self) -> None:
        """End what still runs."""
        self._stopped = True
        for run in list(self._started.values()):
            run.terminate()  # it ends its own processes
            run.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def _said(self, name: str) -> Path:
        assert self._folder is not None
        number = list(BESIDE).index(name)  # a path with a space or a comma in it is not for every tool
        return Path(self._folder.name) / f"run-{number}.txt"


RUNS = RunsBeside()
