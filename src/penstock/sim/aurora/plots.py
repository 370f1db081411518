"""The Aurora paper's figures as pictures, with the paper's axes."""

from functools import partial
from typing import Any

from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure, Row, values
from penstock.sim.plotting import Draw, drawn, series
from penstock.views.pictures import labelled

_STYLE: dict[str, dict[str, Any]] = {
    "random_ls": {"color": "#1f78b4", "marker": "o", "label": "Random-LS"},
    "semantic_ls": {"color": "#6a3d9a", "marker": "D", "label": "Semantic-LS"},
    "input_random": {"color": "#d95f02", "marker": "s", "label": "Input-Random"},
    "input_cost_top": {"color": "#e6ab02", "marker": "v", "label": "Input-Cost-Top"},
    "input_uniform": {"color": "#33a02c", "marker": "^", "label": "Input-Uniform"},
    "input_cost_uniform": {"color": "#7f7f7f", "marker": "x", "label": "Input-Cost-Uniform"},
    "greedy_group": {"color": "#e6ab02", "marker": "v", "label": "greedy, by query"},
    "greedy": {"color": "#1f78b4", "marker": "o", "label": "greedy"},
    "penstock": {"color": "#6a3d9a", "marker": "D", "label": "Penstock"},
    "exact": {"color": "#33a02c", "marker": "^", "label": "optimum"},
    "max_min": {"color": "#d95f02", "marker": "s", "label": "max-min"},
    "fresh": {"color": "#a6cee3", "marker": "o", "label": "drifted: fresh", "linestyle": ":"},
    "stale": {"color": "#b15928", "marker": "x", "label": "drifted: stale", "linestyle": ":"},
    "rebuilt": {"color": "#cab2d6", "marker": "D", "label": "drifted: rebuilt", "linestyle": ":"},
}
_EXCESS = "excess load (% of capacity)"


def _percent(row: Row) -> float:
    return float(100.0 * row["excess_load"])


def _losses(canvas: Canvas, figure: Figure, *, of: str) -> None:
    """Mean with a bar from minimum to maximum."""
    axes = canvas.subplots()
    series(axes, figure.rows, _percent, f"{of}_utility_loss", _STYLE, shift=1.5, linewidth=1)
    labelled(axes, _EXCESS, f"% {of} utility loss")


def _figure_11(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    rows = [row for row in figure.rows if row["algorithm"] == "random_ls"]
    styles = {load: {"label": f"excess load {load:+.0%}", "marker": "o"} for load in values(rows, "excess_load")}
    series(axes, rows, "skew", "loss_ratio", styles, by="excess_load")
    labelled(axes, "skew of utilities", "value utility loss, Random-LS / Semantic-LS")


def _figure_12(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    rows = [row for row in figure.rows if row["algorithm"] == "input_uniform"]
    skews, loads = values(rows, "skew"), values(rows, "excess_load")
    for number, skew in enumerate(skews):
        own = [row["loss_ratio"] or 0.0 for row in rows if row["skew"] == skew]
        places = [place + (number - (len(skews) - 1) / 2) * 0.25 for place in range(len(loads))]
        axes.bar(places, own, width=0.25, label=f"skew {skew:g}")
    axes.axhline(1.0, color="black", linestyle="--", linewidth=1)
    axes.set_xticks(range(len(loads)), [f"{100 * load:.0f}" for load in loads])
    labelled(axes, _EXCESS, "tuple utility loss, Input-Uniform / Random-LS")


def _figure_plus(canvas: Canvas, figure: Figure) -> None:
    panels = [
        (share, column, label)
        for share in values(figure.rows, "sharing")
        for column, label in (("utility_loss", "% utility loss"), ("worst_query_utility", "worst query's utility"))
    ]
    for axes, (share, column, label) in zip(canvas.subplots(1, len(panels)), panels, strict=True):
        rows = [row | {"mean": row[column]["mean"]} for row in figure.rows if row["sharing"] == share]
        series(axes, rows, _percent, "mean", _STYLE, by="policy", markersize=4, linewidth=1)
        axes.set_title(f"{share:.0%} shared", fontsize=9)
        labelled(axes, _EXCESS, label)


def _figure_batches(canvas: Canvas, figure: Figure) -> None:
    panels = (("batch_length", "batch length (triggers)"), ("utility_loss", "% utility loss"))
    styles = {"random": {**_STYLE["random_ls"], "label": "road map"}, "input_uniform": _STYLE["input_uniform"]}
    for axes, (column, label) in zip(canvas.subplots(1, len(panels)), panels, strict=True):
        rows = [row | {"mean": row[column]["mean"]} for row in figure.rows]
        series(axes, rows, "turn", "mean", styles)
        axes.set_xticks(range(len(figure.parameters["loads"])), [f"{load:g}" for load in figure.parameters["loads"]])
        labelled(axes, "load, in turn (multiples of capacity)", label)


_PLOTS: dict[str, Draw] = {
    "9": partial(_losses, of="tuple"),
    "10": partial(_losses, of="value"),
    "11": _figure_11,
    "12": _figure_12,
    "plus": _figure_plus,
    "batches": _figure_batches,
}
plot = partial(drawn, _PLOTS)
