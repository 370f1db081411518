"""`penstock dashboard`, and the page of other commands."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.printing import plain
from penstock.errors import PenstockError
from penstock.web.board import Board

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from rich.console import Console

    from penstock.web.app import Page


@contextmanager
def board(folders: Sequence[Path], *, sample: bool, wait: bool = False) -> Iterator[Board]:
    """The logs to show: those in these folders, with `wait` also future ones, or a simulation."""
    if sample == bool(folders):
        raise PenstockError("give the checkpoint of a guarded query or the folder of penstock run, or --sample alone")
    if not sample:
        found = Board(folders)
        found.refuse_nothing(wait=wait)
        yield found
        return
    from penstock.sim.kept_run import sample as written

    with tempfile.TemporaryDirectory(prefix="penstock-sample-") as folder:
        written(Path(folder))
        yield Board([Path(folder)])


def state(shown: Board) -> list[dict[str, Any]]:
    """Everything that the page shows now."""
    shown.look()
    return shown.news({})


def serve(console: Console, shown: Board, *, host: str, port: int, token: str | None, public_url: str | None) -> None:
    """Show the page until Ctrl-C."""
    from penstock.web.app import Page

    page = Page(shown, host=host, port=port, token=token, public_url=public_url)
    _tell(console, page)
    for folder in shown.without_log:
        plain(console, f"No log of plans in {folder} yet: the page shows it as soon as the query writes its first.")
    plain(console, "Ctrl-C ends it.")
    page.serve()


def beside(console: Console, *folders: Path, wanted: bool) -> AbstractContextManager[object]:
    """The page while a command runs, if requested; logs may appear later."""
    if not wanted:
        return nullcontext()
    from penstock.web.app import Page

    page = Page(Board(folders), any_port=True)
    _tell(console, page)
    return page.beside()


def _tell(console: Console, page: Page) -> None:
    plain(console, f"Dashboard: {page.address.url}")
