"""`penstock bench roadmap`: what is printed of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from penstock.sim.bench_roadmap import bench_roadmap as bench

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["bench", "show"]


def show(out: Console, result: dict[str, Any]) -> None:
    """Times with their spread, and what a look-up saves against a program solved afresh."""
    given = result["parameters"]
    table = Table(
        "shared", "solver", "entries", "build", "look-up", "asked for drift", "linear program", "over a look-up"
    )
    for row in result["rows"]:
        table.add_row(
            f"{row['sharing']:.0%}",
            row["solver"],
            f"{row['entries']}",
            _cell(row["build_s"], "s", 2),
            _cell(row["look_up_us"], "µs", 0),
            _cell(row["ask_us"], "µs", 0),
            _cell(row["program_ms"], "ms", 1),
            f"{row['program_over_look_up']:.0f} times",
        )
    out.print(table)
    out.print(
        f"A network of {given['boxes']} boxes; medians with least and most, of {given['repeats']} repeats.",
        highlight=False,
    )


def _cell(spread: dict[str, float], unit: str, digits: int) -> str:
    return f"{spread['median']:.{digits}f} {unit} ({spread['min']:.{digits}f} to {spread['max']:.{digits}f})"
