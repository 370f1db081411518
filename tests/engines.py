"""Test files that are run in processes of their own, beside the other tests: most of their time is waiting.

The first wave starts with the session: the guard's tests on other engines, and those of networks on the usual one. The
second starts when the first is over: tests with Kafka, and tests of whole programs, which start sessions of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

ROOT = Path(__file__).parents[1]
ENGINES = ("local-cluster", "connect")
#: A JVM that lives for minutes, beside others, has no use for the slow, thorough compiler.
QUICK_START = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
#: Each run by its name: the engine, the files, and what else pytest is told.
WAVES = (
    {
        # An alarm about keep is the planner's own, whatever the engine, and takes long to come about. Of grouping, one
        # test with a stream and one with a batch are enough.
        **{
            engine: (
                *(engine, "tests/spark/test_guard.py", "tests/spark/test_grouping.py"),
                *("-k", "not must_keep_rows_beyond and (test_guard or a_stream_learns or a_batch_goes_by)"),
            )
            for engine in ENGINES
        },
        "networks and groupings": ("classic", "tests/spark/test_network.py", "tests/spark/test_grouping.py"),
    },
    {
        "kafka": ("classic", "tests/spark/test_kafka.py"),
        "programs": ("classic", *(f"tests/spark/test_{name}.py" for name in ("exactly_once", "demo", "bench"))),
    },
)
#: Files that are run beside alone.
NOT_HERE = tuple(
    f"tests/spark/test_{name}.py" for name in ("network", "grouping", "kafka", "exactly_once", "demo", "bench")
)
#: Files whose tests hold a query to a target: they come last, when nothing runs beside them.
UNDISTURBED = tuple(f"tests/spark/test_{name}.py" for name in ("cluster", "network_overload"))


@dataclass
class RunsBeside:
    """Waves of runs, each run waited for when its result is asked for."""

    _folder: tempfile.TemporaryDirectory[str] | None = None
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _all_started: Event = field(default_factory=Event)
    _stopped: bool = False

    def start(self) -> None:
        """Start the first wave, and the next whenever one is over."""
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-engines-", ignore_cleanup_errors=True)
        Thread(target=self._start_waves, daemon=True).start()

    def _start_waves(self) -> None:
        try:
            for wave in WAVES:
                for name, (engine, *what) in wave.items():
                    if not self._stopped:
                        self._start(name, engine, what)
                for name in wave:
                    if name in self._started:
                        self._started[name].wait()
        finally:
            self._all_started.set()

    def _start(self, name: str, engine: str, what: list[str]) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *what]
        with self._said(name).open("wb") as said:
            self._started[name] = subprocess.Popen(
                [*command, f"--basetemp={self._said(name).with_suffix('')}"],
                cwd=ROOT,
                env={**os.environ, **QUICK_START, "PENSTOCK_TEST_ENGINE": engine},
                stdout=said,
                stderr=said,
            )

    def result(self, name: str) -> tuple[int, str]:
        """The run's exit code and what it printed."""
        if name not in self._started:
            self._all_started.wait()
        return self._started[name].wait(), self._said(name).read_text(errors="replace")

    def stop(self) -> None:
        """End what still runs."""
        self._stopped = True
        for run in list(self._started.values()):
            run.terminate()  # it ends its own processes
            run.wait()
        if self._folder is not None:
            self._all_started.wait(60.0)
            self._folder.cleanup()

    def _said(self, name: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{name}.txt"


RUNS = RunsBeside()
