"""The demo: one overloaded query on this machine, first unguarded, then guarded."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.demo.result import WINDOW_S, Outcome, workload_facts
from penstock.demo.run import Run
from penstock.demo.view import doing, watching
from penstock.demo.workload import CORES, Workload
from penstock.spark.session import local_session, standard_error_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from pyspark.sql import SparkSession

    from penstock.spark.guard.guard import Mode

#: An unguarded query is not measured, a dry run is: it keeps every row.
MODES: dict[str, Mode] = {"unguarded": "dry_run", "guarded": "enforce"}


def run_demo(console: Console, folder: Path, *, seconds: float, target_s: float, seed: int) -> dict[str, Any]:
    """Run the query both ways, show it as it goes, and return what was measured; checkpoints are left in `folder`."""
    workload = Workload(seconds, target_s, seed)
    runs = [Run(name, mode, workload) for name, mode in MODES.items()]
    with (
        _interrupts() as refuse_interrupted,
        _screen(console) as screen,
        # Spark, its workers and a Ctrl-C in the midst of a call to the JVM all write there.
        standard_error_to(folder / "standard_error.log"),
        _session(screen, folder) as spark,
    ):
        # All of it before the first run, so that none has the warmer machine.
        with doing(screen, "Warming up ..."):
            for run in runs:
                run.warm_up(spark, folder / f"{run.name}_warm_up")
        for run in runs:
            with watching(screen, run) as look:

                def looked(look: Callable[[], None] = look) -> None:
                    refuse_interrupted()
                    look()

                run.execute(spark, folder / run.name, looked)
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
def _interrupts() -> Iterator[Callable[[], None]]:
    """A Ctrl-C during a call to the JVM stays one, even if PySpark turns it into another error.

    One during a finalizer is lost, because Python ignores it; the function given here raises it again.
    """
    caught: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        signal.default_int_handler(number, frame)

    def refuse_interrupted() -> None:
        if caught:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield refuse_interrupted
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            cause = cause.__context__
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _session(screen: Console, folder: Path) -> Iterator[SparkSession]:
    with _no_interrupt(), doing(screen, "Spark starts ..."):
        spark = local_session(folder, cores=CORES, app="penstock demo")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Delay a Ctrl-C: a starting JVM would continue alone and create its folders again."""
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt


@contextmanager
def _screen(console: Console) -> Iterator[Console]:
    """The console; one on standard error keeps its current destination, even if that is redirected later."""
    if not console.stderr:
        yield console
        return
    with os.fdopen(os.dup(2), "w", encoding="utf-8") as copy:
        yield Console(file=copy)
