"""The demo: one overloaded query on this machine, first unguarded, then guarded."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from rich.console import Console

from penstock.spark.demo_result import WINDOW_S, Outcome, workload_facts
from penstock.spark.demo_run import Run
from penstock.spark.demo_view import doing, watching
from penstock.spark.demo_workload import CORES, Workload
from penstock.spark.session import local_session, standard_error_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from penstock.spark.guard import Mode

#: An unguarded query is not measured, a dry run is: it keeps every row.
MODES: dict[str, Mode] = {"unguarded": "dry_run", "guarded": "enforce"}
_JAVA_ENDS_S = 10.0
#: A socket's path has room for 103 bytes on some systems; Spark takes 42 of them for the name.
_LONGEST_SOCKET_FOLDER = 60


def run_demo(console: Console, *, seconds: float, target_s: float, seed: int) -> dict[str, Any]:
    """Run the query both ways, show it as it goes, and return what was measured; nothing is left behind."""
    workload = Workload(seconds, target_s, seed)
    runs = [Run(name, mode, workload) for name, mode in MODES.items()]
    with (
        _interrupts(),
        tempfile.TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as name,
        _screen(console) as screen,
        # Spark, its workers and a Ctrl-C in the midst of a call to the JVM all write there.
        standard_error_to(Path(name) / "standard_error.log"),
        _session(screen, folder := Path(name)) as spark,
    ):
        # All of it before the first run, so that none has the warmer machine.
        with doing(screen, "Warming up ..."):
            for run in runs:
                run.warm_up(spark, folder / f"{run.name}_warm_up")
        for run in runs:
            with watching(screen, run) as look:
                run.execute(spark, folder / run.name, look)
    return {
        "demo": "spark",
        "seed": seed,
        "seconds": seconds,
        "target_s": target_s,
        "window_s": WINDOW_S,
        "workload": workload_facts(workload),
        "runs": [Outcome(run).facts() for run in runs],
    }


@contextmanager
def _interrupts() -> Iterator[None]:
    """A Ctrl-C that broke into a call to the JVM stays one, whatever error PySpark made of it on the way out."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            cause = cause.__context__
        raise


@contextmanager
def _session(screen: Console, folder: Path) -> Iterator[SparkSession]:
    try:
        with doing(screen, "Spark starts ..."):
            spark = local_session(folder, cores=CORES, app="penstock demo", settings=_sockets(folder))
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        _end_java()


def _sockets(folder: Path) -> dict[str, str]:
    """Where Spark puts its sockets, of which it leaves some behind; a path too long for one would not do."""
    path = os.fsencode(folder)
    return {"spark.python.unix.domain.socket.dir": str(folder)} if len(path) <= _LONGEST_SOCKET_FOLDER else {}


def _end_java() -> None:
    """End the JVM: one that a Ctrl-C met while it started would go on and make its folders anew."""
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no other way to it
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(timeout=_JAVA_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def _screen(console: Console) -> Iterator[Console]:
    """The console; one that writes to standard error goes on to where that leads now."""
    if not console.stderr:
        yield console
        return
    with os.fdopen(os.dup(2), "w", encoding="utf-8") as copy:
        yield Console(file=copy)
