"""A run of a network as one self-contained HTML file."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from penstock.views import html
from penstock.views.html import safe
from penstock.views.network import formatting as fmt
from penstock.views.network.drawing import drawing, graph
from penstock.views.network.history import Facts, load, summary
from penstock.views.pictures import labelled, picture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from penstock.core.network.model import Network, Output
    from penstock.views.network.snapshot import Snapshot

_COLORS = ("#6a3d9a", "#e66101", "#1b7837", "#2166ac", "#b2182b", "#8c510a", "#01665e", "#c51b7d")
_OTHERS = "#b0b0b0"


def _times_s(snapshots: Sequence[Snapshot]) -> list[float]:
    start_s = snapshots[0].time_s - snapshots[0].duration_s
    return [one.time_s - start_s for one in snapshots]


def _plot(title: str, draw: Callable[[Axes], None], label: str, legend: Sequence[tuple[str, str]]) -> str:
    """A picture with a legend below it, because a picture cannot show every letter."""

    def whole(canvas: Canvas) -> None:
        axes = canvas.subplots()
        draw(axes)
        axes.set_ylim(bottom=0.0)
        labelled(axes, "time (s), by the end of a batch", label)

    png = picture(whole, size=(10.0, 2.8), dpi=130)
    shown = "".join(f'<span><i style="background:{color}"></i>{safe(name)}</span>' for color, name in legend)
    return f'<h2>{safe(title)}</h2>\n{html.picture(title, png)}\n<p class="legend">{shown}</p>'


def _load(snapshots: Sequence[Snapshot]) -> str:
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

    return _plot("Load", draw, "work a second", list(lines))


def _utility(network: Network, snapshots: Sequence[Snapshot]) -> str:
    """One line per output; of many, those with the largest loss have their own colour."""
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
    return _plot("Utility of each output", draw, "utility", legend + _rest(len(lines), "outputs"))


def _shed(snapshots: Sequence[Snapshot]) -> str:
    """Rows shed in each batch, place upon place."""
    totals: Counter[str] = Counter()
    for one in snapshots:
        totals.update(one.shed)
    most_first = [place for place, rows in totals.most_common() if rows]
    colors = dict(zip(most_first, _COLORS, strict=False))
    times_s = _times_s(snapshots)
    edges_s = [times_s[0] - snapshots[0].duration_s, *times_s]

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
    return _plot("Rows shed in each batch", draw, "rows", legend + _rest(len(most_first), "places"))


def _rest(count: int, what: str) -> list[tuple[str, str]]:
    more = count - len(_COLORS)
    return [(_OTHERS, f"{more} other {what}")] if more > 0 else []


_KEY = (
    "Arcs: rows a second above the line, load below it; the thicker, the more load. Boxes: their part of the work. "
    "A red disc is a drop, with what it does. A dashed arc carries no rows. Hold the pointer over a part for its whole "
    "name."
)
_GRAPH_KEY = (
    "Utility by percent of rows delivered. The dot is the cursor at the end, the red ring where utility was lowest."
)
_ROWS_KEY = "All rows are counted by the queries. A row that goes to several boxes counts on each arc."


def page(name: str, network: Network, snapshots: Sequence[Snapshot], machine: str, made_by: str) -> bytes:
    """The page; `machine` describes the machine and `made_by` is the command that repeats it."""
    facts = summary(network, snapshots)
    parts = [
        *html.sentences(verdicts(facts), "verdict"),
        *_alarms(facts),
        *_drawings(network, snapshots),
        *([_load(snapshots), _utility(network, snapshots), _shed(snapshots)] if snapshots else []),
        "<h2>Quality of service</h2>",
        f'<div class="graphs">{"".join(_graph(one, snapshots) for one in network.outputs)}</div>',
        *html.sentences([_GRAPH_KEY], "note"),
        _outputs(facts),
        _places(facts),
    ]
    return html.document(f"Network {name}", parts, machine, made_by)


def verdicts(facts: Facts) -> list[str]:
    """The results of a run, in a few sentences."""
    if not facts["batches"]:
        return ["No batch ended."]
    highest = facts["highest_load"]
    shedding = sum(one["shed"] > 0 for one in facts["places"].values())
    batches = (
        f"{facts['batches']:,} batches in {facts['seconds'] or 0.0:,.0f} s. Load was above what is allowed in "
        f"{facts['batches_overloaded']:,} of them, and with drops in {facts['batches_above_headroom']:,}; at most "
        f"{fmt.load(highest['load'])} with {fmt.load(highest['allowed'])} allowed, in batch {highest['batch']}."
    )
    rows = (
        f"{facts['rows_in']:,} rows came in and {facts['rows_shed']:,} were shed, at "
        f"{shedding} place{'s' if shedding != 1 else ''}. Road maps built: {facts['road_maps_built']}."
    )
    found = [batches, rows]
    worst = facts["worst_utility"]
    if worst is not None:
        name = next(name for name, one in facts["outputs"].items() if one["worst_utility"] == worst)
        found.append(
            f"Mean utility {fmt.utility(facts['mean_utility'])} over outputs and batches; "
            f"the lowest in a batch was {fmt.utility(worst)}, at {fmt.plain(name)}."
        )
    return found


def _alarms(facts: Facts) -> list[str]:
    if not facts["alarms"]:
        return []
    lines = [
        f"<li>{safe(alarm)} (in {times:,} of {facts['batches']:,} batches)</li>"
        for alarm, times in facts["alarms"].items()
    ]
    return ["<h2>Alarms</h2>", f"<ul>{''.join(lines)}</ul>"]


def _drawings(network: Network, snapshots: Sequence[Snapshot]) -> list[str]:
    if not snapshots:
        return ["<h2>The network</h2>", f'<div class="drawn">{drawing(network, None)}</div>']
    highest, last = max(snapshots, key=load), snapshots[-1]
    shown = {"at its highest load": highest, "at the end": last}
    if highest is last:
        shown = {"at the end, with its highest load": last}
    found = []
    for when, one in shown.items():
        due = f"load {fmt.load(one.load)} due, {fmt.load(fmt.carried(one))} done, "
        allowed = f"{fmt.load(fmt.limit(one))} allowed ({one.headroom:.0%} of {fmt.load(one.capacity)})"
        found.append(f"<h2>The network {when}: batch {one.batch}, {due}{allowed}</h2>")
        found.append(f'<div class="drawn">{drawing(network, one)}</div>')
    return [*found, *html.sentences([_KEY], "note")]


def _graph(output: Output, snapshots: Sequence[Snapshot]) -> str:
    cursors = [
        (percent, utility)
        for one in snapshots
        if (percent := fmt.known(one.delivered, output.name)) is not None
        and (utility := fmt.known(one.utilities, output.name)) is not None
    ]
    worst = min(cursors, key=lambda cursor: cursor[1], default=None)
    return graph(output, cursors[-1] if cursors else None, worst)


def _outputs(facts: Facts) -> str:
    rows = [
        (
            name,
            f"{one['rows']:,}",
            *(fmt.percent(one[f"{when}_delivered"]) for when in ("mean", "worst", "last")),
            *(fmt.utility(one[f"{when}_utility"]) for when in ("mean", "worst", "last")),
        )
        for name, one in facts["outputs"].items()
    ]
    of = ("mean", "lowest", "at the end")
    columns = ("output", "rows", *(f"delivered, {one}" for one in of), *(f"utility, {one}" for one in of))
    return html.table("Outputs", columns, rows)


def _places(facts: Facts) -> str:
    rows = [
        (name, f"{one['rows_in']:,}", f"{one['kept']:,}", f"{one['shed']:,}", f"{one['batches']:,}", one["drop"] or "")
        for name, one in facts["places"].items()
    ]
    columns = ("place", "rows in", "kept", "shed", "batches with a drop", "the last drop")
    return html.table("Rows by place", columns, rows, _ROWS_KEY, words=True)
