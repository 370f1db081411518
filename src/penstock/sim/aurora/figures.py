"""The Aurora paper's evaluation (Tatbul et al. 2003, section 6), and road maps beyond the paper.

Each function makes one figure: it runs the experiment, returns the rows behind the plot, and tests the paper's
sentences about that figure (`claims`).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from penstock.sim import parallel
from penstock.sim.aurora import claims as aurora_claims
from penstock.sim.aurora import runs as aurora_runs
from penstock.sim.aurora.networks import FILTER_COST, HIGHEST_CONSTANT, LEVELS, UNION_COST, shared, trees
from penstock.sim.aurora.runs import ALGORITHMS, DRIFTED, POLICIES, Losses, PlusRun, measured, plus_run
from penstock.sim.aurora.value_network import ValueNetwork
from penstock.sim.figure import Claim, Figure, Row, spread

#: Mean time between rows of an input. At 10 the load is 22 percent above capacity, and so at 3 it is 307.
GAPS = (10, 8, 6, 5, 4, 3)
EXCESS = tuple(round(1.22 * GAPS[0] / gap - 1.0, 4) for gap in GAPS)
SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Figure 11 leaves the lowest load out: drops by value lose almost nothing there, so a ratio to that is meaningless.
SKEW_EXCESS = EXCESS[1:]
#: Figure 12: up to ten times capacity.
SHARED_EXCESS = (0.25, 0.5, 1.0, 2.0, 4.0, 9.0)
SHARED_SKEWS = (0.0, 0.5, 1.0)
#: Figure plus: networks without and with branches that several queries share.
SHARING = (0.0, 0.3)
PLUS_BOXES = 100
Effort = parallel.Effort


class _Sweep(NamedTuple):
    """A figure of the paper: its claims, and the networks, loads and skews of utilities that it is made of."""

    claims: Callable[[list[Row]], list[Claim]]
    make: Callable[[np.random.Generator, float], ValueNetwork] = trees
    algorithms: tuple[str, ...] = ALGORITHMS
    excesses: tuple[float, ...] = EXCESS
    skews: tuple[float, ...] = (0.0,)
    ratio: tuple[str, str] | None = None  #: a column whose mean is compared with that of an algorithm

    def run(self, number: int, *, seed: int, skew: float) -> Losses:
        """The losses on one network; skew changes its utilities and nothing else."""
        network = self.make(np.random.default_rng([seed, number]), skew)
        return measured(network, self.excesses, self.algorithms, number)


#: Losses of tuple and of value utility against the excess load. Then how much more random drops lose than drops by
#: value, against the skew of utilities. Then Input-Uniform than random drops, where 20 queries share an operator.
_SWEEPS = {
    "9": _Sweep(aurora_claims.figure_9),
    "10": _Sweep(aurora_claims.figure_10),
    "11": _Sweep(
        aurora_claims.figure_11,
        algorithms=("random_ls", "semantic_ls"),
        excesses=SKEW_EXCESS,
        skews=SKEWS,
        ratio=("value_utility_loss", "semantic_ls"),
    ),
    "12": _Sweep(
        aurora_claims.figure_12,
        make=shared,
        algorithms=("random_ls", "input_uniform"),
        excesses=SHARED_EXCESS,
        skews=SHARED_SKEWS,
        ratio=("tuple_utility_loss", "random_ls"),
    ),
}


def _swept(figure: str, effort: Effort) -> Figure:
    sweep = _SWEEPS[figure]
    rows: list[Row] = []
    for skew in sweep.skews:
        runs = effort.each(partial(sweep.run, seed=effort.seed, skew=skew))
        rows += [
            {
                **({"skew": skew} if sweep.ratio else {}),
                "excess_load": excess,
                "algorithm": algorithm,
                "tuple_utility_loss": spread(one[excess, algorithm].tuples for one in runs),
                "value_utility_loss": spread(one[excess, algorithm].values for one in runs),
            }
            for excess in sweep.excesses
            for algorithm in sweep.algorithms
        ]
    if sweep.ratio:
        _ratios(rows, *sweep.ratio)
    network = sweep.make(np.random.default_rng(effort.seed), 0.0)
    parameters = {
        "runs": effort.runs,
        "seed": effort.seed,
        "queries": len(network.network.outputs),
        "boxes": len(network.network.boxes),
        "filters": len(network.above),
        "inputs": len(network.network.inputs),
        "excess_load": list(EXCESS if sweep.make is trees else sweep.excesses),
        "skew": list(sweep.skews),
        "filter_cost": FILTER_COST,
        "union_cost": UNION_COST,
        "filter_constants_below": HIGHEST_CONSTANT,
        "utility_levels": LEVELS,
    }
    return Figure("aurora", figure, parameters, rows, sweep.claims(rows))


def _ratios(rows: list[Row], column: str, over: str) -> None:
    """Add to each row its loss relative to the mean loss of an algorithm; null if that one lost nothing."""
    base = {(row["skew"], row["excess_load"]): row[column]["mean"] for row in rows if row["algorithm"] == over}
    for row in rows:
        lost = base[row["skew"], row["excess_load"]]
        row["loss_ratio"] = row[column]["mean"] / lost if lost > 0.0 else None


def figure_plus(effort: Effort) -> Figure:
    """Losses of road maps on irregular networks: greedy, exact, ours and max-min, also with drifting rates."""
    rows: list[Row] = []
    by_sharing: dict[float, list[PlusRun]] = {}
    for sharing in SHARING:
        one = partial(plus_run, seed=effort.seed, boxes=PLUS_BOXES, sharing=sharing, excesses=EXCESS)
        by_sharing[sharing] = runs = effort.each(one)
        rows += [
            {
                "sharing": sharing,
                "excess_load": excess,
                "policy": policy,
                "rates": "drifted" if policy in DRIFTED else "as built",
                "utility_loss": spread(one.fares[excess, policy].loss for one in runs),
                "worst_query_utility": spread(one.fares[excess, policy].worst for one in runs),
                "build_ms": spread(one.build_ms[policy] for one in runs),
            }
            for excess in EXCESS
            for policy in (*POLICIES, *DRIFTED)
        ]
    parameters = {"runs": effort.runs, "seed": effort.seed, "boxes": PLUS_BOXES, "excess_load": list(EXCESS)}
    return Figure("aurora", "plus", parameters, rows, aurora_claims.figure_plus(by_sharing))


def figure_batches(effort: Effort) -> Figure:
    """Networks in micro-batches whose load rises and falls, with the planner that runs them on Spark."""
    found = [turn for run in effort.each(partial(aurora_runs.turns, seed=effort.seed)) for turn in run]
    rows: list[Row] = [
        {
            "turn": number,
            "load": load,
            "algorithm": kind,
            "batch_length": spread(one.length for one in own),
            "utility_loss": spread(one.loss for one in own),
            "drops": spread(one.drops for one in own),
        }
        for number, load in enumerate(aurora_runs.BATCH_LOADS)
        for kind in aurora_runs.BATCH_KINDS
        if (own := [one for one in found if (one.number, one.kind) == (number, kind)])
    ]
    parameters = {
        "runs": effort.runs,
        "seed": effort.seed,
        "boxes": aurora_runs.BATCH_BOXES,
        "sharing": aurora_runs.BATCH_SHARING,
        "loads": list(aurora_runs.BATCH_LOADS),
        "batches": aurora_runs.BATCHES,
    }
    return Figure("aurora", "batches", parameters, rows, aurora_claims.figure_batches(rows))


#: Every figure by the name a user gives.
FIGURES: dict[str, Callable[[Effort], Figure]] = {
    **{name: partial(_swept, name) for name in _SWEEPS},
    "plus": figure_plus,
    "batches": figure_batches,
}


def tasks(figure: str, runs: int) -> int:
    """The number of progress steps that a figure reports."""
    return runs * (len(_SWEEPS[figure].skews) if figure in _SWEEPS else {"plus": len(SHARING), "batches": 1}[figure])
