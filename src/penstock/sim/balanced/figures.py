"""One policy for cost, worth and fairness against the four papers, each on its own ground; and what it rests on.

Each function makes one figure: rows, and claims (`plus_claims`) that hold or do not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.core.fairness.jain import jain
from penstock.sim import parallel
from penstock.sim.balanced import claims as plus_claims
from penstock.sim.balanced.queries import PLANNED, SECONDS, SHARING, TARGET_S, Delivered, planned
from penstock.sim.balanced.runs import SCENARIOS, Outcome
from penstock.sim.balanced.study import (
    ALIKE,
    CAPACITY,
    COSTS,
    FACTOR,
    POLICIES,
    QUERIES,
    kept,
    node,
    spread_over_alpha,
    under_drift,
    with_noise,
)
from penstock.sim.figure import Figure, Row, spread

ALPHAS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, math.inf)
NOISES = (0.0, 0.1, 0.2, 0.3, 0.5)
#: How far a cost goes in one batch, as the deviation of its logarithm.
STEPS = (0.0, 0.02, 0.05)
BATCHES = 80
#: Policies of the studies of estimation.
ESTIMATED = ("cost_alone", "alpha_1", "max_min", ALIKE)
LEARNED = ("alpha_1", "max_min")
#: In how far one run must be as good as another to count as such: what rounding may cost.
ROUNDING = 1e-6

#: One of this many runs is on virtual time.
_FEWER = 12


@dataclass(frozen=True)
class Effort(parallel.Effort):
    """How much to run, and where."""

    runs: int = 40


def figure_table(effort: Effort) -> Figure:
    """Every paper's scenario, by its own measure."""
    rows: list[Row] = []
    for name in SCENARIOS:
        runs = effort.each(partial(_scenario, name, effort.seed))
        rows += [_table_row(outcomes) for outcomes in zip(*runs, strict=True)]
    return Figure("plus", "table", {"runs": effort.runs, "seed": effort.seed}, rows, plus_claims.table(rows))


def _scenario(name: str, seed: int, run: int) -> list[Outcome]:
    return SCENARIOS[name](run, seed)


def _table_row(outcomes: tuple[Outcome, ...]) -> Row:
    one = outcomes[0]
    return {
        "scenario": one.scenario,
        "metric": one.metric,
        "better": "lower" if one.lower_is_better else "higher",
        "paper": spread(each.theirs for each in outcomes),
        "balanced": spread(each.ours for each in outcomes),
        "runs_as_good": sum(_as_good(each) for each in outcomes) / len(outcomes),
    }


def _as_good(one: Outcome) -> bool:
    """Whether a run of the same rows ends no worse for us."""
    behind = one.ours - one.theirs if one.lower_is_better else one.theirs - one.ours
    return behind <= ROUNDING * max(abs(one.theirs), 1.0)


def figure_study(effort: Effort) -> Figure:
    """What each policy delivers that knows costs and worths exactly."""
    runs = effort.each(partial(_study, effort.seed))
    rows: list[Row] = [
        {
            "policy": policy,
            "mean_utility": spread(run[policy][0] for run in runs),
            "worst_utility": spread(run[policy][1] for run in runs),
            "jain": spread(run[policy][2] for run in runs),
        }
        for policy in POLICIES
    ]
    return Figure("plus", "study", _parameters(effort), rows, plus_claims.study(rows))


def _study(seed: int, run: int) -> dict[str, tuple[float, float, float]]:
    given = node(run, seed)
    found = {policy: given.delivered(kept(policy, given)) for policy in POLICIES}
    return {policy: (float(one.mean()), float(one.min()), jain(one)) for policy, one in found.items()}


def figure_queries(effort: Effort) -> Figure:
    """What planners deliver on virtual time that learn costs and hold a target, as on Spark."""
    runs = effort.workers.run(partial(_planned, effort.seed), _few(effort.runs), effort.done)
    rows: list[Row] = [
        {
            "policy": policy,
            "mean_utility": spread(run[policy][0].mean for run in runs),
            "worst_utility": spread(run[policy][0].worst for run in runs),
            "jain": spread(run[policy][0].jain for run in runs),
            "wait_over_target": spread(run[policy][0].wait_s / TARGET_S for run in runs),
            "exact_mean": spread(run[policy][1] for run in runs),
            "exact_worst": spread(run[policy][2] for run in runs),
        }
        for policy in PLANNED
    ]
    parameters = {
        **_parameters(effort),
        "runs": len(runs),
        "queries": SHARING,
        "target_s": TARGET_S,
        "seconds": SECONDS,
    }
    return Figure("plus", "queries", parameters, rows, plus_claims.queries(rows))


