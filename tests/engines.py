"""Runs of the guard's tests on other engines, in processes of their own beside the tests that need but one core."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGINES = ("local-cluster", "connect")


@dataclass
class EngineRuns:
    """One run an engine: started together, each waited for when its result is asked for."""

    _folder: tempfile.TemporaryDirectory[str] | None = None
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-engines-", ignore_cleanup_errors=True)
        for engine in ENGINES:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/spark/test_guard.py"]
            with self._said(engine).open("wb") as said:
                self._started[engine] = subprocess.Popen(
                    [*command, f"--basetemp={self._said(engine).with_suffix('')}"],
                    cwd=ROOT,
                    env={**os.environ, "PENSTOCK_TEST_ENGINE": engine},
                    stdout=said,
                    stderr=said,
                )

    def result(self, engine: str) -> tuple[int, str]:
        """The run's exit code and what it printed."""
        return self._started[engine].wait(), self._said(engine).read_text(errors="replace")

    def stop(self) -> None:
        for run in self._started.values():
            run.terminate()  # it ends its own processes
            run.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def _said(self, engine: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{engine}.txt"


RUNS = EngineRuns()
