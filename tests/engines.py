"""Test files that are run in processes of their own, beside the tests that need but one core.

The guard's tests are run on other engines, and those of networks on the usual one: most of their time is waiting.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGINES = ("local-cluster", "connect")
#: A JVM that lives for minutes, beside others, has no use for the slow, thorough compiler.
QUICK_START = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
#: Each run: the engine, the file, and what else pytest is told.
BESIDE = {
    # An alarm about keep is the planner's own, whatever the engine, and takes long to come about. Of grouping, one
    # test with a stream and one with a batch are enough.
    **{
        engine: (
            *(engine, "tests/spark/test_guard.py", "tests/spark/test_grouping.py"),
            *("-k", "not must_keep_rows_beyond and (test_guard or a_stream_learns or a_batch_goes_by)"),
        )
        for engine in ENGINES
    },
    "networks": ("classic", "tests/spark/test_network.py"),
}
#: Files that are run beside alone.
NOT_HERE = ("tests/spark/test_network.py",)


@dataclass
class RunsBeside:
    """Runs that are started together, each waited for when its result is asked for."""

    _folder: tempfile.TemporaryDirectory[str] | None = None
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-engines-", ignore_cleanup_errors=True)
        for name, (engine, *what) in BESIDE.items():
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
        return self._started[name].wait(), self._said(name).read_text(errors="replace")

    def stop(self) -> None:
        for run in self._started.values():
            run.terminate()  # it ends its own processes
            run.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def _said(self, name: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{name}.txt"


RUNS = RunsBeside()
