"""One policy for cost, worth and fairness, as pictures."""

from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure, Row
from penstock.sim.plotting import Draw, drawn
from penstock.views.pictures import labelled

_STYLE: dict[str, dict[str, Any]] = {
    "random": {"color": "#7f7f7f", "marker": "x", "label": "random"},
    "balance_sic": {"color": "#e6ab02", "marker": "v", "label": "BALANCE-SIC"},
    "utility_alone": {"color": "#33a02c", "marker": "^", "label": "utility alone"},
    "cost_alone": {"color": "#d95f02", "marker": "s", "label": "cost alone"},
    "alpha_0": {"color": "#cab2d6", "marker": "D", "label": "alpha 0"},
    "alpha_1": {"color": "#6a3d9a", "marker": "D", "label": "alpha 1"},
    "alpha_2": {"color": "#9e7bb5", "marker": "D", "label": "alpha 2"},
    "max_min": {"color": "#1f78b4", "marker": "o", "label": "max-min"},
    "max_min_alike": {"color": "#a6cee3", "marker": "o", "label": "max-min, worths left out"},
}
_MEAN, _WORST = "mean utility of queries", "utility of the worst query"


def _table(canvas: Canvas, figure: Figure) -> None:
    """How many times as good as the paper's algorithm: above 1 is better."""
    axes = canvas.subplots()
    labels, ratios = [], []
    for row in figure.rows:
        theirs, ours = row["paper"]["mean"], row["balanced"]["mean"]
        better, worse = (theirs, ours) if row["better"] == "lower" else (ours, theirs)
        if not worse > 0.0:
            continue  # neither loses anything
        labels.append(f"{row['scenario']}: {row['metric']}")
        ratios.append(better / worse)
    axes.barh(range(len(ratios)), ratios, color="#6a3d9a", height=0.6)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks(range(len(labels)), labels, fontsize=6)
    axes.invert_yaxis()
    axes.set_xlabel("times as good as the paper's algorithm, on the paper's measure")
    axes.grid(axis="x", alpha=0.3)


def _study(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    for row in figure.rows:
        style = {**_STYLE[row["policy"]], "linestyle": ""}
        axes.plot(row["worst_utility"]["mean"], row["mean_utility"]["mean"], markersize=9, **style)
    labelled(axes, _WORST, _MEAN, grid="both")
    axes.legend(fontsize=8)


def _alpha(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    for which, color, marker, label in (
        ("exact_{}", "#7f7f7f", "x", "exact knowledge"),
        ("{}_utility", "#6a3d9a", "D", "the planner of Spark"),
    ):
        worst, mean = ([row[which.format(end)]["mean"] for row in figure.rows] for end in ("worst", "mean"))
        axes.plot(worst, mean, color=color, marker=marker, markersize=5, label=label)
        for row, x, y in zip(figure.rows, worst, mean, strict=True):
            axes.annotate(row["alpha"], (x, y), textcoords="offset points", xytext=(4, 5), fontsize=8)
    axes.legend(fontsize=8)
    labelled(axes, f"{_WORST} (alpha beside each point)", _MEAN, grid="both")


def _noise(canvas: Canvas, figure: Figure) -> None:
    left, right = canvas.subplots(1, 2, sharey=True)
    for axes, errors_in in ((left, "costs"), (right, "utilities")):
        rows = [row for row in figure.rows if row["errors_in"] == errors_in]
        _by_policy(axes, rows, "noise", 100.0)
        labelled(axes, f"errors in {errors_in}, %", "utility: mean solid, worst query dotted", grid="both")
    left.legend(fontsize=8)


def _drift(canvas: Canvas, figure: Figure) -> None:
    stretches = list(dict.fromkeys(row["stretch"] for row in figure.rows))
    for axes, stretch in zip(canvas.subplots(1, len(stretches), sharey=True), stretches, strict=True):
        _by_policy(axes, [row for row in figure.rows if row["stretch"] == stretch], "step", 100.0)
        labelled(
            axes, f"walk of a cost per second, % ({stretch})", "utility: mean solid, worst query dotted", grid="both"
        )
    canvas.axes[0].legend(fontsize=8)


def _by_policy(axes: Axes, rows: list[Row], column: str, scale: float) -> None:
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        places = [scale * row[column] for row in own]
        axes.plot(places, [row["mean_utility"]["mean"] for row in own], **_STYLE[policy])
        dotted = {**_STYLE[policy], "label": None, "linestyle": ":"}
        axes.plot(places, [row["worst_utility"]["mean"] for row in own], **dotted)


_PLOTS: dict[str, Draw] = {
    "table": _table,
    "study": _study,
    "queries": _study,
    "alpha": _alpha,
    "noise": _noise,
    "drift": _drift,
}
plot = partial(drawn, _PLOTS, legend=False)
