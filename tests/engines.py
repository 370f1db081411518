"""Test files that are run in processes of their own, beside the other tests: most of their time is waiting.

Two at a time, in the order given here, long ones first: tests of whole programs, which start sessions of their own;
the guard's tests on other engines; tests of what is apart from the guard of one query; and the simulator's, which need
no Spark. When the tests of the first process are done, it waits, and a third run takes its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
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
_PROGRAMS = ("spark/test_exactly_once", "spark/test_demo", "spark/test_bench")
_APART = (
    ("spark/test_network", "spark/test_grouping"),
    ("spark/test_kafka", "spark/test_site_kafka"),
    ("spark/test_fair", "spark/test_balanced", "spark/test_quarantine", "spark/test_answers"),
    ("spark/test_site", "spark/test_tour", "spark/test_connect"),
)
_SIMULATOR = (
    ("sim/test_las_figures", "sim/test_bench", "sim/test_fast_osg", "sim/test_fast"),
    ("sim/test_aurora_figures", "sim/test_microbatch", "sim/test_plus_figures"),
    ("sim/test_osg_figures", "sim/test_osg_runs", "sim/test_themis_figures", "sim/test_themis_runs"),
)


def _files(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"tests/{name}.py" for name in names)


def _runs(*groups: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {", ".join(names): ("classic", *_files(names)) for names in groups}


#: Each run by its name: the engine, the files, and what else pytest is told.
BESIDE = {
    **_runs(_PROGRAMS),
    **{engine: (engine, *_files(("spark/test_guard", "spark/test_grouping")), "-k", ON_ENGINES) for engine in ENGINES},
    **_runs(*_APART, *_SIMULATOR),
}
#: Files that are run beside alone.
NOT_HERE = tuple(file for names in (_PROGRAMS, *_APART, *_SIMULATOR) for file in _files(names))
#: Files whose tests hold a query to a target: they come last, when nothing runs beside them.
UNDISTURBED = tuple(f"tests/spark/test_{name}.py" for name in ("cluster", "network_overload", "fair_overload"))


def quick_start() -> dict[str, str]:
    """The variables with which a JVM of the tests starts."""
    return {"JDK_JAVA_OPTIONS": class_archive.java_options()}


@dataclass
class RunsBeside:
    """The runs, each waited for when its result is asked for."""

    _folder: tempfile.TemporaryDirectory[str] | None = None
    _free: Semaphore = field(default_factory=lambda: Semaphore(AT_ONCE))
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _begun: dict[str, Event] = field(default_factory=lambda: {name: Event() for name in BESIDE})
    _times_s: dict[str, list[float]] = field(default_factory=dict)
    _begin_s: float = 0.0
    _waited_for: bool = False
    _stopped: bool = False

    def start(self) -> None:
        """Start the first runs, and the next whenever one is over."""
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-engines-", ignore_cleanup_errors=True)
        self._begin_s = time.monotonic()
        Thread(target=self._start_all, daemon=True).start()

    def _start_all(self) -> None:
        class_archive.make()
        for name, (engine, *what) in BESIDE.items():
            self._free.acquire()
            if not self._stopped:
                self._start(name, engine, what)
                Thread(target=self._wait, args=(name,), daemon=True).start()
            self._begun[name].set()

    def _wait(self, name: str) -> None:
        begin_s = time.monotonic() - self._begin_s
        self._started[name].wait()
        self._times_s[name] = [begin_s, time.monotonic() - self._begin_s]
        self._free.release()

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
        if not self._waited_for:
            self._waited_for = True
            self._free.release()  # who waits leaves its place to one run more
        self._begun[name].wait()
        return self._started[name].wait(), self._said(name).read_text(errors="replace")

    def times(self) -> list[str]:
        """When each run began and ended, in seconds after the first: where the time of the whole goes."""
        times_s = dict(self._times_s)
        return [f"beside from {times_s[name][0]:.0f} to {times_s[name][1]:.0f} s: {name}" for name in times_s]

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
