"""The LAS paper's figures as pictures, with the paper's axes."""

from collections.abc import Callable
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure, Row
from penstock.sim.workload import PHASE_ROWS, PHASES
from penstock.views.pictures import error_bars, labelled, png

_STYLE: dict[str, dict[str, Any]] = {
    "base_line": {"color": "#7f7f7f", "marker": "v", "label": "Base Line"},
    "straw_man": {"color": "#d95f02", "marker": "s", "label": "Straw-Man"},
    "las": {"color": "#1f78b4", "marker": "o", "label": "LAS"},
    "las_first_check": {"color": "#a6cee3", "marker": "o", "label": "LAS, first check"},
    "full_knowledge": {"color": "#33a02c", "marker": "^", "label": "Full Knowledge"},
    "full_knowledge_eps": {"color": "#b2df8a", "marker": "^", "label": "Full Knowledge, factor 1 + eps"},
    "penstock": {"color": "#6a3d9a", "marker": "D", "label": "Penstock"},
}
_LATENCY = "average queuing latency (ms)"


def plot(figure: Figure) -> bytes:
    """The figure as a PNG."""
    canvas = Canvas(figsize=(11, 4.5), layout="constrained", dpi=120)
    _PLOTS[figure.figure](canvas, figure)
    return png(canvas, legend=True)


def _figure_4(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    _bars(axes, figure, "under_provisioning", "queuing_latency_ms", lambda value: f"{value:.0%}")
    _finish(axes, figure, "under-provisioning", _LATENCY, log=True)


def _both(canvas: Canvas, figure: Figure, *, x: str, label: str, rotation: float = 0.0) -> None:
    """Latency and shedding ratio, algorithms side by side."""
    latency, ratio = canvas.subplots(1, 2)
    _bars(latency, figure, x, "queuing_latency_ms", str)
    _finish(latency, figure, label, _LATENCY, log=True)
    _bars(ratio, figure, x, "shedding_ratio", str)
    _finish(ratio, figure, label, "shedding ratio against Base Line", target=False)
    for axes in (latency, ratio):
        axes.tick_params(axis="x", rotation=rotation)


def _over_time(canvas: Canvas, figure: Figure, *, column: str, label: str, target: bool) -> None:
    latency, dropped = canvas.subplots(1, 2)
    _series(latency, figure, column)
    _finish(latency, figure, "row of the stream", label, log=True, target=target)
    _series(dropped, figure, "dropped_ratio")
    _finish(dropped, figure, "row of the stream", "dropped ratio", target=False)


def _figure_6(canvas: Canvas, figure: Figure) -> None:
    _over_time(canvas, figure, column="queuing_latency_ms", label=_LATENCY, target=True)
    for axes in canvas.axes:
        for number, phase in enumerate(PHASES):
            axes.axvline(number * PHASE_ROWS, color="#dddddd", linewidth=0.8, zorder=0)
            axes.text((number + 0.5) * PHASE_ROWS, 1.01, phase, transform=axes.get_xaxis_transform(), ha="center")


def _figure_plus(canvas: Canvas, figure: Figure) -> None:
    latency, dropped = canvas.subplots(1, 2, sharey=True)
    names = [row["variant"] for row in figure.rows][::-1]
    for axes, column, label in (
        (latency, "queuing_latency_ms", _LATENCY),
        (dropped, "dropped_ratio", "dropped ratio"),
    ):
        for place, row in enumerate(figure.rows[::-1]):
            color = "#6a3d9a" if row["variant"].startswith("penstock") else "#1f78b4"
            spread = row[column]
            axes.plot([spread["min"], spread["max"]], [place, place], color=color, linewidth=2)
            axes.plot(spread["mean"], place, "o", color=color)
        axes.set_xlabel(label)
        axes.grid(axis="x", alpha=0.3)
    latency.set_yticks(range(len(names)), names)
    latency.set_xscale("log")
    latency.axvline(figure.parameters["target_ms"], color="black", linestyle="--", linewidth=1, label="target")


def _bars(axes: Axes, figure: Figure, x: str, column: str, label: Callable[[Any], str]) -> None:
    """Mean with a bar from minimum to maximum, algorithms side by side."""
    values = list(dict.fromkeys(row[x] for row in figure.rows))
    algorithms = list(dict.fromkeys(row["algorithm"] for row in figure.rows))
    for number, algorithm in enumerate(algorithms):
        shift = (number - (len(algorithms) - 1) / 2) * 0.11
        rows = [row for row in figure.rows if row["algorithm"] == algorithm]
        places = [values.index(row[x]) + shift for row in rows]
        error_bars(axes, places, [row[column] for row in rows], linestyle="none", **_STYLE[algorithm])
    axes.set_xticks(range(len(values)), [label(value) for value in values])


def _series(axes: Axes, figure: Figure, column: str) -> None:
    window_rows = figure.parameters["figure_window_rows"]
    by_algorithm: dict[str, list[Row]] = {}
    for row in figure.rows:
        by_algorithm.setdefault(row["algorithm"], []).append(row)
    for algorithm, rows in by_algorithm.items():
        places = [(row["window"] + 1) * window_rows for row in rows]
        axes.plot(places, [row[column] for row in rows], markersize=3, linewidth=1, **_STYLE[algorithm])


def _finish(axes: Axes, figure: Figure, x_label: str, y_label: str, *, log: bool = False, target: bool = True) -> None:
    if log:
        axes.set_yscale("log")
    if target:
        axes.axhline(figure.parameters["target_ms"], color="black", linestyle="--", linewidth=1, label="target")
    labelled(axes, x_label, y_label)


_PLOTS: dict[str, Callable[[Canvas, Figure], None]] = {
    "4": _figure_4,
    "5": partial(_both, x="distribution", label="frequency distribution", rotation=30),
    "6": _figure_6,
    "7": partial(_over_time, column="completion_latency_ms", label="average completion latency (ms)", target=False),
    "eps": partial(_both, x="epsilon", label="precision eps"),
    "plus": _figure_plus,
}
