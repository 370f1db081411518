"""`penstock bench density`: its printed result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from penstock.bench.density import bench_density

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["bench_density", "show_density"]


def show_density(out: Console, result: dict[str, Any]) -> None:
    """Times with their spread."""
    given = result["parameters"]
    table = Table("queries", "alpha", "ms", "fastest to slowest")
    for row in result["rows"]:
        times = row["ms"]
        spread = f"{times['min']:.0f} to {times['max']:.0f}"
        table.add_row(f"{row['queries']}", row["alpha"], f"{times['median']:.0f}", spread)
    out.print(table)
    out.print(
        f"Keep shares of {given['classes']} classes; medians of {given['repeats']} repeats, "
        f"{result['slowest_ms']:.0f} ms at most. To sort as many numbers takes {result['sort_ms']['median']:.0f} ms.",
        highlight=False,
    )
