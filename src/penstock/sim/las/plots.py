"""The LAS paper's figures as pictures, with the paper's axes."""

from collections.abc import Callable
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure
from penstock.sim.plotting import Draw, by_category, drawn, series
from penstock.sim.workload import PHASE_ROWS, PHASES
from penstock.views.pictures import labelled

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


def _figure_4(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    _bars(axes, figure, "under_provisioning", "queuing_latency_ms", "{:.0%}".format)
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
    length = figure.parameters["figure_window_rows"]
    for axes, shown in ((latency, column), (dropped, "dropped_ratio")):
        series(axes, figure.rows, lambda row: (row["window"] + 1) * length, shown, _STYLE, markersize=3, linewidth=1)
    _finish(latency, figure, "row of the stream", label, log=True, target=target)
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
    for axes, column, label in ((latency, "queuing_latency_ms", _LATENCY), (dropped, "dropped_ratio", "dropped ratio")):
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


def _bars(axes: Axes, figure: Figure, x: str, column: str, show: Callable[[Any], str]) -> None:
    place = by_category(axes, figure.rows, x, show)
    series(axes, figure.rows, place, column, _STYLE, shift=0.11, linestyle="none")


def _finish(axes: Axes, figure: Figure, x_label: str, y_label: str, *, log: bool = False, target: bool = True) -> None:
    if log:
        axes.set_yscale("log")
    if target:
        axes.axhline(figure.parameters["target_ms"], color="black", linestyle="--", linewidth=1, label="target")
    labelled(axes, x_label, y_label)


_PLOTS: dict[str, Draw] = {
    "4": _figure_4,
    "5": partial(_both, x="distribution", label="frequency distribution", rotation=30),
    "6": _figure_6,
    "7": partial(_over_time, column="completion_latency_ms", label="average completion latency (ms)", target=False),
    "eps": partial(_both, x="epsilon", label="precision eps"),
    "plus": _figure_plus,
}
plot = partial(drawn, _PLOTS)
