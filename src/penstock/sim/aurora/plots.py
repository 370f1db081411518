"""The Aurora paper's figures as pictures, with the paper's axes."""

from collections.abc import Callable
from functools import partial
from typing import Any

from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure
from penstock.views.pictures import error_bars, labelled, png

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


def plot(figure: Figure) -> bytes:
    """The figure as a PNG."""
    canvas = Canvas(figsize=(11, 4.8), layout="constrained", dpi=120)
    _PLOTS[figure.figure](canvas, figure)
    return png(canvas, legend=True)


def _losses(canvas: Canvas, figure: Figure, *, of: str) -> None:
    """Mean with a bar from minimum to maximum."""
    axes, rows, column = canvas.subplots(), figure.rows, f"{of}_utility_loss"
    names = list(dict.fromkeys(row["algorithm"] for row in rows))
    for number, name in enumerate(names):
        own = [row for row in rows if row["algorithm"] == name]
        places = [100.0 * row["excess_load"] + (number - (len(names) - 1) / 2) * 1.5 for row in own]
        error_bars(axes, places, [row[column] for row in own], linewidth=1, **_STYLE[name])
    labelled(axes, _EXCESS, f"% {of} utility loss")


def _figure_11(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    rows = [row for row in figure.rows if row["algorithm"] == "random_ls"]
    for load in dict.fromkeys(row["excess_load"] for row in rows):
        own = [row for row in rows if row["excess_load"] == load]
        ratios = [row["loss_ratio"] for row in own]
        axes.plot([row["skew"] for row in own], ratios, marker="o", label=f"excess load {load:+.0%}")
    labelled(axes, "skew of utilities", "value utility loss, Random-LS / Semantic-LS")


def _figure_12(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    rows = [row for row in figure.rows if row["algorithm"] == "input_uniform"]
    skews = list(dict.fromkeys(row["skew"] for row in rows))
    loads = list(dict.fromkeys(row["excess_load"] for row in rows))
    for number, skew in enumerate(skews):
        own = [row["loss_ratio"] or 0.0 for row in rows if row["skew"] == skew]
        places = [place + (number - (len(skews) - 1) / 2) * 0.25 for place in range(len(loads))]
        axes.bar(places, own, width=0.25, label=f"skew {skew:g}")
    axes.axhline(1.0, color="black", linestyle="--", linewidth=1)
    axes.set_xticks(range(len(loads)), [f"{100 * load:.0f}" for load in loads])
    labelled(axes, _EXCESS, "tuple utility loss, Input-Uniform / Random-LS")


def _figure_plus(canvas: Canvas, figure: Figure) -> None:
    sharing = list(dict.fromkeys(row["sharing"] for row in figure.rows))
    policies = list(dict.fromkeys(row["policy"] for row in figure.rows))
    grid = canvas.subplots(1, 2 * len(sharing), squeeze=False)[0]
    for number, share in enumerate(sharing):
        for axes, column, label in (
            (grid[2 * number], "utility_loss", "% utility loss"),
            (grid[2 * number + 1], "worst_query_utility", "worst query's utility"),
        ):
            for policy in policies:
                own = [row for row in figure.rows if (row["sharing"], row["policy"]) == (share, policy)]
                places = [100.0 * row["excess_load"] for row in own]
                axes.plot(places, [row[column]["mean"] for row in own], markersize=4, linewidth=1, **_STYLE[policy])
            axes.set_title(f"{share:.0%} shared", fontsize=9)
            labelled(axes, _EXCESS, label)


_PLOTS: dict[str, Callable[[Canvas, Figure], None]] = {
    "9": partial(_losses, of="tuple"),
    "10": partial(_losses, of="value"),
    "11": _figure_11,
    "12": _figure_12,
    "plus": _figure_plus,
}
