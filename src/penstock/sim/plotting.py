"""The papers' figures as pictures: a line or bars for each algorithm, from the rows of a figure."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from penstock.sim.figure import Figure, Row, values
from penstock.views.pictures import error_bars, picture

#: Draws one figure.
Draw = Callable[[Canvas, Figure], None]


def drawn(plots: Mapping[str, Draw], figure: Figure, *, legend: bool = True) -> bytes:
    """The figure as a PNG, by the plots of its paper."""
    return picture(lambda canvas: plots[figure.figure](canvas, figure), legend=legend)


def series(
    axes: Axes,
    rows: list[Row],
    x: str | Callable[[Row], float],
    column: str,
    styles: Mapping[str, Mapping[str, Any]],
    *,
    by: str = "algorithm",
    shift: float = 0.0,
    **style: Any,  # noqa: ANN401 - Matplotlib's
) -> None:
    """A line for each value of a column, with a bar from minimum to maximum where a number has a spread.

    `x` is a column or a function of a row, `styles` the colour, the marker and the label of each line. Each line is
    shifted against the one before it, so that bars do not overlap.
    """
    names = values(rows, by)
    for number, name in enumerate(names):
        own = [row for row in rows if row[by] == name]
        aside = (number - (len(names) - 1) / 2) * shift
        places = [(row[x] if isinstance(x, str) else x(row)) + aside for row in own]
        found = [row[column] for row in own]
        if isinstance(found[0], dict):
            error_bars(axes, places, found, **{**styles[name], **style})
        else:
            axes.plot(places, found, **{**styles[name], **style})


def by_category(axes: Axes, rows: list[Row], x: str, show: Callable[[Any], str] = str) -> Callable[[Row], float]:
    """Put the values of a column at equal distances; returns the place of a row."""
    found = values(rows, x)
    axes.set_xticks(range(len(found)), [show(value) for value in found])
    return lambda row: found.index(row[x])
