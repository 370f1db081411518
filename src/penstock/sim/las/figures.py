"""The LAS paper's evaluation (section 5) and how Penstock's own shedder compares.

Each function makes one figure: it runs the experiment, returns the rows behind the plot, and tests the paper's
sentences about that figure (`claims`). `runs` explains "after NOP".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.sim import parallel, workload
from penstock.sim.figure import Claim, Figure, Row, spread
from penstock.sim.las import claims as las_claims
from penstock.sim.las.runs import ALGORITHMS, LasRun, Measured, RunResult, Setting, memory_bytes, synthetic_run
from penstock.sim.workload import PHASE_ROWS, PHASES, Stream

UNDER_PROVISIONING = (0.90, 0.75, 0.50, 0.25, 0.10, 0.0, -0.10)
DISTRIBUTIONS = ("uniform", "zipf-0.5", "zipf-1.0", "zipf-1.5", "zipf-2.0", "zipf-2.5", "zipf-3.0")
EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

#: Figure 6: windows of 4,000 rows, and its target.
WINDOW_ROWS, PHASE_TARGET_S = 4_000, 0.064
SERIES_ALGORITHMS = ("straw_man", "las", "las_first_check", "full_knowledge", "penstock")
#: Figure 7: windows of 10,000 rows and the target of the mention application.
MENTION_WINDOW_ROWS, MENTION_TARGET_S = 10_000, 0.032
#: The maximum number of runs of Figure 6's phases in Figure plus.
_PHASE_RUNS = 12
#: Rounding allowed when a mean of thirty thousand latencies is compared with the target.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Effort(parallel.Effort):
    """The number of runs, their processes, and the precision of LAS's sketch."""

    runs: int = 60
    epsilon: float = Setting().epsilon


#: Figures over one parameter: latency and shedding ratio by load, by distribution of keys, by precision of the sketch.
_SWEEPS: dict[str, tuple[str, tuple[Any, ...], Callable[[list[Row]], list[Claim]]]] = {
    "4": ("under_provisioning", UNDER_PROVISIONING, las_claims.figure_4),
    "5": ("distribution", DISTRIBUTIONS, las_claims.figure_5),
    "eps": ("epsilon", EPSILONS, las_claims.figure_eps),
}


def _swept(figure: str, effort: Effort) -> Figure:
    varied, points, claims = _SWEEPS[figure]
    rows: list[Row] = []
    for value in points:
        setting = replace(Setting(), **{"epsilon": effort.epsilon, varied: value})
        results = _run(effort, setting, ALGORITHMS)
        for algorithm in ALGORITHMS:
            after, base = ([result[name].after_nop for result in results] for name in (algorithm, "base_line"))
            whole, whole_base = ([result[name].whole_stream for result in results] for name in (algorithm, "base_line"))
            rows.append(
                {
                    varied: value,
                    "algorithm": algorithm,
                    **_measures(after, base, setting.target_s),
                    "whole_stream": _measures(whole, whole_base, setting.target_s),
                }
            )
    return Figure("las", figure, _parameters(effort, without=(varied,)), rows, claims(rows))


