"""The OSG paper's figures as pictures, with the paper's axes."""

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure, Row
from penstock.views.pictures import error_bars, labelled, png

_STYLE: dict[str, dict[str, Any]] = {
    "round_robin": {"color": "#7f7f7f", "marker": "v", "label": "Round-Robin"},
    "osg": {"color": "#1f78b4", "marker": "o", "label": "OSG"},
    "full_knowledge": {"color": "#33a02c", "marker": "^", "label": "Full Knowledge"},
    "jsq": {"color": "#d95f02", "marker": "s", "label": "join-shortest-queue"},
    "penstock": {"color": "#6a3d9a", "marker": "D", "label": "Penstock"},
    "by_cost": {"color": "#6a3d9a", "marker": "D", "label": "dealt by cost"},
}
_COMPLETION, _SPEED_UP = "average completion time (ms)", "speed-up against Round-Robin"


def plot(figure: Figure) -> bytes:
    """The figure as a PNG."""
    canvas = Canvas(figsize=(11, 4.8), layout="constrained", dpi=120)
    _PLOTS[figure.figure](canvas, figure)
    return png(canvas, legend=True)


def _completion(x: str, label: str) -> Callable[[Canvas, Figure], None]:
    """Mean with a bar from minimum to maximum, algorithms side by side."""

    def draw(canvas: Canvas, figure: Figure) -> None:
        axes = canvas.subplots()
        values = _values(figure.rows, x)
        algorithms = _values(figure.rows, "algorithm")
        for number, name in enumerate(algorithms):
            own = [row for row in figure.rows if row["algorithm"] == name]
            shift = (number - (len(algorithms) - 1) / 2) * 0.13
            _bars(axes, [values.index(row[x]) + shift for row in own], own, "completion_ms", name, linestyle="none")
        axes.set_xticks(range(len(values)), [str(value) for value in values])
        axes.set_yscale("log")
        labelled(axes, label, _COMPLETION)

    return draw


def _figure_5(canvas: Canvas, figure: Figure) -> None:
    axes = canvas.subplots()
    values = _values(figure.rows, "distribution")
    for name, own in _by_algorithm(figure.rows).items():
        rates = [row["throughput_per_s"] for row in own]
        axes.plot(range(len(values)), rates, linewidth=1, markersize=4, **_STYLE[name])
    axes.set_xticks(range(len(values)), values)
    labelled(axes, "frequency distribution", "rows a second")


def _speed_up(x: str, label: str, *, log: bool = False, factor: float = 1.0) -> Callable[[Canvas, Figure], None]:
    """OSG alone as the paper has it, and all algorithms beside it."""

    def draw(canvas: Canvas, figure: Figure) -> None:
        everyone, alone = canvas.subplots(1, 2)
        for name, own in _by_algorithm(figure.rows).items():
            places = [factor * row[x] for row in own]
            for axes in (everyone, alone) if name == "osg" else (everyone,):
                _bars(axes, places, own, "speed_up", name, linewidth=1)
        for axes in (everyone, alone):
            if log:
                axes.set_xscale("log")
            axes.axhline(1.0, color="black", linestyle="--", linewidth=1)
            labelled(axes, label, _SPEED_UP)

    return draw


def _figure_11(canvas: Canvas, figure: Figure) -> None:
    window_rows = figure.parameters["figure_window_rows"]
    for axes, names in zip(
        canvas.subplots(1, 2), (tuple(_by_algorithm(figure.rows)), ("round_robin", "osg")), strict=True
    ):
        for name in names:
            own = [row for row in figure.rows if row["algorithm"] == name]
            places = [(row["window"] + 1) * window_rows for row in own]
            spreads = [row["completion_ms"] for row in own]
            style = {key: value for key, value in _STYLE[name].items() if key != "marker"}
            axes.plot(places, [one["mean"] / 1e3 for one in spreads], linewidth=1, **style)
            if len(names) == 2:  # noqa: PLR2004 - as the paper has them
                low, high = ([one[part] / 1e3 for one in spreads] for part in ("min", "max"))
                axes.fill_between(places, low, high, color=style["color"], alpha=0.2, linewidth=0)
        for place, line in (("change_at", "-"), ("run_reached_at", ":"), ("run_reached_again_at", ":")):
            if figure.parameters[place] is not None:
                axes.axvline(figure.parameters[place], color="black", linestyle=line, linewidth=0.8)
        labelled(axes, "row of the stream", "completion time (s)")


def _figure_plus(canvas: Canvas, figure: Figure) -> None:
    names = _values(figure.rows, "distribution")
    late = _values(figure.rows, "feedback_ms")
    for axes, distribution in zip(canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for name, own in _by_algorithm(figure.rows).items():
            here = [row for row in own if row["distribution"] == distribution]
            _bars(axes, [late.index(row["feedback_ms"]) for row in here], here, "speed_up", name, linewidth=1)
        axes.set_xticks(range(len(late)), [f"{value:g}" for value in late])
        axes.set_title(distribution, fontsize=9)
        labelled(axes, "how late news is (ms)", _SPEED_UP)


def _figure_batches(canvas: Canvas, figure: Figure) -> None:
    axes, cases = canvas.subplots(), _values(figure.rows, "case")
    for name, own in _by_algorithm(figure.rows).items():
        _bars(axes, [cases.index(row["case"]) for row in own], own, "speed_up", name, linestyle="")
    axes.set_xticks(range(len(cases)), cases)
    labelled(axes, "rows dealt in micro-batches", _SPEED_UP)


def _figure_readings(canvas: Canvas, figure: Figure) -> None:
    for axes, name in zip(canvas.subplots(1, 2), ("osg", "full_knowledge"), strict=True):
        for reading in _values(figure.rows, "reading"):
            own = [row for row in figure.rows if (row["reading"], row["algorithm"]) == (reading, name)]
            places = [100.0 * row["over_provisioning"] for row in own]
            axes.plot(places, [row["speed_up"]["mean"] for row in own], marker="o", linewidth=1, label=reading)
        axes.set_title(_STYLE[name]["label"], fontsize=9)
        labelled(axes, "over-provisioning (%)", _SPEED_UP)


def _bars(axes: Axes, places: list[float], rows: list[Row], column: str, name: str, **style: Any) -> None:  # noqa: ANN401 - Matplotlib's
    error_bars(axes, places, [row[column] for row in rows], elinewidth=0.7, **_STYLE[name], **style)


def _by_algorithm(rows: list[Row]) -> dict[str, list[Row]]:
    return {name: [row for row in rows if row["algorithm"] == name] for name in _values(rows, "algorithm")}


def _values(rows: list[Row], x: str) -> list[Any]:
    return list(dict.fromkeys(row[x] for row in rows))


_PLOTS: dict[str, Callable[[Canvas, Figure], None]] = {
    "4": _completion("distribution", "frequency distribution"),
    "5": _figure_5,
    "6": _speed_up("over_provisioning", "over-provisioning (%)", factor=100.0),
    "7": _speed_up("max_w_ms", "highest cost (ms)", log=True),
    "8": _completion("w_n", "number of costs n(w)"),
    "9": _speed_up("k", "instances k"),
    "10": _speed_up("epsilon", "precision eps", log=True),
    "11": _figure_11,
    "13": _completion("k", "instances k"),
    "14": _completion("k", "instances k"),
    "plus": _figure_plus,
    "batches": _figure_batches,
    "readings": _figure_readings,
}
