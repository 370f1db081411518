"""The Aurora paper's evaluation (Tatbul et al. 2003, section 6), and road maps beyond the paper.

Each function makes one figure: it runs the experiment, returns the rows behind the plot, and tests the paper's
sentences about that figure (`claims`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.sim import parallel
from penstock.sim.aurora import batches
from penstock.sim.aurora import claims as aurora_claims
from penstock.sim.aurora.networks import FILTER_COST, HIGHEST_CONSTANT, LEVELS, UNION_COST
from penstock.sim.aurora.runs import (
    ALGORITHMS,
    DRIFTED,
    POLICIES,
    Measured,
    PlusRun,
    measured,
    plus_run,
    random_network,
    shared_network,
)
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


@dataclass(frozen=True)
class Effort(parallel.Effort):
    """The number of runs and their processes."""

    runs: int = 40


def _losses(figure: str, claims: Callable[[list[Row]], list[Claim]], effort: Effort) -> Figure:
    """Loss of tuple utility (figure 9) and of value utility (figure 10) against the excess load."""
    rows = _rows(_run(effort, random_network, 0.0, EXCESS, ALGORITHMS), EXCESS, ALGORITHMS)
    return Figure("aurora", figure, _parameters(effort), rows, claims(rows))


def figure_11(effort: Effort) -> Figure:
    """How much more value utility random drops lose than drops by value, against the skew of utilities."""
    rows = []
    for skew in SKEWS:
        runs = _run(effort, random_network, skew, SKEW_EXCESS, ("random_ls", "semantic_ls"))
        rows += _rows(runs, SKEW_EXCESS, ("random_ls", "semantic_ls"), skew=skew)
    _ratios(rows, "value_utility_loss", over="semantic_ls")
    return Figure("aurora", "11", _parameters(effort, skews=SKEWS), rows, aurora_claims.figure_11(rows))


def figure_12(effort: Effort) -> Figure:
    """How much more tuple utility Input-Uniform loses than random drops where 20 queries share an operator."""
    rows = []
    for skew in SHARED_SKEWS:
        runs = _run(effort, shared_network, skew, SHARED_EXCESS, ("random_ls", "input_uniform"))
        rows += _rows(runs, SHARED_EXCESS, ("random_ls", "input_uniform"), skew=skew)
    _ratios(rows, "tuple_utility_loss", over="random_ls")
    parameters = _parameters(effort, skews=SHARED_SKEWS, excess=SHARED_EXCESS, shape=(20, 21, 21, 1))
    return Figure("aurora", "12", parameters, rows, aurora_claims.figure_12(rows))


def figure_plus(effort: Effort) -> Figure:
    """Losses of road maps on irregular networks: greedy, exact, ours and max-min, also with drifting rates."""
    rows: list[Row] = []
    by_sharing: dict[float, list[PlusRun]] = {}
    for sharing in SHARING:
        one = partial(plus_run, seed=effort.seed, boxes=PLUS_BOXES, sharing=sharing, excesses=EXCESS)
        by_sharing[sharing] = runs = effort.each(one)
        rows += [_plus_row(runs, sharing, excess, policy) for excess in EXCESS for policy in (*POLICIES, *DRIFTED)]
    parameters = {"runs": effort.runs, "seed": effort.seed, "boxes": PLUS_BOXES, "excess_load": list(EXCESS)}
    return Figure("aurora", "plus", parameters, rows, aurora_claims.figure_plus(by_sharing))


def figure_batches(effort: Effort) -> Figure:
    """Networks in micro-batches whose load rises and falls, with the planner that runs them on Spark."""
    found = [turn for run in effort.each(partial(batches.turns, seed=effort.seed)) for turn in run]
    rows: list[Row] = [
        {
            "turn": number,
            "load": load,
            "algorithm": kind,
            "batch_length": spread(one.length for one in own),
            "utility_loss": spread(one.loss for one in own),
            "drops": spread(one.drops for one in own),
        }
        for number, load in enumerate(batches.LOADS)
        for kind in batches.KINDS
        if (own := [one for one in found if (one.number, one.kind) == (number, kind)])
    ]
    parameters = {
        "runs": effort.runs,
        "seed": effort.seed,
        "boxes": batches.BOXES,
        "sharing": batches.SHARING,
        "loads": list(batches.LOADS),
        "batches": batches.BATCHES,
    }
    return Figure("aurora", "batches", parameters, rows, aurora_claims.figure_batches(rows))


#: Every figure by the name a user gives.
FIGURES: dict[str, Callable[[Effort], Figure]] = {
    "9": partial(_losses, "9", aurora_claims.figure_9),
    "10": partial(_losses, "10", aurora_claims.figure_10),
    "11": figure_11,
    "12": figure_12,
    "plus": figure_plus,
    "batches": figure_batches,
}


def tasks(figure: str, runs: int) -> int:
    """The number of progress steps that a figure reports."""
    return runs * {"11": len(SKEWS), "12": len(SHARED_SKEWS), "plus": len(SHARING)}.get(figure, 1)


def _run(
    effort: Effort,
    make: Callable[[int, int, float], ValueNetwork],
    skew: float,
    excesses: tuple[float, ...],
    algorithms: tuple[str, ...],
) -> list[Measured]:
    return effort.each(partial(_on, make, effort.seed, skew, excesses, algorithms))


def _on(
    make: Callable[[int, int, float], ValueNetwork],
    seed: int,
    skew: float,
    excesses: tuple[float, ...],
    algorithms: tuple[str, ...],
    run: int,
) -> Measured:
    return measured(make(run, seed, skew), excesses, algorithms, run)


def _rows(runs: list[Measured], excesses: tuple[float, ...], algorithms: tuple[str, ...], **also: float) -> list[Row]:
    return [
        {
            **also,
            "excess_load": excess,
            "algorithm": algorithm,
            "tuple_utility_loss": spread(one.losses[excess, algorithm].tuples for one in runs),
            "value_utility_loss": spread(one.losses[excess, algorithm].values for one in runs),
        }
        for excess in excesses
        for algorithm in algorithms
    ]


def _ratios(rows: list[Row], column: str, over: str) -> None:
    """Add to each row its loss relative to the mean loss of an algorithm; null if that one lost nothing."""
    base = {(row["skew"], row["excess_load"]): row[column]["mean"] for row in rows if row["algorithm"] == over}
    for row in rows:
        lost = base[row["skew"], row["excess_load"]]
        row["loss_ratio"] = row[column]["mean"] / lost if lost > 0.0 else None


def _plus_row(runs: list[PlusRun], sharing: float, excess: float, policy: str) -> Row:
    return {
        "sharing": sharing,
        "excess_load": excess,
        "policy": policy,
        "rates": "drifted" if policy in DRIFTED else "as built",
        "utility_loss": spread(one.fares[excess, policy].loss for one in runs),
        "worst_query_utility": spread(one.fares[excess, policy].worst for one in runs),
        "build_ms": spread(one.build_ms[policy] for one in runs),
    }


def _parameters(
    effort: Effort,
    *,
    skews: tuple[float, ...] = (0.0,),
    excess: tuple[float, ...] = EXCESS,
    shape: tuple[int, int, int, int] = (5, 47, 34, 18),
) -> Row:
    queries, boxes, filters, inputs = shape
    return {
        "runs": effort.runs,
        "seed": effort.seed,
        "queries": queries,
        "boxes": boxes,
        "filters": filters,
        "inputs": inputs,
        "excess_load": list(excess),
        "skew": list(skews),
        "filter_cost": FILTER_COST,
        "union_cost": UNION_COST,
        "filter_constants_below": HIGHEST_CONSTANT,
        "utility_levels": LEVELS,
    }
