"""`penstock reproduce osg`: which figures there are, and where one gets its stream from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.cli.printing import named
from penstock.errors import PenstockError
from penstock.sim.osg import figures as osg
from penstock.sim.osg.streams import MENTION, REACH, KeyedStream, has_column, recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.sim.figure import Figure

#: A recorded stream's columns if no others are named.
KEY_COLUMN, COST_COLUMN = "key", "cost_ms"
_APPLICATIONS = {"13": MENTION, "14": REACH}
_RECORDED = {"13": osg.figure_13, "14": osg.figure_14}


def names(figure: str | None) -> list[str]:
    """The figures to make, or one line that says which there are."""
    if figure == "12":
        raise PenstockError.setting(
            "--figure",
            figure,
            "it to 'penstock bench grouping --figure-12'",
            "Figure 12 is a prototype's, run on Spark",
        )
    return named(figure, osg.FIGURES)


def maker(
    figure: str, data: Path | None, key: str | None, cost: str | None, seed: int
) -> Callable[[osg.Effort], Figure]:
    """The function that makes the figure, with a recorded stream instead of the synthetic one if given."""
    if data is None:
        return osg.FIGURES[figure]
    stream, origin = _recorded(figure, data, key, cost, seed)
    return partial(_RECORDED[figure], recorded=stream, origin=origin)


def check_data(figure: str | None, data: Path | None, key: str | None, cost: str | None, rows: int | None) -> None:
    """Refuse options that exclude each other."""
    applications = " or ".join(f"--figure {name}" for name in _RECORDED)
    if data is None and (key is not None or cost is not None):
        raise PenstockError("--key and --cost name columns of --data: give --data as well")
    if data is not None and figure not in _RECORDED:
        raise PenstockError.setting("--data", str(data), f"it with {applications}, which take a recorded stream")
    if rows is not None and figure not in {None, *_RECORDED}:
        raise PenstockError.setting("--rows", rows, f"it with {applications}; the other streams have a fixed length")
    if rows is not None and data is not None:
        raise PenstockError.setting("--rows", rows, "--rows or --data, not both: a recorded stream is run whole")


def _recorded(
    figure: str, data: Path, key: str | None, cost: str | None, seed: int
) -> tuple[KeyedStream, dict[str, str | None]]:
    key_column = key or KEY_COLUMN
    if cost is None and has_column(data, COST_COLUMN):
        cost = COST_COLUMN
    stream = recorded(data, key_column, cost, _APPLICATIONS[figure], seed)
    return stream, {"data": str(data), "key": key_column, "cost": cost}
