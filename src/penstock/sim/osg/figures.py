"""The OSG paper's evaluation (section 5), its readings, and how Penstock's own grouping compares.

Each function makes one figure: it runs the experiment, returns the rows behind the plot, and tests the paper's
sentences about that figure (`claims`). Figure 12 is the prototype's, and runs on Spark.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from penstock.sim import parallel
from penstock.sim.figure import Claim, Figure, Row, spread
from penstock.sim.osg import claims as osg_claims
from penstock.sim.osg import own_claims, use_case_claims
from penstock.sim.osg.batches import DEALT, OVERHEAD_S, completion_ms
from penstock.sim.osg.runs import ALGORITHMS, OsgRun, Setting
from penstock.sim.osg.streams import MENTION, REACH, Application, KeyedStream, synthetic

DISTRIBUTIONS = ("uniform", "zipf-0.5", "zipf-1.0", "zipf-1.5", "zipf-2.0", "zipf-2.5", "zipf-3.0")
OVER_PROVISIONING = tuple(round(percent / 100, 2) for percent in range(95, 116))
#: Figure 7: the least cost stays 0.1 ms.
LEAST_MS = 0.1
MOST_MS = tuple(round(LEAST_MS * 2**power, 1) for power in range(13))
COST_VALUES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
INSTANCES = tuple(range(2, 21))
EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.09, 0.1, 0.2, 0.5, 1.0)

#: Figure 11: windows of 2,000 rows; factors on costs by instance, before and after the change in the middle.
WINDOW_ROWS = 2_000
CHANGE = Setting(
    rows=150_000, least_ms=10.0, most_ms=640.0, speeds=((1.05, 1.025, 1.0, 0.975, 0.95), (0.90, 0.95, 1.0, 1.05, 1.10))
)
#: Figures 13 and 14: instances, and the maximum number of runs, as in the paper.
APPLICATION_INSTANCES = tuple(range(2, 11))
APPLICATION_RUNS = 10

#: Figure plus.
FEEDBACK_MS = (0.0, 20.0, 100.0, 500.0)
_PLUS = Setting(over_provisioning=1.05)
PLUS_DISTRIBUTIONS = {
    "zipf-1.0": _PLUS,
    "uniform": replace(_PLUS, distribution="uniform"),
    "constant": replace(_PLUS, least_ms=32.5, most_ms=32.5),
}
#: Figure batches: what rows are dealt in micro-batches, at 110 percent because a batch takes more than its work.
BATCH_ROWS = 20_000
_BATCHED = Setting(rows=BATCH_ROWS, over_provisioning=1.1)
BATCHED = {
    "zipf-1.0": _BATCHED,
    "uniform": replace(_BATCHED, distribution="uniform"),
    "constant": replace(_BATCHED, least_ms=32.5, most_ms=32.5),
    "speeds of figure 11": replace(_BATCHED, speeds=CHANGE.speeds),
    "two of five slow": replace(_BATCHED, speeds=((1.5, 1.5, 2 / 3, 2 / 3, 2 / 3),)),
}
#: How often an instance reports to Penstock's scheduler, and how late that arrives.
REPORT_ROWS = (1, 4, 16, 64)
REPORT_FEEDBACK_MS = (20.0, 500.0)
#: Figure readings: open points of OSG, and the loads at which they matter.
READINGS = {
    "printed": Setting(),
    "first_check": Setting(first_check=True),
    "clamp": Setting(clamp=True),
    "clamp_first_check": Setting(clamp=True, first_check=True),
}
READING_LOADS = (1.0, 1.05, 1.08, 1.15)
_READ = ("round_robin", "osg", "full_knowledge")
#: Fields of a setting that figures do not state, and those that have another name there.
_UNSTATED = ("schedulers", "speeds", "first_check", "clamp", "report_rows")
_NAMES = {"cost_values": "w_n", "least_ms": "min_w_ms", "most_ms": "max_w_ms", "instances": "k"}


@dataclass(frozen=True)
class Effort(parallel.Effort):
    """The number of runs and their processes."""

    runs: int = 50
    rows: int | None = None  #: of the applications' streams; as many as the paper's if not given


class Measured(NamedTuple):
    """One algorithm in one run."""

    completion_ms: float
    throughput_per_s: float
    messages: int  #: from instances to the scheduler


Run = dict[str, Measured]


class Sweep(NamedTuple):
    """A figure over one field of a setting: the points, the claims, and the other fields."""

    field: str
    points: tuple[Any, ...]
    claims: Callable[[list[Row]], list[Claim]]
    setting: Setting = Setting()

    def rows(self, effort: Effort) -> list[Row]:
        """A row for each point and algorithm."""
        found: list[Row] = []
        for value in self.points:
            runs = _run(effort, replace(self.setting, **{self.field: value}), ALGORITHMS)
            found += [{_NAMES.get(self.field, self.field): value, **row} for row in _rows(runs, ALGORITHMS)]
        return found


#: Completion time and throughput by distribution of keys, speed-up by over-provisioning and by the highest cost.
#: Completion time by number of costs, speed-up by number of instances.
_SWEEPS = {
    "4": Sweep("distribution", DISTRIBUTIONS, osg_claims.figure_4),
    "5": Sweep("distribution", DISTRIBUTIONS, osg_claims.figure_5),
    "6": Sweep("over_provisioning", OVER_PROVISIONING, osg_claims.figure_6),
    "7": Sweep("most_ms", MOST_MS, osg_claims.figure_7, Setting(least_ms=LEAST_MS, most_ms=LEAST_MS)),
    "8": Sweep("cost_values", COST_VALUES, osg_claims.figure_8),
    "9": Sweep("instances", INSTANCES, osg_claims.figure_9),
}


def _swept(figure: str, effort: Effort) -> Figure:
    sweep = _SWEEPS[figure]
    rows, parameters = sweep.rows(effort), _parameters(effort, sweep.field)
    return Figure("osg", figure, parameters | {"min_w_ms": sweep.setting.least_ms}, rows, sweep.claims(rows))


def figure_10(effort: Effort) -> Figure:
    """Speed-up against the precision of the sketch; OSG's also when matrices are sent at the first check."""
    rows = Sweep("epsilon", EPSILONS, lambda _: []).rows(effort)
    settings = {epsilon: Setting(epsilon=epsilon, first_check=True) for epsilon in EPSILONS}
    early: list[Row] = [
        {"epsilon": epsilon, "speed_up": _speed_up(_run(effort, setting, ("round_robin", "osg")), "osg")}
        for epsilon, setting in settings.items()
    ]
    parameters = _parameters(effort, "epsilon") | {"osg_first_check": early}
    return Figure("osg", "10", parameters, rows, osg_claims.figure_10(rows, early))


