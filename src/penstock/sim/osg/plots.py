"""The OSG paper's figures as pictures, with the paper's axes."""

from functools import partial
from typing import Any

from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure, values
from penstock.sim.plotting import Draw, by_category, drawn, series
from penstock.views.pictures import labelled

_STYLE: dict[str, dict[str, Any]] = {
    "round_robin": {"color": "#7f7f7f", "marker": "v", "label": "Round-Robin"},
    "osg": {"color": "#1f78b4", "marker": "o", "label": "OSG"},
    "full_knowledge": {"color": "#33a02c", "marker": "^", "label": "Full Knowledge"},
    "jsq": {"color": "#d95f02", "marker": "s", "label": "join-shortest-queue"},
    "penstock": {"color": "#6a3d9a", "marker": "D", "label": "Penstock"},
    "by_cost": {"color": "#6a3d9a", "marker": "D", "label": "dealt by cost"},
}
_COMPLETION, _SPEED_UP = "average completion time (ms)", "speed-up against Round-Robin"


def _completion(canvas: Canvas, figure: Figure, *, x: str, label: str) -> None:
    """Mean with a bar from minimum to maximum, algorithms side by side."""
    axes = canvas.subplots()
    place = by_category(axes, figure.rows, x)
    series(axes, figure.rows, place, "completion_ms", _STYLE, shift=0.13, linestyle="none", elinewidth=0.7)
    axes.set_yscale("log")
    labelled(axes, label, _COMPLETION)


def _figure_5(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    place = by_category(axes, figure.rows, "distribution")
    series(axes, figure.rows, place, "throughput_per_s", _STYLE, linewidth=1, markersize=4)
    labelled(axes, "frequency distribution", "rows a second")


def _speed_up(
    canvas: Canvas, figure: Figure, *, x: str, label: str, scale: str = "linear", factor: float = 1.0
) -> None:
    """OSG alone as in the paper, and all algorithms beside it."""
    alone = [row for row in figure.rows if row["algorithm"] == "osg"]
    for axes, rows in zip(canvas.subplots(1, 2), (figure.rows, alone), strict=True):
        series(axes, rows, lambda row: factor * row[x], "speed_up", _STYLE, linewidth=1, elinewidth=0.7)
        axes.set_xscale(scale)
        axes.axhline(1.0, color="black", linestyle="--", linewidth=1)
        labelled(axes, label, _SPEED_UP)


def _figure_11(canvas: Canvas, figure: Figure) -> None:
    window_rows = figure.parameters["figure_window_rows"]
    both = ["round_robin", "osg"]
    for axes, names in zip(canvas.subplots(1, 2), (values(figure.rows, "algorithm"), both), strict=True):
        for name in names:
            own = [row for row in figure.rows if row["algorithm"] == name]
            places = [(row["window"] + 1) * window_rows for row in own]
            mean, low, high = ([row["completion_ms"][part] / 1e3 for row in own] for part in ("mean", "min", "max"))
            style = {key: value for key, value in _STYLE[name].items() if key != "marker"}
            axes.plot(places, mean, linewidth=1, **style)
            if names is both:
                axes.fill_between(places, low, high, color=style["color"], alpha=0.2, linewidth=0)
        for place, line in (("change_at", "-"), ("run_reached_at", ":"), ("run_reached_again_at", ":")):
            if figure.parameters[place] is not None:
                axes.axvline(figure.parameters[place], color="black", linestyle=line, linewidth=0.8)
        labelled(axes, "row of the stream", "completion time (s)")


def _figure_plus(canvas: Canvas, figure: Figure) -> None:
    names = values(figure.rows, "distribution")
    for axes, distribution in zip(canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        rows = [row for row in figure.rows if row["distribution"] == distribution]
        place = by_category(axes, rows, "feedback_ms", "{:g}".format)
        series(axes, rows, place, "speed_up", _STYLE, linewidth=1, elinewidth=0.7)
        axes.set_title(distribution, fontsize=9)
        labelled(axes, "how late news is (ms)", _SPEED_UP)


def _figure_batches(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    series(axes, figure.rows, by_category(axes, figure.rows, "case"), "speed_up", _STYLE, linestyle="", elinewidth=0.7)
    labelled(axes, "rows dealt in micro-batches", _SPEED_UP)


def _figure_readings(canvas: Canvas, figure: Figure) -> None:
    styles = {name: {"label": name, "marker": "o"} for name in values(figure.rows, "reading")}
    for axes, name in zip(canvas.subplots(1, 2), ("osg", "full_knowledge"), strict=True):
        rows = [row | {"mean": row["speed_up"]["mean"]} for row in figure.rows if row["algorithm"] == name]
        series(axes, rows, lambda row: 100.0 * row["over_provisioning"], "mean", styles, by="reading", linewidth=1)
        axes.set_title(_STYLE[name]["label"], fontsize=9)
        labelled(axes, "over-provisioning (%)", _SPEED_UP)


_PLOTS: dict[str, Draw] = {
    "4": partial(_completion, x="distribution", label="frequency distribution"),
    "5": _figure_5,
    "6": partial(_speed_up, x="over_provisioning", label="over-provisioning (%)", factor=100.0),
    "7": partial(_speed_up, x="max_w_ms", label="highest cost (ms)", scale="log"),
    "8": partial(_completion, x="w_n", label="number of costs n(w)"),
    "9": partial(_speed_up, x="k", label="instances k"),
    "10": partial(_speed_up, x="epsilon", label="precision eps", scale="log"),
    "11": _figure_11,
    "13": partial(_completion, x="k", label="instances k"),
    "14": partial(_completion, x="k", label="instances k"),
    "plus": _figure_plus,
    "batches": _figure_batches,
    "readings": _figure_readings,
}
plot = partial(drawn, _PLOTS)
