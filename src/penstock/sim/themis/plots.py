"""The THEMIS paper's figures as pictures."""

from functools import partial
from typing import Any

from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure, Row
from penstock.sim.plotting import drawn
from penstock.views.pictures import labelled

_STYLE: dict[str, dict[str, Any]] = {
    "random": {"color": "#7f7f7f", "marker": "x", "label": "random"},
    "balance_sic": {"color": "#1f78b4", "marker": "o", "label": "BALANCE-SIC"},
    "penstock": {"color": "#6a3d9a", "marker": "D", "label": "Penstock"},
    "max_min": {"color": "#33a02c", "marker": "^", "label": "optimum", "linestyle": ":"},
}
_COLUMNS = (
    ("jain", "Jain's index of mean SIC"),
    ("jain_instant", "Jain's index, every instant"),
    ("sic_mean", "mean SIC"),
)
_X = {
    "8": ("queries", "queries on one node"),
    "9": ("interval_ms", "shedding interval (ms)"),
    "10": ("fragments", "fragments of a query"),
    "11": ("ratio", "share of three-fragment queries"),
    "12": ("nodes", "nodes"),
    "13": ("queries", "queries"),
    "14": ("setup", "setup"),
    "comparison": ("capacity", "capacity, of demand"),
    "plus": ("case", "case"),
}
_NAMES = {"avg": "AVG", "max": "MAX", "count": "COUNT", "avg_all": "AVG-all", "top_5": "TOP-5", "cov": "COV"}


def _correlation(canvas: Canvas, figure: Figure) -> None:
    """Error against SIC, a panel for each query and a line for each data set."""
    queries = list(dict.fromkeys(row["query"] for row in figure.rows))
    for axes, query in zip(canvas.subplots(1, len(queries)), queries, strict=True):
        for dataset in dict.fromkeys(row["dataset"] for row in figure.rows):
            own = [row for row in figure.rows if (row["query"], row["dataset"]) == (query, dataset)]
            axes.plot(
                [row["sic"] for row in own], [row["error"] for row in own], marker="o", markersize=3, label=dataset
            )
        axes.set_title(_NAMES[query], fontsize=10)
        labelled(axes, "SIC", "error")


def _fairness(canvas: Canvas, figure: Figure) -> None:
    """Jain's index both ways and the mean SIC, a line for each shedder."""
    name, label = _X[figure.figure]
    columns = [*_COLUMNS[:2], ("sic_min", "SIC of the poorest"), ("oscillation", "oscillation, of the mean")]
    for axes, (column, told) in zip(
        canvas.subplots(1, 4 if figure.figure == "plus" else 3),
        columns if figure.figure == "plus" else _COLUMNS,
        strict=True,
    ):
        for shedder, style in _STYLE.items():
            own = [row for row in _shown(figure) if row["shedder"] == shedder]
            axes.plot([row[name] for row in own], [row[column] for row in own], markersize=4, linewidth=1, **style)
        if isinstance(figure.rows[0][name], str):
            axes.tick_params(axis="x", labelrotation=30 if figure.figure in {"14", "plus"} else 0, labelsize=8)
        labelled(axes, label, told)


def _shown(figure: Figure) -> list[Row]:
    """Figure 10 shows one capacity and one skew; the others are in the rows."""
    if figure.figure != "10":
        return figure.rows
    at = (figure.parameters["capacity_share"], figure.parameters["zipf"])
    return [row for row in figure.rows if (row["capacity"], row["zipf"]) == at]


def _overhead(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    for place, row in enumerate(figure.rows):
        style = _STYLE[row["shedder"]]
        taken = row["us_per_batch"]
        bar = [[taken["mean"] - taken["min"]], [taken["max"] - taken["mean"]]]
        axes.bar(place, taken["mean"], yerr=bar, capsize=3, color=style["color"], label=style["label"])
    axes.set_xticks([])
    labelled(axes, "", "microseconds a batch")


_PLOTS = dict.fromkeys(_X, _fairness) | {"6": _correlation, "7": _correlation, "overhead": _overhead}
plot = partial(drawn, _PLOTS)
