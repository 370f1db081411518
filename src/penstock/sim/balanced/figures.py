"""One policy for cost, worth and fairness against the four papers, each on its own ground; and what it rests on.

Each function makes one figure: rows, and claims (`plus_claims`) that hold or do not.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self, TypeVar

import numpy as np

from penstock.core.fairness.jain import jain
from penstock.sim import parallel
from penstock.sim.balanced import claims as plus_claims
from penstock.sim.balanced import queries as shared
from penstock.sim.balanced import study
from penstock.sim.balanced.runs import SCENARIOS, Outcome
from penstock.sim.figure import Figure, Row, spread
from penstock.sim.slots import SharedQuery
from penstock.sim.workload import Floats

_Case = TypeVar("_Case")
_Found = TypeVar("_Found")
Effort = parallel.Effort

ALPHAS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, math.inf)
NOISES = (0.0, 0.1, 0.3, 0.5)
#: How far a cost goes in one second, about a batch, as the deviation of its logarithm.
STEPS = (0.0, 0.02, 0.05)
#: Seconds of a run with costs that drift, and are permuted in the middle.
DRIFT_S = 120
STRETCHES = {"before the change": slice(40, 60), "the 10 s after it": slice(60, 70), "the last 10 s": slice(110, 120)}
#: Policies of the studies of estimation.
LEARNED = ("alpha_1", "max_min")
#: In how far one run must be as good as another to count as such: what rounding may cost.
ROUNDING = 1e-6

#: One of this many runs is on virtual time.
_FEWER = 20
_NOISE_CASES = [
    *(("costs", 0.0, policy) for policy in (*LEARNED, study.ALIKE)),
    *((errors_in, noise, policy) for errors_in in ("costs", "utilities") for noise in NOISES[1:] for policy in LEARNED),
]
_DRIFT_CASES = [(step, policy) for step in STEPS for policy in LEARNED]


def figure_table(effort: Effort) -> Figure:
    """Every paper's scenario, by its own measure."""
    rows: list[Row] = []
    for scenario in SCENARIOS.values():
        runs = effort.each(partial(scenario, seed=effort.seed))
        rows += [_table_row(outcomes) for outcomes in zip(*runs, strict=True)]
    return Figure("plus", "table", {"runs": effort.runs, "seed": effort.seed}, rows, plus_claims.table(rows))


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
        for policy in study.POLICIES
    ]
    return Figure("plus", "study", _parameters(effort), rows, plus_claims.study(rows))


def _study(seed: int, run: int) -> dict[str, tuple[float, float, float]]:
    given = study.node(run, seed)
    found = {policy: given.delivered(study.kept(policy, given)) for policy in study.POLICIES}
    return {policy: (float(one.mean()), float(one.min()), jain(one)) for policy, one in found.items()}


def figure_queries(effort: Effort) -> Figure:
    """What planners deliver on virtual time that learn costs and hold a target, as on Spark.

    Policies that use cost alone or utility alone have exact knowledge and no target to hold.
    """
    runs = _each(effort, (*shared.PLANNED, *study.EXACT), _policy)
    rows: list[Row] = [
        {
            "policy": policy,
            **_reached(each),
            "jain": spread(one.jain for one in each),
            "wait_over_target": spread(one.wait_s / shared.TARGET_S for one in each),
            "exact_mean": spread(one.exact_mean for one in each),
            "exact_worst": spread(one.exact_worst for one in each),
        }
        for policy, each in runs.items()
    ]
    return Figure("plus", "queries", _on_virtual_time(effort), rows, plus_claims.queries(rows))


def figure_alpha(effort: Effort) -> Figure:
    """What the mean pays for the worst, as alpha grows: by the planner, and with exact knowledge."""
    rows: list[Row] = [
        {
            "alpha": "inf" if alpha == math.inf else f"{alpha:g}",
            **_reached(each),
            "exact_mean": spread(one.exact_mean for one in each),
            "exact_worst": spread(one.exact_worst for one in each),
        }
        for alpha, each in _each(effort, ALPHAS, _policy).items()
    ]
    return Figure("plus", "alpha", _on_virtual_time(effort), rows, plus_claims.alpha(rows))


def figure_noise(effort: Effort) -> Figure:
    """What is left of the gain when costs are reported, or worths are given, with errors."""
    runs = _each(effort, _NOISE_CASES, _with_noise)
    rows: list[Row] = []
    for (errors_in, noise, policy), each in runs.items():
        without = runs["costs", 0.0, policy]
        rows.append(
            {
                "errors_in": errors_in,
                "noise": noise,
                "policy": policy,
                **_reached(each),
                **_gain_left(each),
                "of_no_errors_mean": _left([one.mean for one in each], [one.mean for one in without]),
                "of_no_errors_worst": _left([one.worst for one in each], [one.worst for one in without]),
            }
        )
    # The same runs: without errors for both kinds, and worths that are left out have none.
    for policy, noise in [*((policy, 0.0) for policy in LEARNED), *((study.ALIKE, noise) for noise in NOISES)]:
        same = next(row for row in rows if (row["noise"], row["policy"]) == (0.0, policy))
        rows.append({**same, "errors_in": "utilities", "noise": noise})
    rows.sort(key=lambda row: (row["errors_in"], row["noise"]))
    return Figure("plus", "noise", _on_virtual_time(effort), rows, plus_claims.noise(rows))


