"""The live view of a run: a few changing lines in a terminal, or one line every few seconds elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from penstock.demo.workload import CALM_LOAD, CORES, OVERLOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, RenderableType

    from penstock.demo.run import Run

#: Time between two plain lines.
LINE_S = 5.0
_STEPS = "▁▂▃▄▅▆▇█"
_WIDTH = 60


@contextmanager
def doing(console: Console, what: str) -> Iterator[None]:
    """Show what is being done; in a terminal, only while it runs."""
    if console.is_terminal:
        with _live(console, Spinner("dots", what), spins=True):
            yield
    else:
        console.print(what, highlight=False)
        yield


@contextmanager
def watching(console: Console, run: Run) -> Iterator[Callable[[], None]]:
    """Yields the function to call repeatedly to update the view."""
    if console.is_terminal:
        with _live(console, panel(run)) as live:
            yield lambda: live.update(panel(run), refresh=True)
            live.update(panel(run), refresh=True)
    else:
        told_s = 0.0

        def tell() -> None:
            nonlocal told_s
            if run.elapsed_s >= told_s + LINE_S:
                told_s = run.elapsed_s
                console.print(line(run), highlight=False, soft_wrap=True)

        yield tell


def _live(console: Console, content: RenderableType, *, spins: bool = False) -> Live:
    """Standard error stays as it is: it goes to a file, and Rich would print it."""
    return Live(content, console=console, auto_refresh=spins, transient=spins, redirect_stderr=False)


def line(run: Run) -> str:
    """The state of a run in one line."""
    waited_s = next((report.queuing.mean_s for report in reversed(run.reports) if report.queuing), None)
    latency = "no rows yet" if waited_s is None else f"latency {waited_s:.2f} s (target {run.workload.target_s:g} s)"
    return f"{run.name} {run.elapsed_s:3.0f} s: {latency}, {_rows(run)}, {_backlog(run)}, {_plan(run)}"


def panel(run: Run) -> Group:
    """The state of a run in a few lines."""
    workload, elapsed_s = run.workload, run.elapsed_s
    load = CALM_LOAD if elapsed_s < workload.calm_s else OVERLOAD
    head = Text(f"{run.name}, {min(elapsed_s, workload.seconds):.0f} of {workload.seconds:g} s, ", style="bold")
    head.append(f"arrivals at {load:.0%} of what {CORES} cores can do")
    lines = [head, _sparkline(run), Text(_rows(run)), Text(f"{_backlog(run)}, {_cost(run)}, {_plan(run)}")]
    # A dry run cannot hold a target, so its alarms are not shown.
    alarms = run.alarms if run.mode == "enforce" else ()
    return Group(*lines, *(Text(alarm, style="yellow") for alarm in alarms))


def _sparkline(run: Run) -> Text:
    """Latency over time, one letter for each part of the run; red where it is above the target."""
    workload = run.workload
    text = Text("latency ")
    if not run.reports:
        return text.append("no rows yet")
    parts_s = np.linspace(0.0, workload.seconds, _WIDTH + 1)[1:]
    ends_s = np.array([report.end_s - run.start_s for report in run.reports])
    waits_s = [report.queuing.mean_s if report.queuing else 0.0 for report in run.reports]
    scale_s = max(2.0 * workload.target_s, *waits_s)
    for part_s in parts_s[parts_s <= max(run.elapsed_s, parts_s[0])]:
        batch = int(np.searchsorted(ends_s, part_s))
        if batch < len(waits_s):
            step = _STEPS[min(int(waits_s[batch] / scale_s * len(_STEPS)), len(_STEPS) - 1)]
            text.append(step, style=_color(waits_s[batch], workload.target_s))
    text.append(f" {waits_s[-1]:.2f} s", style=f"bold {_color(waits_s[-1], workload.target_s)}")
    return text.append(f" (target {workload.target_s:g} s)")


def _color(wait_s: float, target_s: float) -> str:
    return "green" if wait_s <= target_s else "red"


def _rows(run: Run) -> str:
    kept = sum(report.rows_kept for report in run.reports)
    return f"rows in {run.rows_in:,} = kept {kept:,} + shed {run.rows_in - kept:,}"


def _backlog(run: Run) -> str:
    """What has arrived and is in no finished batch: exact, because the source is known."""
    profile, elapsed_s = run.workload.profile, run.elapsed_s
    waiting = max(profile.rows_by(elapsed_s) - run.rows_in, 0)
    oldest_s = elapsed_s - float(profile.arrival_s(np.array([run.rows_in]))[0]) if waiting else 0.0
    return f"backlog {waiting:,} rows, the oldest {oldest_s:.1f} s old"


def _cost(run: Run) -> str:
    kept = run.reports[-1].rows_kept if run.reports else 0
    return f"mean cost {run.reports[-1].busy_s / kept * 1e3:.2f} ms" if kept else "mean cost unknown"


def _plan(run: Run) -> str:
    version = run.reports[-1].plan_version if run.reports else None
    return "no plan" if version is None else f"plan {version}"
