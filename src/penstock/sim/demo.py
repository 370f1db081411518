"""The demo: one overloaded stream, five ways to meet it, on virtual time with the machines users get."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.core.policy import BaseLine, LoadAware, RowPolicy
from penstock.core.target import MeanQueueLatency
from penstock.sim import workload
from penstock.sim.las_runs import measure
from penstock.sim.queueing import Outcome, simulate
from penstock.sim.workload import Stream

TARGET_S = 0.050
#: Rows at 70 percent of capacity, then at twice capacity, then calm again.
_STRETCHES = ((8_000, 0.7), (16_000, 2.0), (8_000, 0.7))
_WINDOW_ROWS = 4_000


def run_demo(console: Console, seed: int) -> dict[str, Any]:
    """Run the stream through each policy, print the comparison and return it."""
    stream = _stream(seed)
    policies: dict[str, RowPolicy] = {
        "no shedding": BaseLine(drop_share=0.0),
        "random half": BaseLine(drop_share=0.5, seed=seed),
        "LAS, as published": LoadAware(variant="paper", seed=seed),
        "Penstock": LoadAware(seed=seed),
        "Penstock, prefer cheap": LoadAware(prefer="cheap", seed=seed),
    }
    outcomes = {}
    for name, policy in policies.items():
        with console.status(f"{name} ..."):
            outcomes[name] = simulate(stream, *policy.machines(MeanQueueLatency(TARGET_S)))
    console.print(
        f"{stream.rows:,} rows that cost 0.1 to 6.4 ms each, by key. Calm, then twice the capacity, then calm again; "
        f"the target is a mean queuing latency of {TARGET_S * 1e3:.0f} ms.",
        highlight=False,
    )
    console.print(_latency_table(stream, outcomes))
    console.print(_account_table(stream, outcomes))
    return {"demo": "sim", "seed": seed, "target_ms": TARGET_S * 1e3, "rows": _rows(stream, outcomes)}


def _stream(seed: int) -> Stream:
    rng = np.random.default_rng([seed, 9])
    by_item = workload.item_costs(rng)
    rows = sum(rows for rows, _ in _STRETCHES)
    keys = workload.draw_keys("zipf-1.0", rows, workload.ITEMS, rng)
    costs = by_item[keys]
    gaps = np.concatenate([np.full(rows, costs.mean() / load) for rows, load in _STRETCHES])
    arrivals = np.concatenate([[0.0], np.cumsum(gaps)[:-1]])
    return Stream(keys, costs, arrivals, workload.ITEMS)


def _windows(outcome: Outcome) -> list[float]:
    """Mean queuing latency in ms of the kept rows of each window."""
    return [measure(part).queuing_s * 1e3 for part in outcome.queuing_s.reshape(-1, _WINDOW_ROWS)]


def _latency_table(stream: Stream, outcomes: dict[str, Outcome]) -> Table:
    table = Table("time", "load", *outcomes, title="Mean queuing latency (ms)", title_justify="left")
    series = [_windows(outcome) for outcome in outcomes.values()]
    loads = [load for rows, load in _STRETCHES for _ in range(rows // _WINDOW_ROWS)]
    for window, load in enumerate(loads):
        time_s = stream.arrivals_s[(window + 1) * _WINDOW_ROWS - 1]
        cells = [_cell(values[window]) for values in series]
        table.add_row(f"{time_s:.0f} s", f"{load:.0%}", *cells)
    return table


def _cell(latency_ms: float) -> str:
    color = "green" if latency_ms <= TARGET_S * 1e3 else "red"
    return f"[{color}]{latency_ms:,.0f}[/{color}]"


def _account_table(stream: Stream, outcomes: dict[str, Outcome]) -> Table:
    table = Table("", "rows in", "kept", "shed", "why", "counted by weight", title="The account", title_justify="left")
    for name, outcome in outcomes.items():
        kept = int(outcome.kept.sum())
        why = ", ".join(f"{reason}: {rows:,}" for reason, rows in outcome.shed.items())
        shed = sum(outcome.shed.values())
        table.add_row(name, f"{stream.rows:,}", f"{kept:,}", f"{shed:,}", why, f"{outcome.weights.sum():,.0f}")
    return table


def _rows(stream: Stream, outcomes: dict[str, Outcome]) -> list[dict[str, Any]]:
    return [
        {
            "policy": name,
            "rows_in": stream.rows,
            "kept": int(outcome.kept.sum()),
            "shed": outcome.shed,
            "weight": float(outcome.weights.sum()),
            "queuing_latency_ms": _windows(outcome),
        }
        for name, outcome in outcomes.items()
    ]
