"""Common parts of pictures: the canvas, axis labels, a legend below, and the PNG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.figure import Figure as Canvas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

#: Entries of a legend side by side.
_MOST_COLUMNS = 8


def picture(
    draw: Callable[[Canvas], None], *, size: tuple[float, float] = (11.0, 4.8), dpi: int = 120, legend: bool = False
) -> bytes:
    """The picture as a PNG with reproducible bytes; below it, the legend of its first axes."""
    canvas = Canvas(figsize=size, layout="constrained", dpi=dpi)
    draw(canvas)
    if legend:
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        columns = min(len(labels), _MOST_COLUMNS)
        canvas.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8)
    made = io.BytesIO()
    canvas.savefig(made, format="png", metadata={"Software": None})
    return made.getvalue()


def labelled(axes: Axes, across: str, up: str, grid: Literal["y", "both"] = "y") -> None:
    """Name the axes, and draw lines across or both ways."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(axis=grid, alpha=0.3)


def error_bars(axes: Axes, places: Sequence[float], spreads: Sequence[Mapping[str, float]], **style: Any) -> None:  # noqa: ANN401 - Matplotlib's
    """Means, each with a bar from minimum to maximum."""
    means = [one["mean"] for one in spreads]
    around = [[one["mean"] - one["min"] for one in spreads], [one["max"] - one["mean"] for one in spreads]]
    axes.errorbar(places, means, yerr=around, markersize=4, capsize=2, **style)
