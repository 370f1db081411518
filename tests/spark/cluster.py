"""A standalone Spark cluster on loopback for a test: a master, and workers that can be killed and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark
import pytest
from tests import class_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

HOME = Path(pyspark.__file__).parent
#: How long a process may take to start, or to go: the machine may be busy.
LONGEST_START_S = 90.0
EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Started:
    """A process with all that it starts, and what it writes."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> re.Match[str] | None:
        """Where its log has this."""
        return re.search(pattern, self.log.read_text(errors="replace"))

    def kill(self) -> None:
        """End it, and all that it started, without warning."""
        pids = descendants(self.process.pid)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LONGEST_START_S)
        # Python's workers are in a group of their own, and end when they see that their executor is gone.
        until(lambda: not any(alive(pid) for pid in pids), "children of a killed process do not end")


class Cluster:
    """A master and its workers; all of them end with the `with` block."""

    def __init__(self, folder: Path, *, workers: int, cores: int) -> None:
        """So many workers, each with so many cores; what they write goes into the folder."""
        self._folder, self._workers, self._cores = folder, workers, cores
        self._running: list[Started] = []
        self.master = ""
        #: A socket's path must be short, and the test's own folder need not be.
        self._sockets = tempfile.TemporaryDirectory(prefix="penstock-")

    def __enter__(self) -> Self:
        """Start the master and all workers."""
        try:
            master = self._daemon("master", "org.apache.spark.deploy.master.Master", [])
            self.master = self._wait(master, r"Starting Spark master at (spark://\S+)")[1]
            # Side by side: each takes seconds.
            started = [self._worker(number) for number in range(self._workers)]
            self.workers = {number: self._registered(worker) for number, worker in enumerate(started)}
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        self.close()

    def close(self) -> None:
        """End everything."""
        for started in reversed(self._running):
            started.kill()
        self._sockets.cleanup()

    def start_worker(self, number: int) -> None:
        """Start a worker, and wait until the master knows it."""
        self.workers[number] = self._registered(self._worker(number))

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors without warning, as when a machine loses power."""
        worker = self.workers.pop(number)
        assert any(EXECUTOR in command(pid) for pid in descendants(worker.process.pid)), "it has no executor"
        worker.kill()

    def submit(self, program: Path, *arguments: object, archive: Path, settings: dict[str, str]) -> Started:
        """Hand a program to `spark-submit`, with an archive for --py-files."""
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.python.unix.domain.socket.dir": self._sockets.name,
            "spark.ui.enabled": "false",
            **settings,
        }
        words = ["--master", self.master, "--py-files", str(archive)]
        words += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        return self._start("submit", [str(HOME / "bin" / "spark-submit"), *words, str(program), *map(str, arguments)])

    def _worker(self, number: int) -> Started:
        name = f"worker-{number}"
        options = ["--cores", str(self._cores), "--memory", "1g", "--work-dir", str(self._folder / name), self.master]
        return self._daemon(name, "org.apache.spark.deploy.worker.Worker", options)

    def _registered(self, worker: Started) -> Started:
        self._wait(worker, "Successfully registered with master")
        return worker

    def _daemon(self, name: str, kind: str, options: list[str]) -> Started:
        words = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *options]
        return self._start(name, [str(HOME / "bin" / "spark-class"), kind, *words])

    def _start(self, name: str, words: list[str]) -> Started:
        log = self._folder / f"{name}.{len(self._running)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                words, cwd=self._folder, env=self._environment(), stdout=file, stderr=file, start_new_session=True
            )
        started = Started(process, log)
        self._running.append(started)
        return started

    def _environment(self) -> dict[str, str]:
        """That of this process, but nothing in it leads Spark or Python to the sources of this checkout."""
        ours = {
            "JDK_JAVA_OPTIONS": class_archive.java_options(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        kept = {name: value for name, value in os.environ.items() if not re.match(r"PYTHON|PYSPARK|SPARK", name)}
        return kept | ours

    def _wait(self, started: Started, pattern: str) -> re.Match[str]:
        until(
            lambda: started.said(pattern) is not None or started.process.poll() is not None,
            f"{started.log.name} does not say {pattern!r}",
        )
        found = started.said(pattern)
        if found is None:
            pytest.fail(f"{started.log.name}: {started.log.read_text(errors='replace')[-3000:]}")
        return found


def until(done: Callable[[], bool], complaint: str, longest_s: float = LONGEST_START_S) -> None:
    """Wait for something, and fail if it takes too long."""
    deadline_s = time.monotonic() + longest_s
    while not done():
        if time.monotonic() > deadline_s:
            pytest.fail(f"after {longest_s:.0f} s: {complaint}")
        time.sleep(0.1)


def descendants(pid: int) -> list[int]:
    """All that a process started, and what these started."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in parentheses, may hold anything; the parent is the second word behind it.
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found, last = [], [pid]
    while last:
        last = [child for child, parent in parents.items() if parent in last]
        found += last
    return found


def command(pid: int) -> str:
    """The command line of a process; nothing if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked for does not."""
    return bool(command(pid))
