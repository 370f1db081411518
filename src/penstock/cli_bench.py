"""`penstock bench gate|idle|latency`: the benchmarks that run on Spark."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from penstock.core.load_aware import Prefer


def require_spark() -> None:
    """Say in one line what is missing, before anything starts."""
    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            raise PenstockError(f"{package} is missing: run pip install 'penstock[spark]'")


def run_gate(rows: int, repeats: int, done: Callable[[], None]) -> dict[str, Any]:
    """Run the benchmark of the gate."""
    from penstock.spark.bench.gate import bench_gate  # noqa: PLC0415 - the other commands need no Spark

    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        return bench_gate(Path(folder), rows, repeats, done)


def run_idle(repeats: int, done: Callable[[], None]) -> dict[str, Any]:
    """Run the benchmark of a guard with nothing to do."""
    from penstock.spark.bench.idle import bench_idle  # noqa: PLC0415 - the other commands need no Spark

    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        return bench_idle(Path(folder), repeats, done)


def run_latency(
    learn_s: float, measure_s: float, prefer: str, repeats: int, done: Callable[[], None]
) -> dict[str, Any]:
    """Run the benchmark of latency under overload."""
    from penstock.spark.bench.latency import Effort, bench_latency  # noqa: PLC0415 - the other commands need no Spark

    preferred: Prefer = "cheap" if prefer == "cheap" else "any"
    effort = Effort(repeats, learn_s=learn_s, measure_s=measure_s, prefer=preferred)
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        return bench_latency(Path(folder), effort, done)


def show_gate(out: Console, result: dict[str, Any]) -> None:
    """Rows a second and their ratio."""
    table = Table("", "million rows a second", "slowest to fastest", "rows kept")
    for name, label in (("everything", "no gate"), ("sample", "sample(0.5)"), ("gate", "guard.admit")):
        rate = {part: value / 1e6 for part, value in result["rows_per_s"][name].items()}
        spread = f"{rate['min']:.1f} to {rate['max']:.1f}"
        table.add_row(label, f"{rate['median']:.1f}", spread, f"{result['kept_share'][name]:.1%}")
    out.print(table)
    spread = result["ratio_spread"]
    line = f"guard.admit over sample(0.5): {result['ratio']:.3f} ({spread['min']:.3f} to {spread['max']:.3f})."
    out.print(line, highlight=False)


def show_idle(out: Console, result: dict[str, Any]) -> None:
    """Throughput with and without a guard, and what the control table takes."""
    table = Table("pipeline", "batches of", "rows a second", "slowest to fastest")
    given = result["parameters"]
    for rows, own in ((given["rows_per_batch"], result), (given["short_batch_rows"], result["short_batches"])):
        for name in ("bare", "guarded"):
            rate = own["rows_per_s"][name]
            table.add_row(name, f"{rows} rows", f"{rate['median']:.0f}", f"{rate['min']:.0f} to {rate['max']:.0f}")
    out.print(table)
    spread, short, control = result["ratio_spread"], result["short_batches"], result["control_table_ms"]
    out.print(
        f"guarded over bare: {result['ratio']:.3f} ({spread['min']:.3f} to {spread['max']:.3f}), in short batches "
        f"{short['ratio']:.3f}; rows shed: {result['rows_shed']}; the gate adds {control['median']:.0f} ms to a "
        f"micro-batch ({control['min']:.0f} to {control['max']:.0f}).",
        highlight=False,
    )


def show_latency(out: Console, result: dict[str, Any]) -> None:
    """How each policy held the target."""
    table = Table("overload", "policy", "windows within target", "rows kept", "mean queuing latency by window, s")
    for row in result["rows"]:
        latencies = ", ".join("-" if value is None else f"{value:.2f}" for value in row["queuing_latency_s"])
        cells = (
            f"{row['overload']:.0%}",
            row["policy"],
            f"{row['windows_within_target']:.0%}",
            f"{row['kept']}",
            latencies,
        )
        table.add_row(*cells)
    out.print(table)