def figure_6(effort: Effort) -> Figure:
    """Latency and drops over phases A to G of the stream."""
    series = _phase_series(effort, SERIES_ALGORITHMS)
    rows: list[Row] = []
    for algorithm in SERIES_ALGORITHMS:
        for window in range(series[algorithm].shape[1]):
            latency, dropped = spread(series[algorithm][:, window, 0]), spread(series[algorithm][:, window, 1])
            rows.append(
                {
                    "window": window,
                    "phase": PHASES[window * WINDOW_ROWS // PHASE_ROWS],
                    "algorithm": algorithm,
                    "queuing_latency_ms": latency["mean"],
                    "dropped_ratio": dropped["mean"],
                    "queuing_latency_ms_min": latency["min"],
                    "queuing_latency_ms_max": latency["max"],
                }
            )
    parameters = {
        **_parameters(effort, without=("under_provisioning", "load_in_nop")),
        "target_ms": PHASE_TARGET_S * 1e3,
        "rows": len(PHASES) * PHASE_ROWS,
        "figure_window_rows": WINDOW_ROWS,
    }
    return Figure("las", "6", parameters, rows, las_claims.figure_6(series, PHASE_TARGET_S * 1e3))


def figure_7(effort: Effort, recorded: Stream | None = None, origin: Row | None = None) -> Figure:
    """Completion latency of the mention application over the stream (one run).

    `recorded` is a stream to run instead of the synthetic one, `origin` describes its source.
    """
    if recorded is None:
        keys, costs, items = workload.mentions(effort.seed)
        recorded = Stream(keys, costs, workload.arrivals(len(keys), float(costs.mean())), items)
    setting = Setting(target_s=MENTION_TARGET_S, under_provisioning=0.0, epsilon=effort.epsilon)
    run = LasRun(recorded, setting, effort.seed)
    rows: list[Row] = []
    whole: dict[str, tuple[float, float, float]] = {}
    for algorithm in SERIES_ALGORITHMS:
        queuing = run.queuing_s(algorithm)
        completion = (queuing + recorded.costs_s) * 1e3
        for window, first in enumerate(range(0, recorded.rows, MENTION_WINDOW_ROWS)):
            part = completion[first : first + MENTION_WINDOW_ROWS]
            rows.append(
                {
                    "window": window,
                    "algorithm": algorithm,
                    "completion_latency_ms": _mean(part),
                    "queuing_latency_ms": _mean(queuing[first : first + MENTION_WINDOW_ROWS] * 1e3),
                    "dropped_ratio": float(np.isnan(part).mean()),
                }
            )
        whole[algorithm] = (_mean(completion), float(np.isnan(completion).mean()), _mean(queuing) * 1e3)
        effort.done(1)
    costs_ms = recorded.costs_s * 1e3
    parameters = {
        **(origin or {"data": "synthetic"}),
        "seed": effort.seed,
        "target_ms": MENTION_TARGET_S * 1e3,
        "under_provisioning": 0.0,
        "epsilon": effort.epsilon,
        "rows": recorded.rows,
        "figure_window_rows": MENTION_WINDOW_ROWS,
        "distinct_keys": recorded.items,
        "distinct_costs": len(np.unique(costs_ms.round(6))),
        "mean_cost_ms": float(costs_ms.mean()),
        "max_cost_ms": float(np.max(costs_ms)),
        "share_of_1_ms": float((np.abs(costs_ms - 1.0) < _ROUNDING).mean()),
        "top_key_share": float(np.max(np.bincount(recorded.keys)) / recorded.rows),
    }
    return Figure("las", "7", parameters, rows, las_claims.figure_7(whole, MENTION_TARGET_S * 1e3))


#: Figure plus, by the name of a row: the algorithm, and the setting if it is not the default point.
_VARIANTS = {
    "las": ("las", Setting()),
    "las_first_check": ("las_first_check", Setting()),
    "full_knowledge": ("full_knowledge", Setting()),
    "full_knowledge_eps": ("full_knowledge_eps", Setting()),
    "straw_man": ("straw_man", Setting()),
    "penstock": ("penstock", Setting()),
    "penstock_prefer_cheap": ("penstock_prefer_cheap", Setting()),
    "las_uniform": ("las", Setting(distribution="uniform")),
    "penstock_uniform": ("penstock", Setting(distribution="uniform")),
    "penstock_cold_start": ("penstock", Setting(calm_start=False)),
    "penstock_delay_10_ms": ("penstock", Setting(delay_s=0.010)),
    "penstock_delay_100_ms": ("penstock", Setting(delay_s=0.100)),
    "penstock_delay_1_s": ("penstock", Setting(delay_s=1.0)),
    "penstock_no_table": ("penstock", Setting(heavy_places=1)),
    "penstock_prefer_cheap_no_table": ("penstock_prefer_cheap", Setting(heavy_places=1)),
    "penstock_sync_every_1": ("penstock", Setting(sync_every=1)),
    "penstock_sync_every_16": ("penstock", Setting(sync_every=16)),
    "penstock_sync_every_64": ("penstock", Setting(sync_every=64)),
}
_SETTINGS = list(dict.fromkeys(setting for _, setting in _VARIANTS.values()))


def figure_plus(effort: Effort) -> Figure:
    """Penstock's own shedder beside LAS and Full Knowledge: the default point, and the phases of Figure 6."""
    results = {}
    for setting in _SETTINGS:
        algorithms = tuple(algorithm for algorithm, its in _VARIANTS.values() if its == setting)
        results[setting] = _run(effort, replace(setting, epsilon=effort.epsilon), algorithms)
    rows: list[Row] = []
    for name, (algorithm, setting) in _VARIANTS.items():
        measured = [result[algorithm].after_nop for result in results[setting]]
        ratios = [one.queuing_s / setting.target_s for one in measured]
        rows.append(
            {
                "variant": name,
                "queuing_latency_ms": spread(one.queuing_s * 1e3 for one in measured),
                "above_1_01_tau": fmean(ratio > 1.01 for ratio in ratios),  # noqa: PLR2004 - it names itself
                "above_1_05_tau": fmean(ratio > 1.05 for ratio in ratios),  # noqa: PLR2004 - as above
                "dropped_ratio": spread(one.dropped_ratio for one in measured),
                "memory_bytes": memory_bytes(algorithm, replace(setting, epsilon=effort.epsilon)),
            }
        )
    series = _phase_series(replace(effort, runs=min(effort.runs, _PHASE_RUNS)), ("las", "las_first_check", "penstock"))
    return Figure("las", "plus", _parameters(effort), rows, las_claims.figure_plus(rows, series, PHASE_TARGET_S * 1e3))


#: Every figure by the name a user gives.
FIGURES: dict[str, Callable[[Effort], Figure]] = {
    "4": partial(_swept, "4"),
    "5": partial(_swept, "5"),
    "6": figure_6,
    "7": figure_7,
    "eps": partial(_swept, "eps"),
    "plus": figure_plus,
}


def tasks(figure: str, runs: int) -> int:
    """The number of progress steps that a figure reports."""
    once = {"6": runs, "7": len(SERIES_ALGORITHMS), "plus": len(_SETTINGS) * runs + min(runs, _PHASE_RUNS)}
    return once[figure] if figure in once else len(_SWEEPS[figure][1]) * runs


def _run(effort: Effort, setting: Setting, algorithms: tuple[str, ...]) -> list[dict[str, RunResult]]:
    return effort.each(partial(_synthetic_results, setting=setting, seed=effort.seed, algorithms=algorithms))


def _synthetic_results(run: int, *, setting: Setting, seed: int, algorithms: tuple[str, ...]) -> dict[str, RunResult]:
    return synthetic_run(setting, run, seed).results(algorithms)


def _measures(measured: list[Measured], base_line: list[Measured], target_s: float) -> Row:
    return {
        "queuing_latency_ms": spread(one.queuing_s * 1e3 for one in measured),
        "dropped_ratio": spread(one.dropped_ratio for one in measured),
        "shedding_ratio": spread(
            (one.dropped - line.dropped) / line.dropped if line.dropped else math.nan
            for one, line in zip(measured, base_line, strict=True)
        ),
        "violations": fmean(one.queuing_s > target_s * (1.0 + _ROUNDING) for one in measured),
    }


def _phase_series(effort: Effort, algorithms: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
    """For each algorithm, runs x windows x (latency in ms, dropped ratio)."""
    runs = effort.each(partial(_phase_windows, seed=effort.seed, epsilon=effort.epsilon, algorithms=algorithms))
    return {algorithm: np.array([run[algorithm] for run in runs]) for algorithm in algorithms}


def _phase_windows(
    run: int, *, seed: int, epsilon: float, algorithms: tuple[str, ...]
) -> dict[str, list[tuple[float, float]]]:
    stream = workload.phases(seed * 1_000_003 + run, phase_rows=PHASE_ROWS)
    setting = Setting(target_s=PHASE_TARGET_S, under_provisioning=0.0, epsilon=epsilon)
    known_mean_s = float(stream.costs_s[:PHASE_ROWS].mean())  # Straw-Man knows the mean before the overload
    las_run = LasRun(stream, setting, seed * 1_000_003 + run, known_mean_s=known_mean_s)
    windows = {}
    for algorithm in algorithms:
        parts = las_run.queuing_s(algorithm).reshape(-1, WINDOW_ROWS) * 1e3
        windows[algorithm] = [(_mean(part), float(np.isnan(part).mean())) for part in parts]
    return windows


def _parameters(effort: Effort, without: tuple[str, ...] = ()) -> Row:
    """Section 5.1's parameters, less those that the figure varies or does not use."""
    setting = Setting()
    parameters = {
        "runs": effort.runs,
        "seed": effort.seed,
        "rows": workload.ROWS,
        "items": workload.ITEMS,
        "cost_values": workload.COST_VALUES,
        "cost_ms": [workload.CHEAPEST_S * 1e3, workload.DEAREST_S * 1e3],
        "distribution": setting.distribution,
        "under_provisioning": setting.under_provisioning,
        "target_ms": setting.target_s * 1e3,
        "epsilon": effort.epsilon,
        "delta": setting.delta,
        "window_rows": setting.window_rows,
        "tolerance": setting.tolerance,
        "load_in_nop": workload.CALM_LOAD,
        "message_delay_ms": setting.delay_s * 1e3,
    }
    return {name: value for name, value in parameters.items() if name not in without}


def _mean(values: NDArray[np.float64]) -> float:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else math.nan
