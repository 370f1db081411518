"""`penstock bench roadmap`: its printed result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from penstock.bench.roadmap import bench_roadmap as bench

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["bench", "show"]


def show(out: Console, result: dict[str, Any]) -> None:
    """Times with their spread, and the gain of a look-up over solving a program."""
    given = result["parameters"]
    table = Table("shared", "solver", "entries", "build, s", "look-up, µs", "linear program, ms")
    for row in result["rows"]:
        cells = (_cell(row["build_s"], 2), _cell(row["look_up_us"], 0), _cell(row["program_ms"], 1))
        table.add_row(f"{row['sharing']:.0%}", row["solver"], f"{row['entries']}", *cells)
    out.print(table)
    ratios = sorted(row["program_over_look_up"] for row in result["rows"])
    out.print(
        f"A network of {given['boxes']} boxes; medians with least and most, of {given['repeats']} repeats. "
        f"A linear program solved afresh takes {ratios[0]:.0f} to {ratios[-1]:.0f} times as long as a look-up; to ask "
        f"whether the map has drifted takes {_cell(result['ask_us'], 0)} µs.",
        highlight=False,
    )


def _cell(spread: dict[str, float], digits: int) -> str:
    return f"{spread['median']:.{digits}f} ({spread['min']:.{digits}f} to {spread['max']:.{digits}f})"