def figure_drift(effort: Effort) -> Figure:
    """What is left of the gain when costs change and are learned from rows that were kept."""
    runs = _each(effort, _DRIFT_CASES, _drift)
    rows: list[Row] = [
        {
            "step": step,
            "policy": policy,
            "stretch": stretch,
            **_reached(each),
            **_gain_left(each),
            "wait_over_target": spread(one.wait_s / shared.TARGET_S for one in each),
        }
        for (step, policy), found in runs.items()
        for stretch, each in zip(STRETCHES, zip(*found, strict=True), strict=True)
    ]
    return Figure("plus", "drift", {**_on_virtual_time(effort), "seconds": DRIFT_S}, rows, plus_claims.drift(rows))


class Reached(NamedTuple):
    """What a planner reached in one run, and the optimum of its policy with exact knowledge."""

    mean: float  #: utility of all queries
    worst: float  #: of the one that has least
    exact_mean: float
    exact_worst: float
    jain: float
    wait_s: float  #: mean wait of the query that waits longest

    @classmethod
    def of(cls, queries: list[SharedQuery], exact: Floats, begin_s: float, end_s: float) -> Self:
        """What queries delivered in this time."""
        found, wait_s = shared.delivered(queries, begin_s, end_s), shared.longest_wait_s(queries, begin_s, end_s)
        return cls(*_mean_and_worst(found), *_mean_and_worst(exact), jain(found), wait_s)


def _policy(seed: int, task: tuple[int, str | float]) -> Reached:
    run, policy = task
    given = study.node(run, seed, shared.SHARING)
    exact = given.delivered(study.kept(policy, given) if isinstance(policy, str) else study.best(given, policy).keep)
    if policy in study.EXACT:
        return Reached(*_mean_and_worst(exact), *_mean_and_worst(exact), jain(exact), math.nan)
    return Reached.of(shared.planned(policy, given), exact, shared.LEARN_S, shared.SECONDS)


def _with_noise(seed: int, task: tuple[int, tuple[str, float, str]]) -> Reached:
    run, (errors_in, noise, policy) = task
    given = study.node(run, seed, shared.SHARING)
    exact = given.delivered(study.kept("max_min" if policy == study.ALIKE else policy, given))
    rng = np.random.default_rng([seed, 93, run])  # the same errors for all, only larger
    errors = np.exp(rng.normal(0.0, noise, len(given.worths)))
    told = shared.Errors(costs=errors) if errors_in == "costs" else shared.Errors(worths=errors)
    return Reached.of(shared.planned(policy, given, told), exact, shared.LEARN_S, shared.SECONDS)


def _drift(seed: int, task: tuple[int, tuple[float, str]]) -> list[Reached]:
    """What is reached in each of `STRETCHES`."""
    run, (step, policy) = task
    given = study.node(run, seed, shared.SHARING)
    costs_s = study.walk(given, DRIFT_S, step, np.random.default_rng([seed, 94, run]))
    nodes = [replace(given, classes=replace(given.classes, costs_s=one)) for one in costs_s]
    exact = np.array([one.delivered(study.kept(policy, one)) for one in nodes])
    queries = shared.planned(policy, given, walk=costs_s)
    return [Reached.of(queries, exact[part].mean(axis=0), part.start, part.stop) for part in STRETCHES.values()]


def _mean_and_worst(one: Floats) -> tuple[float, float]:
    return float(one.mean()), float(one.min())


def _few(runs: int) -> range:
    """A run on virtual time takes as long as many of the others."""
    return range(max(runs // _FEWER, 1))


def _each(
    effort: Effort, cases: Iterable[_Case], function: Callable[[int, tuple[int, _Case]], _Found]
) -> dict[_Case, list[_Found]]:
    """The results of every case, run by run."""
    tasks = [(run, case) for case in cases for run in _few(effort.runs)]
    found: dict[_Case, list[_Found]] = {}
    results = effort.workers.run(partial(function, effort.seed), tasks, effort.done)
    for (_, case), one in zip(tasks, results, strict=True):
        found.setdefault(case, []).append(one)
    return found


def _reached(each: Sequence[Reached]) -> Row:
    return {"mean_utility": spread(one.mean for one in each), "worst_utility": spread(one.worst for one in each)}


def _gain_left(each: Sequence[Reached]) -> Row:
    return {
        "gain_left_mean": _left([one.mean for one in each], [one.exact_mean for one in each]),
        "gain_left_worst": _left([one.worst for one in each], [one.exact_worst for one in each]),
    }


def _left(reached: list[float], exact: list[float]) -> float:
    """The share of what exact knowledge gains over random drops that is still gained."""
    return (sum(reached) / len(reached) - study.CAPACITY) / (sum(exact) / len(exact) - study.CAPACITY)


def _on_virtual_time(effort: Effort) -> Row:
    runs, target_s, seconds = len(_few(effort.runs)), shared.TARGET_S, shared.SECONDS
    return {**_parameters(effort), "runs": runs, "queries": shared.SHARING, "target_s": target_s, "seconds": seconds}


def _parameters(effort: Effort) -> Row:
    return {
        "runs": effort.runs,
        "seed": effort.seed,
        "queries": study.QUERIES,
        "costs": list(study.COSTS),
        "largest_factor": study.FACTOR,
        "capacity": study.CAPACITY,
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
    planned = (*shared.PLANNED, *study.EXACT)
    cases = {"queries": planned, "alpha": ALPHAS, "noise": _NOISE_CASES, "drift": _DRIFT_CASES}.get(figure)
    if cases is not None:
        return len(cases) * len(_few(runs))
    return runs * (len(SCENARIOS) if figure == "table" else 1)
