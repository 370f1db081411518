"""Test files that are run in processes of their own, beside the other tests: most of their time is waiting.

Two at a time, in the order given here, long ones first: tests of whole programs, which start sessions of their own;
tests of what is apart from the guard of one query, several files to a session, as a session's start takes as long as
ten tests; and the guard's tests on other engines. When the tests of the first process are done, it waits, and a third
run takes its place.

Tests without Spark take what nobody else wants: they run from the beginning on with the lowest priority, one file's
tests after the other.

Last come the tests that hold a query to a target, and leave much of the machine idle, as their work sleeps: two at a
time, and the most sensitive one alone. Nothing else runs beside them but the tests of the lowest priority, two runs at
a time, and three at the end, so that no core waits for the last of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Semaphore, Thread

from tests import class_archive

ROOT = Path(__file__).parents[1]
ENGINES = ("local-cluster", "connect")
AT_ONCE = 2
#: What is tried on other engines, because it depends on where tasks run and how they reach the plans: verdicts and the
#: account, replays, the row gate, a measured function, costs and waits, and what fails. How keys are hashed and
#: functions of other forms are called is the same code in every worker.
_IN_TASKS = (
    "same_weights_and_accounts",
    "replayed_batch_is_judged",
    "fine_gate",
    "plan_log_goes_away",
    "error_of_the_operator",
    "(bare_one and UTC-row)",
    "costs_are_measured_by_bucket",
    "(waits_are_measured and 2)",
    "a_stream_learns",
)
#: What is tried of a client of Spark Connect besides, whose driver is another one: settings, and jobs without a stream.
_IN_A_CLIENT = (
    "weights_multiply",
    "earlier_job_admitted",
    "one_guard_a_query",
    "latency_target_needs",
    "a_batch_goes_by",
    "test_connect",
)
_PROGRAMS = ("spark/test_exactly_once", "spark/test_demo", "spark/test_bench", "spark/test_walks")
_NETWORKS = ("spark/test_network", "spark/test_grouping", "spark/test_site", "spark/test_tour")
_BEHIND = ("spark/test_behind_gate", "spark/test_misuse")
_KAFKA = ("spark/test_kafka", "spark/test_site_kafka")
_BUCKET = ("spark/test_bucket",)
_FAIR = ("spark/test_fair", "spark/test_balanced", "spark/test_quarantine", "spark/test_rules", "spark/test_answers")
_GUARD = ("spark/test_guard", "spark/test_grouping")
_CLIENT = "spark/test_connect"


def _all_of(room: str, but: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The files of a room that need no Spark."""
    found = (f"{room}/{path.stem}" for path in sorted((ROOT / "tests" / room).glob("test_*.py")))
    return tuple(name for name in found if "spark" not in name and name not in but)


_LAS = ("sim/test_las_figures", "sim/test_fast_osg", "sim/test_fast")
_AURORA = ("sim/test_aurora_figures", "sim/test_plus_figures", "sim/test_coverage")
_COMMANDS = ("test_osg_cli", "test_themis_cli", "test_whatif", "test_network_file")
_FAULTS = ("sim/test_chaos",)
#: The benchmark of the compiled loops, which takes the time: it comes last, when the machine is free.
_TIMED = ("sim/test_bench",)
_HOUSE = ("test_quality", "test_deploy", "test_docs", "test_setup")
_RECORDS = ("test_journal", "test_log", "test_objects", "test_output", "test_plan", "test_report", "test_retention")
_STORES = ("test_store", "spark/test_binding_in_bucket")
_ACCOUNTS = ("federation/test_account", "federation/test_exchange", "federation/test_site_file", "web/test_model")
_RULES = ("test_benchmark_results", "test_dead_ends", "test_one_runtime", "test_prose", "test_results", "test_testing")
#: They import PySpark and start no Spark.
_NO_SESSION = tuple(
    f"spark/test_{name}"
    for name in ("bench_store", "binding", "growth", "network_view", "profile", "settings", "version")
)


def _run(*names: str, engine: str = "classic", only: str = "") -> tuple[str, ...]:
    return engine, *(f"tests/{name}.py" for name in names), *(("-k", only) if only else ())


#: Each run by its name: the engine, the files, and what else pytest is told.
BESIDE = {
    "kafka": _run(*_KAFKA, *_BUCKET, *_FAIR),
    "networks": _run(*_NETWORKS, *_BEHIND),
    "programs": _run(*_PROGRAMS),
    "local-cluster": _run(*_GUARD, engine="local-cluster", only=" or ".join(_IN_TASKS)),
    "connect": _run(*_GUARD, _CLIENT, engine="connect", only=" or ".join(_IN_TASKS + _IN_A_CLIENT)),
}
#: Those with the lowest priority, long ones first, so that the last ones end together.
QUIETLY = {
    "figures": _run(*_LAS, *_AURORA),
    "simulator": _run(*_all_of("sim", but=_AURORA + _LAS + _TIMED + _FAULTS)),
    "core": _run(*_all_of("core")),
    "faults": _run(*_FAULTS),
    "records": _run(*_RECORDS, *_STORES, *_ACCOUNTS, *_RULES, *_NO_SESSION, "federation/test_federation_results"),
    "house": _run(*_HOUSE, *_COMMANDS, *_TIMED),
}
#: Tests that hold a query to a target and start processes of their own: when the runs beside are over.
AT_LAST = {"targets": _run("spark/test_cluster", "spark/test_killed")}
_ALL = BESIDE | QUIETLY | AT_LAST
#: Files that are run beside alone.
NOT_HERE = (f"tests/{_CLIENT}.py", *(one for name, (_, *files) in _ALL.items() if name not in ENGINES for one in files))
#: Files whose tests hold queries to a target in the session of the first process, at last, too: one beside `AT_LAST`,
#: and one when that is over, because its batches are short.
UNDISTURBED, ALONE = "tests/spark/test_fair_overload.py", "tests/spark/test_network_overload.py"
LOWEST = 19


