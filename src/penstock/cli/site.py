"""`penstock site`: one site of a federation on Spark, with a line a batch; and the account over several sites."""

from __future__ import annotations

import signal
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from penstock.cli.printing import plain
from penstock.cli.run import Limits, until_over
from penstock.config.site_file import SiteFile, load
from penstock.errors import PenstockError
from penstock.output import writable_folder
from penstock.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rich.console import Console

    from penstock.federation.account import BatchAccount, Federation
    from penstock.spark.site.run import SiteRun


@dataclass(frozen=True)
class Settings(Limits):
    """How a site is run."""

    cores: int = 2  #: cores of the local session
    folder: Path | None = None  #: where checkpoint, boxes and accounts are kept, instead of the file's folder
    conf: tuple[str, ...] = ()  #: further settings of Spark, such as `spark.jars`


def run(
    path: Path,
    settings: Settings,
    console: Console,
    page: Callable[[Path], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Any]:
    """Run a site until its time is up; the run in numbers. `page` shows its folder in the meantime."""
    file = load(path)
    folder = (settings.folder or file.folder).absolute()
    if settings.folder is None:
        writable_folder(file.document.at(("folder",)) if file.document.has(("folder",)) else "folder", folder)
    from penstock.spark.session import local_session, silence_stacks
    from penstock.spark.site.run import SiteRun

    silence_stacks()
    conf = dict(one.split("=", 1) for one in settings.conf)
    plain(console, f"Starting Spark for site {file.site} ...")
    try:
        spark = local_session(folder / "spark", cores=settings.cores, app=f"penstock site {file.site}", settings=conf)
    except ConnectionError:  # Ctrl-C reaches Java as well
        raise PenstockError(
            f"Spark stopped while site {file.site} was starting: no rows were processed; start it again"
        ) from None
    # PySpark's handler cancels jobs from within the current call, which breaks that call.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with page(folder):
            made = SiteRun(spark, file, folder, on_batch=lambda one: _line(console, one))
            until_over(made, made.start, lambda: made.batches, settings)
            return facts(file, made)
    finally:
        with suppress(ConnectionError):
            spark.stop()


def _line(console: Console, one: BatchAccount) -> None:
    report = one.report
    gives = "  ".join(f"{given.query} {given.give:.2f} (SIC {given.level:.2f})" for given in one.queries)
    results = "  ".join(f"{query} {sic:.2f}" for query, sic in report.sic.items())
    told = f"batch {one.batch}: {report.rows_in:,} rows in, {report.shed_total:,} shed; gives {gives}"
    plain(console, told + (f"; SIC of results {results}" if results else ""))


def facts(file: SiteFile, made: SiteRun) -> dict[str, Any]:
    """The run in numbers."""
    last = made.accounts[-1] if made.accounts else None
    inputs = {} if last is None else last.total.places
    return {
        "site": file.site,
        "epoch": None if last is None else last.epoch,
        "batches": made.batches,
        "errors": made.errors,
        "inputs": {
            name: {"rows_in": one.rows_in, "kept": one.rows_kept, "shed": one.rows_shed, "from": one.sender or None}
            for name, one in inputs.items()
        },
        "give": {} if last is None else {one.query: one.give for one in last.queries},
        "sic_seen": {} if last is None else {one.query: one.level for one in last.queries},
        "sic_of_results": made.exchange.updates.measured(),
        "messages": dict(made.exchange.counts),
    }


def show(console: Console, found: dict[str, Any]) -> None:
    """The run in a few lines."""
    survived = f", errors survived: {found['errors']}" if found["errors"] else ""
    plain(console, f"Site {found['site']}: {counted(found['batches'], 'batch', 'batches')}{survived}.")
    for name, one in found["inputs"].items():
        plain(console, f"{name}: {one['rows_in']:,} rows in = {one['kept']:,} kept + {one['shed']:,} shed")
    for query, sic in found["sic_of_results"].items():
        plain(console, f"{query}: SIC of its results {sic:.3f}")
    refused = {name: count for name, count in found["messages"].items() if "refused" in name}
    if refused:
        plain(console, f"Messages refused: {', '.join(f'{k}: {v}' for k, v in refused.items())}")


def show_account(console: Console, found: Federation) -> None:
    """The account of every row."""
    table = Table("input", "rows in", "kept", "shed")
    for name, one in found.inputs.items():
        table.add_row(name, f"{one.rows_in:,}", f"{one.rows_kept:,}", f"{one.rows_shed:,}")
    console.print(table)
    if found.links:
        table = Table("link", "sent", "read", "under way", "lost")
        for name, link in found.links.items():
            table.add_row(name, *(f"{n:,}" for n in (link.sent, link.read, link.under_way, link.lost)))
        console.print(table)
    for query, rows in found.results.items():
        plain(console, f"{query}: {rows:,} rows of results")
    for fault in found.faults:
        plain(console, fault)
    plain(console, "The account balances." if not found.faults else "THE ACCOUNT DOES NOT BALANCE.")
