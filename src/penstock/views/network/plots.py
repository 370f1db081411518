"""A run of a network over time: load, utility and rows shed.

Names stand beside the pictures, not in them: a page can show every letter, a picture's font cannot.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas

from penstock.views.network import formatting as fmt
from penstock.views.network.summary import periods_s
from penstock.views.pictures import png

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from penstock.core.network.model import Network
    from penstock.messages.snapshot import Snapshot

_COLORS = ("#6a3d9a", "#e66101", "#1b7837", "#2166ac", "#b2182b", "#8c510a", "#01665e", "#c51b7d")
_OTHERS = "#b0b0b0"


class Plot(NamedTuple):
    """A picture as PNG, with what its colours mean."""

    title: str
    png: bytes
    legend: Sequence[tuple[str, str]]


def plots(network: Network, snapshots: Sequence[Snapshot]) -> list[Plot]:
    """All pictures; none without a batch."""
    if not snapshots:
        return []
    return [_load(snapshots), _utility(network, snapshots), _shed(snapshots)]


def _times_s(snapshots: Sequence[Snapshot]) -> list[float]:
    start_s = snapshots[0].time_s - snapshots[0].duration_s
    return [one.time_s - start_s for one in snapshots]


def _png(draw: Callable[[Axes], None], label: str) -> bytes:
    canvas = Canvas(figsize=(10, 2.8), layout="constrained", dpi=130)
    axes = canvas.subplots()
    draw(axes)
    axes.set_xlabel("time (s), by the end of a batch")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0.0)
    axes.grid(axis="y", alpha=0.3)
    return png(canvas)


def _load(snapshots: Sequence[Snapshot]) -> Plot:
    times_s = _times_s(snapshots)
    lines = {
        ("#b2182b", "due without drops"): [one.load for one in snapshots],
        ("#6a3d9a", "done"): [fmt.carried(one) for one in snapshots],
        ("#000000", "allowed: headroom x capacity"): [fmt.limit(one) for one in snapshots],
    }

    def draw(axes: Axes) -> None:
        for (color, name), loads in lines.items():
            style = "--" if name.startswith("allowed") else "-"
            axes.plot(times_s, loads, style, color=color, marker=".", markersize=3, linewidth=1.2)

    return Plot("Load", _png(draw, "work a second"), list(lines))


def _utility(network: Network, snapshots: Sequence[Snapshot]) -> Plot:
    """One line an output; of many, those that lost most have a colour of their own."""
    times_s = _times_s(snapshots)
    lines = {
        one.name: np.array([snapshot.utilities.get(one.name, math.nan) for snapshot in snapshots], dtype=float)
        for one in network.outputs
    }
    worst_first = sorted(lines, key=lambda name: np.mean(np.nan_to_num(lines[name], nan=1.0)))
    colors = dict(zip(worst_first, _COLORS, strict=False))

    def draw(axes: Axes) -> None:
        for name in reversed(worst_first):
            color = colors.get(name, _OTHERS)
            axes.plot(times_s, lines[name], color=color, marker=".", markersize=3, linewidth=1.2)
        axes.set_ylim(top=1.05)

    legend = [(color, name) for name, color in colors.items()]
    return Plot("Utility of each output", _png(draw, "utility"), legend + _rest(len(lines), "outputs"))


def _shed(snapshots: Sequence[Snapshot]) -> Plot:
    """Rows shed in each batch, place upon place."""
    totals: dict[str, int] = {}
    for one in snapshots:
        for place, rows in one.shed.items():
            totals[place] = totals.get(place, 0) + rows
    most_first = sorted((place for place in totals if totals[place]), key=lambda place: -totals[place])
    colors = dict(zip(most_first, _COLORS, strict=False))
    times_s = _times_s(snapshots)
    edges_s = [times_s[0] - periods_s(snapshots)[0], *times_s]

    def draw(axes: Axes) -> None:
        below = np.zeros(len(snapshots))
        others = most_first[len(colors) :]
        for places, color in [*(([place], color) for place, color in colors.items()), (others, _OTHERS)]:
            rows = np.array([sum(one.shed.get(place, 0) for place in places) for one in snapshots], dtype=float)
            if rows.any():
                axes.stairs(below + rows, edges_s, baseline=below, fill=True, color=color)
            below += rows
        axes.set_xlim(edges_s[0], edges_s[-1])

    legend = [(color, place) for place, color in colors.items()]
    return Plot("Rows shed in each batch", _png(draw, "rows"), legend + _rest(len(most_first), "places"))


def _rest(count: int, what: str) -> list[tuple[str, str]]:
    more = count - len(_COLORS)
    return [(_OTHERS, f"{more} other {what}")] if more > 0 else []