def quick_start() -> dict[str, str]:
    """The variables with which a JVM of the tests and its Python workers start."""
    places = [str(ROOT / "tests" / "quick_python"), os.environ.get("PYTHONPATH", "")]
    return {
        "JDK_JAVA_OPTIONS": class_archive.java_options(),
        "OPENBLAS_NUM_THREADS": "1",  # a third of what the start of a Python process takes goes into its threads
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, os.pathsep.join(places).split(os.pathsep)))),
    }


def lowest_priority(process: int) -> None:
    """Let a process, which has a session of its own, run when nobody else wants to."""
    os.setpriority(os.PRIO_PROCESS, process, LOWEST)
    # Linux weighs sessions against each other, if it does, by a number of their own.
    with suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text(str(LOWEST))


@dataclass
class RunsBeside:
    """The runs, each waited for when its result is asked for."""

    _folder: tempfile.TemporaryDirectory[str] | None = None
    _free: Semaphore = field(default_factory=lambda: Semaphore(AT_ONCE))
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _begun: dict[str, Event] = field(default_factory=lambda: {name: Event() for name in _ALL})
    _ended: dict[str, Event] = field(default_factory=lambda: {name: Event() for name in _ALL})
    _left: deque[str] = field(default_factory=lambda: deque(QUIETLY))
    _times_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    _begin_s: float = 0.0
    _waited_for: bool = False
    _stopped: bool = False

    @property
    def started(self) -> bool:
        """Whether they run or have run."""
        return self._folder is not None

    def start(self) -> None:
        """Start the first runs, and the next whenever one is over."""
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-engines-", ignore_cleanup_errors=True)
        self._begin_s = time.monotonic()
        Thread(target=self._start_all, daemon=True).start()

    def _start_all(self) -> None:
        Thread(target=self._quietly, daemon=True).start()
        class_archive.make()
        for name in BESIDE:
            self._free.acquire()
            self._start(name)
            Thread(target=self._wait, args=(name,), daemon=True).start()
        for name in BESIDE:
            self._ended[name].wait()
        for name in AT_LAST:
            self._start(name)
            Thread(target=self._wait, args=(name,), daemon=True).start()
        Thread(target=self._quietly, daemon=True).start()
        for name in AT_LAST:
            self._ended[name].wait()
        self._quietly()

    def _quietly(self) -> None:
        """Run what is left of those with the lowest priority, one after the other."""
        with suppress(IndexError):
            while True:
                name = self._left.popleft()
                self._start(name)
                if name in self._started:
                    lowest_priority(self._started[name].pid)
                self._wait(name)

    def _wait(self, name: str) -> None:
        begin_s = time.monotonic() - self._begin_s
        if name in self._started:
            self._started[name].wait()
            self._times_s[name] = begin_s, time.monotonic() - self._begin_s
        self._ended[name].set()
        if name in BESIDE:
            self._free.release()

    def _start(self, name: str) -> None:
        engine, *what = _ALL[name]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *what]
        if not self._stopped:
            with self._said(name).open("wb") as said:
                self._started[name] = subprocess.Popen(
                    [*command, f"--basetemp={self._said(name).with_suffix('')}"],
                    cwd=ROOT,
                    env={**os.environ, **quick_start(), "PENSTOCK_TEST_ENGINE": engine},
                    stdout=said,
                    stderr=said,
                    start_new_session=name in QUIETLY,
                )
        self._begun[name].set()

    def result(self, name: str) -> tuple[int, str]:
        """The run's exit code and what it printed."""
        if not self._waited_for:
            self._waited_for = True
            self._free.release()  # who waits leaves its place to one run more
        self._begun[name].wait()
        return self._started[name].wait(), self._said(name).read_text(errors="replace")

    def times(self) -> list[str]:
        """When each run began and ended, in seconds after the first: where the time of the whole goes."""
        return [
            f"beside from {times_s[0]:.0f} to {times_s[1]:.0f} s: {name}" for name, times_s in self._times_s.items()
        ]

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
        number = list(_ALL).index(name)  # a path with a space or a comma in it is not for every tool
        return Path(self._folder.name) / f"run-{number}.txt"


RUNS = RunsBeside()
