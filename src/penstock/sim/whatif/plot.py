"""The results of each policy as a picture: waits, and kept and shed rows."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure as Canvas

from penstock.sim.whatif.replay import NOTHING, Outcome
from penstock.views.pictures import picture

#: Policies may come out alike, to the digit if rows cost alike: a broad line below shows under a thin one above.
_STYLE: dict[str, dict[str, Any]] = {
    NOTHING: {"color": "#7f7f7f", "linestyle": "-", "marker": ""},
    "base_line": {"color": "#b15928", "linestyle": ":", "marker": "x"},
    "straw_man": {"color": "#d95f02", "linestyle": "-.", "marker": "^"},
    "random": {"color": "#1f78b4", "linestyle": "--", "marker": "o", "zorder": 3},
    "load_aware": {"color": "#6a3d9a", "linestyle": "-", "marker": "", "linewidth": 4, "alpha": 0.4},
    "load_aware, cheap": {"color": "#e7298a", "linestyle": "-", "marker": "s"},
    "full_knowledge": {"color": "#33a02c", "linestyle": (0, (5, 1)), "marker": "D"},
}
#: Steps between two markers of a line; each line begins a few steps after the one before, or they would cover another.
_MARK_EVERY, _MARK_APART = 28, 4


def plot(outcomes: Sequence[Outcome], target_s: float, title: str) -> bytes:
    """The picture as a PNG."""
    return picture(lambda canvas: _draw(canvas, outcomes, target_s, title), size=(11.0, 6.5), legend=True)


def _draw(canvas: Canvas, outcomes: Sequence[Outcome], target_s: float, title: str) -> None:
    latency, rows = canvas.subplots(2, 1, sharex=True)
    styles = {
        one.policy: {"markersize": 4, "markevery": (number * _MARK_APART, _MARK_EVERY), "linewidth": 1.2}
        | _STYLE[one.policy]
        for number, one in enumerate(outcomes)
    }
    for one in outcomes:
        known = [step for step in one.series if step["mean_wait_s"] is not None]
        waits_s = [step["mean_wait_s"] for step in known]
        latency.plot([step["time_s"] for step in known], waits_s, label=one.policy, **styles[one.policy])
    latency.axhline(target_s, color="black", linestyle="--", linewidth=1, label="target")
    latency.set_yscale("log")
    latency.set_ylabel("mean queuing latency (s)")
    latency.set_title(title, loc="left", fontsize=10, parse_math=False)
    first = outcomes[0].series
    rows.fill_between(
        [step["time_s"] for step in first], [step["arrived_rows_per_s"] for step in first], color="#dddddd", step="mid"
    )
    for one in outcomes:
        kept = [step["kept_rows_per_s"] for step in one.series]
        rows.plot([step["time_s"] for step in one.series], kept, **styles[one.policy])
    rows.set_ylabel("rows a second: arrived (grey), kept")
    rows.set_xlabel("time since the first batch (s)")
    for axes in (latency, rows):
        axes.grid(axis="y", alpha=0.3)