def _few(runs: int) -> range:
    """A run on virtual time takes as long as many of the others."""
    return range(max(runs // _FEWER, 1))


def _planned(seed: int, run: int) -> dict[str, tuple[Delivered, float, float]]:
    given = node(run, seed, SHARING)
    exact = {policy: given.delivered(kept(policy, given)) for policy in PLANNED}
    return {policy: (planned(policy, given), float(one.mean()), float(one.min())) for policy, one in exact.items()}


def figure_alpha(effort: Effort) -> Figure:
    """What the mean pays for the worst, as alpha grows."""
    runs = effort.each(partial(_alphas, effort.seed))
    rows: list[Row] = [
        {
            "alpha": "inf" if alpha == math.inf else f"{alpha:g}",
            "mean_utility": spread(run[number][0] for run in runs),
            "worst_utility": spread(run[number][1] for run in runs),
        }
        for number, alpha in enumerate(ALPHAS)
    ]
    return Figure("plus", "alpha", _parameters(effort), rows, plus_claims.alpha(rows))


def _alphas(seed: int, run: int) -> list[tuple[float, float]]:
    return spread_over_alpha(node(run, seed), ALPHAS)


def figure_noise(effort: Effort) -> Figure:
    """What is left of the gain when costs, or worths, are known with errors."""
    runs = effort.each(partial(_noise, effort.seed))
    rows: list[Row] = []
    for errors_in, noise, policy in runs[0]:
        case = errors_in, noise, policy
        exact = [run[errors_in, 0.0, "max_min" if policy == ALIKE else policy] for run in runs]
        rows.append(
            {
                "errors_in": errors_in,
                "noise": noise,
                "policy": policy,
                "mean_utility": spread(run[case][0] for run in runs),
                "worst_utility": spread(run[case][1] for run in runs),
                "gain_left_mean": _left([run[case][0] for run in runs], [one[0] for one in exact]),
                "gain_left_worst": _left([run[case][1] for run in runs], [one[1] for one in exact]),
            }
        )
    return Figure("plus", "noise", _parameters(effort), rows, plus_claims.noise(rows))


def _noise(seed: int, run: int) -> dict[tuple[str, float, str], tuple[float, float]]:
    given, found = node(run, seed), {}
    for errors_in in ("costs", "utilities"):
        for noise in NOISES:
            for policy in ESTIMATED:
                rng = np.random.default_rng([seed, 93, run])  # the same errors for all, only larger
                one = with_noise(given, policy, noise, rng, of=errors_in)
                found[errors_in, noise, policy] = float(one.mean()), float(one.min())
    return found


def figure_drift(effort: Effort) -> Figure:
    """What is left of the gain when costs change and are learned from rows that were kept."""
    runs = effort.each(partial(_drift, effort.seed))
    rows: list[Row] = []
    for step, policy, stretch in runs[0]:
        each = [run[step, policy, stretch] for run in runs]
        rows.append(
            {
                "step": step,
                "policy": policy,
                "batches": stretch,
                "mean_utility": spread(one[0] for one in each),
                "worst_utility": spread(one[1] for one in each),
                "gain_left_mean": _left([one[0] for one in each], [one[2] for one in each]),
                "gain_left_worst": _left([one[1] for one in each], [one[3] for one in each]),
            }
        )
    return Figure("plus", "drift", {**_parameters(effort), "batches": BATCHES}, rows, plus_claims.drift(rows))


def _drift(seed: int, run: int) -> dict[tuple[float, str, str], tuple[float, float, float, float]]:
    found, middle = {}, BATCHES // 2
    stretches = {
        "before the change": slice(middle // 2, middle),
        "the 10 after it": slice(middle, middle + 10),
        "the last 10": slice(BATCHES - 10, BATCHES),
    }
    for step in STEPS:
        for policy in LEARNED:
            given = under_drift(node(run, seed), policy, BATCHES, step, np.random.default_rng([seed, 94, run]))
            for name, part in stretches.items():
                learned, exact = given.learned[part], given.exact[part]
                found[step, policy, name] = (
                    float(learned.mean()),
                    float(learned.min(axis=1).mean()),
                    float(exact.mean()),
                    float(exact.min(axis=1).mean()),
                )
    return found


def _left(reached: list[float], exact: list[float]) -> float:
    """The share of what exact knowledge gains over random drops that is still gained."""
    return (sum(reached) / len(reached) - CAPACITY) / (sum(exact) / len(exact) - CAPACITY)


def _parameters(effort: Effort) -> Row:
    return {
        "runs": effort.runs,
        "seed": effort.seed,
        "queries": QUERIES,
        "costs": list(COSTS),
        "largest_factor": FACTOR,
        "capacity": CAPACITY,
    }


#: Every figure by the name a user gives.
FIGURES: dict[str, Callable[[Effort], Figure]] = {
    "table": figure_table,
    "study": figure_study,
    "queries": figure_queries,
    "alpha": figure_alpha,
    "noise": figure_noise,
    "drift": figure_drift,
}


def tasks(figure: str, runs: int) -> int:
    """How many steps of progress a figure reports."""
    return len(_few(runs)) if figure == "queries" else runs * (len(SCENARIOS) if figure == "table" else 1)
