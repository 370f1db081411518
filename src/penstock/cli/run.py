"""`penstock run`: a network file on Spark, with a view while it runs and a report at the end."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.printing import plain
from penstock.config.network_file import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from rich.console import Console

    from penstock.config.network_file import NetworkFile
    from penstock.spark.network.run import NetworkRun
    from penstock.spark.site.run import SiteRun
    from penstock.views.network.snapshot import Snapshot

#: Time between two polls of the queries.
LOOK_S = 0.2


@dataclass(frozen=True)
class Limits:
    """When a run ends; None: when it is stopped."""

    seconds: float | None = None  #: for how long
    batches: int | None = None  #: for how many batches; of a network, those of its inputs


@dataclass(frozen=True)
class Settings(Limits):
    """How a network is run."""

    once: bool = False  #: whether to process the available rows and end
    kind: str | None = None  #: how rows are dropped, instead of the file's setting
    cores: int = 2  #: cores of the local session
    shed: bool = True  #: whether rows are dropped at all
    explain: bool = False  #: whether to print Spark's plan of each output
    folder: Path | None = None  #: where checkpoints and plans are kept; None: in a folder that is deleted at the end


def run(
    path: Path,
    settings: Settings,
    console: Console,
    page: Callable[[Path], AbstractContextManager[object]] = nullcontext,
) -> tuple[NetworkFile, NetworkRun]:
    """Run a network file until its time is up; the run, for its report. `page` shows its folder in the meantime."""
    file = load(path, complete=False, runnable=True)
    with _folder(settings.folder) as folder, page(folder):
        # Boxes in Python are found beside the file, by this process and by Spark's workers.
        beside = str(path.absolute().parent)
        sys.path.insert(0, beside)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [beside, os.environ.get("PYTHONPATH")]))
        from penstock.spark.network.record import Record
        from penstock.spark.network.run import NetworkRun
        from penstock.spark.session import local_session, silence_stacks
        from penstock.views.network.terminal import watching

        silence_stacks()
        plain(console, f"Starting Spark for network {file.name} ...")
        spark = local_session(folder / "spark", cores=settings.cores, app=file.name)
        # PySpark's handler cancels jobs from within the current call, which breaks that call.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with watching(console, file.network) as update:

                def seen(snapshot: Snapshot) -> None:
                    update(snapshot)
                    record.add(snapshot)

                made = NetworkRun(
                    spark,
                    file,
                    folder,
                    kind=settings.kind,  # type: ignore[arg-type]
                    cores=settings.cores,
                    shed=settings.shed,
                    on_snapshot=seen,
                )
                record = Record(folder, file.name, made.network)
                try:
                    start = partial(made.start, once=settings.once)
                    until_over(made, start, lambda: made.snapshots.sums.batches, settings)
                finally:
                    record.end()
            if settings.explain:
                for arc, plan in made.plans_shown.items():
                    plain(console, f"Plan of {arc}:\n{plan}")
            return file, made
        finally:
            spark.stop()


def until_over(
    made: NetworkRun | SiteRun, start: Callable[[], None], batches: Callable[[], int], limits: Limits
) -> None:
    """Run for this many batches or seconds, until the run ends, or until Ctrl-C."""
    begun_s = time.monotonic()
    try:
        start()
        while made.active and not (limits.batches is not None and batches() >= limits.batches):
            if limits.seconds is not None and time.monotonic() - begun_s >= limits.seconds:
                break
            time.sleep(LOOK_S)
        made.refuse_failure()
    except KeyboardInterrupt:
        # The first Ctrl-C ends a run; a second one must not interrupt its report.
        for one in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(one) is signal.default_int_handler:
                signal.signal(one, signal.SIG_IGN)
    finally:
        made.stop()


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="penstock-run-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def facts(file: NetworkFile, made: NetworkRun) -> dict[str, Any]:
    """The run in numbers."""
    from penstock.views.network.history import summary

    return {"network": file.name, "errors": made.errors, **summary(file.network, made.snapshots)}


def show(console: Console, found: dict[str, Any]) -> None:
    """The run in a few lines."""
    utility = found["mean_utility"]
    plain(
        console,
        f"Batches: {found['batches']}, of which overloaded: {found['batches_overloaded']}; rows in: "
        f"{found['rows_in']:,}, dropped: {found['rows_shed']:,}; road maps built: {found['road_maps_built']}"
        + ("" if utility is None else f", mean utility {utility:.3f}")
        + (f", errors survived: {found['errors']}" if found["errors"] else "")
        + ".",
    )
    for place, one in found["places"].items():
        if one["shed"]:
            account = f"{one['rows_in']:,} rows in = {one['kept']:,} kept + {one['shed']:,} dropped"
            plain(console, f"{place}: {account}; the last drop there: {one['drop']}")
    for name, one in found["outputs"].items():
        if one["last_delivered"] is not None:
            at_the_end = f"{one['last_delivered']:.1f} % of its rows, utility {one['last_utility']:.3f}"
            plain(console, f"{name}: {one['rows']:,} rows delivered; at the end {at_the_end}")