def figure_11(effort: Effort) -> Figure:
    """Completion time over a stream with changing speeds of instances (one run), and when RUN is reached."""
    run = OsgRun.synthetic(CHANGE, 0, effort.seed)
    series = {algorithm: run.run(algorithm) for algorithm in ALGORITHMS}
    rows = [
        {"window": window, "algorithm": algorithm, "completion_ms": spread(part.tolist())}
        for algorithm, result in series.items()
        for window, part in enumerate(result.completion_ms.reshape(-1, WINDOW_ROWS))
    ]
    reached = effort.each(partial(_reached, seed=effort.seed))
    first = reached[0]
    parameters = {
        **_parameters(effort),
        "rows": CHANGE.rows,
        "cost_ms": [CHANGE.least_ms, CHANGE.most_ms],
        "figure_window_rows": WINDOW_ROWS,
        "speeds": CHANGE.speeds,
        "change_at": CHANGE.rows // 2,
        "run_reached_at": first.printed[0],
        "run_reached_again_at": first.printed[1],
        "first_check_run_reached_at": first.first_check[0],
        "first_check_run_reached_again_at": first.first_check[1],
    }
    completion = {algorithm: result.completion_ms for algorithm, result in series.items()}
    return Figure("osg", "11", parameters, rows, osg_claims.figure_11(completion, reached, CHANGE.rows // 2))


def application(
    figure: str, stated: Application, effort: Effort, recorded: KeyedStream | None = None, origin: Row | None = None
) -> Figure:
    """An application of the paper: average completion time against the number of instances.

    `recorded` is a stream to run instead of the synthetic ones, `origin` describes its source.
    """
    runs = min(effort.runs, APPLICATION_RUNS)
    length = effort.rows or stated.rows
    one = partial(_on_application, application=stated, rows=length, recorded=recorded, seed=effort.seed)
    cases = [(number, instances) for number in range(runs) for instances in APPLICATION_INSTANCES]
    measured = dict(zip(cases, effort.workers.run(one, cases, effort.done), strict=True))
    found: list[Row] = []
    for instances in APPLICATION_INSTANCES:
        of_k = [measured[number, instances] for number in range(runs)]
        found += [{"k": instances, **row} for row in _rows(of_k, ALGORITHMS)]
    stream = recorded or synthetic(stated, length, 0, effort.seed)
    parameters = {
        **(origin or {"data": "synthetic"}),
        "application": stated.name,
        "runs": runs,
        "seed": effort.seed,
        "over_provisioning": Setting().over_provisioning,
        **stream.facts,
        "rows_of_the_paper": stated.rows,
    }
    messages = [run["osg"].messages for run in measured.values()]
    claims = {"13": use_case_claims.figure_13, "14": use_case_claims.figure_14}[figure]
    return Figure("osg", figure, parameters, found, claims(found, messages))


def figure_plus(effort: Effort) -> Figure:
    """Penstock's own grouping beside the others, with late reports of instances."""
    rows: list[Row] = []
    for feedback_ms in FEEDBACK_MS:
        for name, setting in PLUS_DISTRIBUTIONS.items():
            runs = _run(effort, replace(setting, feedback_ms=feedback_ms), ALGORITHMS)
            rows += [
                {
                    "algorithm": algorithm,
                    "feedback_ms": feedback_ms,
                    "distribution": name,
                    "speed_up": _speed_up(runs, algorithm),
                }
                for algorithm in ALGORITHMS
            ]
    reports = [_reports(effort, rows_a_report) for rows_a_report in REPORT_ROWS]
    parameters = _parameters(effort, "distribution", "feedback_ms") | {
        "over_provisioning": _PLUS.over_provisioning,
        "constant_cost_ms": PLUS_DISTRIBUTIONS["constant"].most_ms,
        "fewer_reports": reports,
    }
    return Figure("osg", "plus", parameters, rows, own_claims.figure_plus(rows, reports))


def _reports(effort: Effort, rows_a_report: int) -> Row:
    """Penstock's speed-up and messages by the number of rows per report, with reports 20 and 500 ms late."""
    found: Row = {"report_rows": rows_a_report}
    for feedback_ms in REPORT_FEEDBACK_MS:
        setting = replace(_PLUS, feedback_ms=feedback_ms, report_rows=rows_a_report)
        runs = _run(effort, setting, ("round_robin", "penstock"))
        found[f"speed_up_{feedback_ms:g}_ms"] = _speed_up(runs, "penstock")
        found[f"messages_{feedback_ms:g}_ms"] = spread(run["penstock"].messages for run in runs)["mean"]
    return found


def figure_batches(effort: Effort) -> Figure:
    """Grouping by cost as on Spark: rows dealt to partitions micro-batch by micro-batch."""
    rows: list[Row] = []
    for case, setting in BATCHED.items():
        one = partial(_batched, setting=setting, seed=effort.seed)
        runs = effort.workers.run(one, range(min(effort.runs, APPLICATION_RUNS)), effort.done)
        rows += [
            {
                "algorithm": how,
                "case": case,
                "completion_ms": spread(run[how] for run in runs),
                "speed_up": spread(run["round_robin"] / run[how] for run in runs),
            }
            for how in DEALT
        ]
    parameters = _parameters(effort, "distribution") | {
        "runs": min(effort.runs, APPLICATION_RUNS),
        "rows": BATCH_ROWS,
        "over_provisioning": BATCHED["zipf-1.0"].over_provisioning,
        "batch_overhead_s": OVERHEAD_S,
    }
    return Figure("osg", "batches", parameters, rows, own_claims.figure_batches(rows))


def _batched(number: int, *, setting: Setting, seed: int) -> dict[str, float]:
    run = OsgRun.synthetic(setting, number, seed)
    return {how: float(completion_ms(run, how).mean()) for how in DEALT}


def figure_readings(effort: Effort) -> Figure:
    """OSG and Full Knowledge under each reading of the open points, at four loads."""
    rows: list[Row] = []
    for reading, setting in READINGS.items():
        for load in READING_LOADS:
            runs = _run(effort, replace(setting, over_provisioning=load), _READ)
            rows += [{"reading": reading, "over_provisioning": load, **row} for row in _rows(runs, _READ[1:])]
    claims = osg_claims.figure_readings(rows)
    return Figure("osg", "readings", _parameters(effort, "over_provisioning"), rows, claims)


#: Every figure by the name a user gives.
FIGURES: dict[str, Callable[[Effort], Figure]] = {
    **{name: partial(_swept, name) for name in _SWEEPS},
    "10": figure_10,
    "11": figure_11,
    "13": partial(application, "13", MENTION),
    "14": partial(application, "14", REACH),
    "plus": figure_plus,
    "batches": figure_batches,
    "readings": figure_readings,
}


def tasks(figure: str, runs: int) -> int:
    """The number of progress steps that a figure reports."""
    if figure in {"13", "14", "batches"}:
        return len(BATCHED if figure == "batches" else APPLICATION_INSTANCES) * min(runs, APPLICATION_RUNS)
    points = {
        **{name: len(sweep.points) for name, sweep in _SWEEPS.items()},
        "10": 2 * len(EPSILONS),
        "11": 1,
        "plus": len(FEEDBACK_MS) * len(PLUS_DISTRIBUTIONS) + len(REPORT_ROWS) * len(REPORT_FEEDBACK_MS),
        "readings": len(READINGS) * len(READING_LOADS),
    }
    return points[figure] * runs


def _run(effort: Effort, setting: Setting, algorithms: tuple[str, ...]) -> list[Run]:
    return effort.each(partial(_synthetic, setting=setting, seed=effort.seed, algorithms=algorithms))


def _synthetic(number: int, *, setting: Setting, seed: int, algorithms: tuple[str, ...]) -> Run:
    return _measured(OsgRun.synthetic(setting, number, seed), algorithms)


def _measured(run: OsgRun, algorithms: tuple[str, ...]) -> Run:
    results = {algorithm: run.run(algorithm) for algorithm in algorithms}
    return {
        algorithm: Measured(float(result.completion_ms.mean()), result.throughput_per_s, result.messages)
        for algorithm, result in results.items()
    }


def _rows(runs: list[Run], algorithms: tuple[str, ...]) -> list[Row]:
    return [
        {
            "algorithm": algorithm,
            "completion_ms": spread(run[algorithm].completion_ms for run in runs),
            "speed_up": _speed_up(runs, algorithm),
            "throughput_per_s": spread(run[algorithm].throughput_per_s for run in runs)["mean"],
        }
        for algorithm in algorithms
    ]


def _speed_up(runs: list[Run], algorithm: str) -> dict[str, float]:
    """Round-Robin's completion time over the algorithm's, run by run."""
    return spread(run["round_robin"].completion_ms / run[algorithm].completion_ms for run in runs)


def _reached(number: int, *, seed: int) -> osg_claims.Reached:
    """When OSG reached RUN, as printed and sending at the first check: at first, and again after the change."""
    found = []
    for first_check in (False, True):
        run_at = OsgRun.synthetic(replace(CHANGE, first_check=first_check), number, seed).run("osg").run_at
        again = (row for row in run_at if row >= CHANGE.rows // 2)
        found.append((next(iter(run_at), None), next(again, None)))
    return osg_claims.Reached(*found)


def _on_application(
    case: tuple[int, int], *, application: Application, rows: int, recorded: KeyedStream | None, seed: int
) -> Run:
    number, instances = case
    stream = recorded or _stream(application, rows, number, seed)
    hash_seed = int(np.random.default_rng([seed, 15, number]).integers(2**31))
    setting = Setting(instances=instances)
    run = OsgRun.of_stream(setting, stream.keys, stream.costs_ms, items=stream.items, seed=hash_seed)
    return _measured(run, ALGORITHMS)


#: The cases of one number follow each other.
_stream = lru_cache(maxsize=1)(synthetic)


def _parameters(effort: Effort, *varied: str) -> Row:
    """Section 5.1's parameters, less the fields that the figure varies."""
    stated = {name: value for name, value in asdict(Setting()).items() if name not in {*_UNSTATED, *varied}}
    return {"runs": effort.runs, "seed": effort.seed, **{_NAMES.get(name, name): stated[name] for name in stated}}
