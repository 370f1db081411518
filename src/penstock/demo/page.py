"""The demo's numbers as one self-contained HTML file, with pictures: latency, arrivals and kept rows, and kept keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.demo import report
from penstock.views import html, pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from penstock.demo.report import Facts

_STYLE: dict[str, dict[str, Any]] = {
    "unguarded": {"color": "#7f7f7f", "marker": "v"},
    "guarded": {"color": "#6a3d9a", "marker": "o"},
}
#: Keys with fewer rows are not shown.
_LEAST_ROWS = 20


def page(result: Facts, machine: str, made_by: str) -> bytes:
    """The page; `machine` says where it was measured and `made_by` is the command that makes one like it."""
    parts = [
        *html.sentences(report.verdicts(result), "verdict"),
        *html.sentences(report.notes(result), "note"),
        *html.sentences([report.introduction(result)], "about"),
        *(html.picture(alt, png) for alt, png in plots(result).items()),
        *(html.table(*table) for table in report.tables(result)),
    ]
    return html.document("Penstock demo", parts, machine, made_by)


def plots(result: Facts) -> dict[str, bytes]:
    """Each picture as a PNG, by what it shows."""
    guarded = result["runs"][-1]
    return {
        "Mean queuing latency of both runs over time": _png(_latency, result),
        "Rows that arrived and rows kept, guarded": _png(_arrivals, guarded),
        "Keep share of each key by its cost, guarded": _png(_keys, guarded),
    }


def _png(draw: Any, facts: Facts) -> bytes:  # noqa: ANN401 - one of the functions below
    def whole(canvas: Canvas) -> None:
        axes = canvas.subplots()
        draw(axes, facts)
        axes.grid(axis="y", alpha=0.3)
        axes.legend(fontsize=8)

    return pictures.picture(whole, size=(10.0, 3.6), dpi=150)


def _latency(axes: Axes, result: Facts) -> None:
    for run in result["runs"]:
        known = [one for one in run["seconds"] if one["mean_wait_s"] is not None]
        times_s = [one["second"] + 0.5 for one in known]
        waits_s = [one["mean_wait_s"] for one in known]
        axes.plot(times_s, waits_s, label=run["name"], markersize=3, linewidth=1, **_STYLE[run["name"]])
    axes.axhline(result["target_s"], color="black", linestyle="--", linewidth=1, label="target")
    calm_s = result["workload"]["calm_s"]
    axes.axvspan(calm_s, result["seconds"], color="#f4ecf7", zorder=0, label="overload")
    axes.set_xlabel("time (s); rows by the second in which they were taken up")
    axes.set_ylabel("mean queuing latency (s)")
    axes.set_ylim(bottom=0.0)


def _arrivals(axes: Axes, run: Facts) -> None:
    known = run["seconds"]
    seconds = [one["second"] for one in known]
    kept, arrived = (np.array([one[name] for one in known]) for name in ("kept", "arrived"))
    axes.bar(seconds, kept, 1.0, align="edge", color="#6a3d9a", label="kept")
    axes.bar(seconds, arrived - kept, 1.0, bottom=kept, align="edge", color="#cccccc", label="shed")
    axes.set_xlabel("time of arrival (s); rows of the batches that ended")
    axes.set_ylabel("rows a second, guarded")


def _keys(axes: Axes, run: Facts) -> None:
    usual = [one for one in run["keys"] if one["rows_in"] >= _LEAST_ROWS]
    for must_keep, color, label in ((False, "#6a3d9a", "a key"), (True, "#33a02c", "a key that must be kept")):
        chosen = [one for one in usual if one["must_keep"] is must_keep]
        shares = [one["kept"] / one["rows_in"] for one in chosen]
        sizes = [4.0 * np.sqrt(one["rows_in"]) for one in chosen]
        costs_ms = [one["cost_ms"] for one in chosen]
        axes.scatter(costs_ms, shares, s=sizes, color=color, alpha=0.6, linewidths=0, label=label)
    axes.set_xlabel(f"cost of a row (ms); keys with {_LEAST_ROWS} rows or more")
    axes.set_ylabel("share of rows kept, guarded")
    axes.set_ylim(-0.05, 1.05)
