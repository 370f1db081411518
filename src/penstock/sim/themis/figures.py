"""The THEMIS paper's evaluation (section 7), and how Penstock's shedder compares with BALANCE-SIC and the optimum.

Each function makes one figure: it runs the experiment, gives the rows behind the plot, and tests the paper's sentences
about that figure (`claims`). `comparison` is section 7.5 and `overhead` section 7.6.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from penstock.core.fairness.jain import Fairness
from penstock.sim import parallel
from penstock.sim.figure import Figure, Row, spread
from penstock.sim.themis import claims as themis_claims
from penstock.sim.themis.cases import SHEDDERS, Case, measure
from penstock.sim.themis.correlation import OVERLOADS, Degraded, correlation_run
from penstock.sim.themis.data import DATASETS, Traces, synthetic_traces
from penstock.sim.themis.deployment import BURSTY, BURSTY_SAME_MEAN, LOCAL
from penstock.sim.themis.overhead import TIMED, batch_us

AGGREGATE = ("avg", "count", "max")
COMPLEX = ("top_5", "cov", "avg_all")

#: Figure 8: at the last number sources send 528,000 tuples a second, as in the paper; the node can do a tenth.
QUERIES_ON_ONE = (24, 36, 48, 72, 99, 123)
ONE_NODE = Case(sites=1, capacity_per_s=52_800.0, sources=LOCAL)
#: Figure 9.
INTERVALS_MS = (50, 100, 250, 500)
SIX_NODES = Case(sites=6, queries=200, fragments=(1, 2, 3), capacity_share=0.3)
#: Figures 10 and plus: about 2,000 fragments. What each site can do and the skew are not in the paper.
ALL = (1, 2, 3, 4, 5, 6)
EIGHTEEN = Case(sites=18, total_fragments=2000, fragments=ALL, capacity_share=0.3, zipf=0.5)
CAPACITIES, SKEWS = (0.1, 0.3, 0.5), (0.0, 0.5)
#: Figure 11.
RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)
TEN_NODES = Case(sites=10, total_fragments=2000, fragments=(1, 3), capacity_share=0.3)
#: Figures 12 and 13: each site can do the same; 18 sites and 500 queries give a SIC of about 0.3.
SITES = (6, 9, 12, 15, 18)
QUERIES = (200, 300, 400, 500, 600)
SCALED = Case(sites=18, queries=500, fragments=ALL, capacity_per_s=46_700.0, zipf=0.5)
#: Figure 14.
FOUR_NODES = Case(sites=4, queries=60, fragments=(2,), capacity_share=0.3, warm_s=20.0, seconds=50.0)
SETUPS = {
    "lan": FOUR_NODES,
    "wan": replace(FOUR_NODES, delay_s=0.05),
    "lan, bursts": replace(FOUR_NODES, sources=BURSTY_SAME_MEAN),
    "wan, bursts": replace(FOUR_NODES, delay_s=0.05, sources=BURSTY_SAME_MEAN),
    "wan, bursts on top": replace(FOUR_NODES, delay_s=0.05, sources=BURSTY),
}
#: Section 7.5.
COMPARISON = replace(FOUR_NODES, fragments_by_kind={"avg_all": 3, "top_5": 2, "cov": 2})
#: Section 7.6.
TIMED_S = 25.0
#: Figure plus: seeds that nothing else uses.
FRESH = 1_000_000
PLUS = {
    "equal costs": replace(EIGHTEEN, warm_s=30.0, seconds=50.0),
    "costs 1 to 8": replace(EIGHTEEN, warm_s=30.0, seconds=50.0, costs=(1.0, 2.0, 4.0, 8.0)),
    "news 1 s late": replace(EIGHTEEN, warm_s=30.0, seconds=50.0, message_delay_s=1.0),
}


@dataclass(frozen=True)
class Effort(parallel.Effort):
    """How much to run, and where."""

    runs: int = 5
    traces: Traces | None = None  #: of machines; synthetic ones if not given


#: What figures 6 and 7 run; they read traces of machines.
WITH_TRACES = {"6": AGGREGATE, "7": COMPLEX}


def swept(figure: str) -> tuple[Case, list[tuple[Row, Case]]]:
    """The base case of a figure that runs federations, and its points.

    `comparison` is section 7.5, over capacities that the paper does not give. Figure 10 has fragments per query, and
    the mixed case over capacities and skews.
    """
    of_ten = {"capacity": EIGHTEEN.capacity_share, "zipf": EIGHTEEN.zipf}
    found: dict[str, tuple[Case, list[tuple[Row, Case]]]] = {
        "8": (ONE_NODE, [({"queries": count}, replace(ONE_NODE, queries=count)) for count in QUERIES_ON_ONE]),
        "9": (SIX_NODES, [({"interval_ms": ms}, replace(SIX_NODES, interval_s=ms / 1e3)) for ms in INTERVALS_MS]),
        "10": (
            EIGHTEEN,
            [({"fragments": str(count), **of_ten}, replace(EIGHTEEN, fragments=(count,))) for count in ALL]
            + [
                (
                    {"fragments": "mixed", "capacity": share, "zipf": skew},
                    replace(EIGHTEEN, capacity_share=share, zipf=skew),
                )
                for share in CAPACITIES
                for skew in SKEWS
            ],
        ),
        "11": (TEN_NODES, [({"ratio": ratio}, replace(TEN_NODES, odds=(1.0 - ratio, ratio))) for ratio in RATIOS]),
        "12": (SCALED, [({"nodes": sites}, replace(SCALED, sites=sites)) for sites in SITES]),
        "13": (SCALED, [({"queries": queries}, replace(SCALED, queries=queries)) for queries in QUERIES]),
        "14": (FOUR_NODES, [({"setup": name}, case) for name, case in SETUPS.items()]),
        "comparison": (
            COMPARISON,
            [({"capacity": share}, replace(COMPARISON, capacity_share=share)) for share in CAPACITIES],
        ),
        "plus": (EIGHTEEN, [({"case": name}, case) for name, case in PLUS.items()]),
    }
    return found[figure]


def figure_of_traces(name: str, effort: Effort) -> Figure:
    """Error of results against SIC: the aggregate and the complex workload."""
    rows = _correlation(effort, WITH_TRACES[name])
    return Figure("themis", name, _data_parameters(effort), rows, themis_claims.BY_FIGURE[name](rows))


def figure_of_sites(name: str, effort: Effort) -> Figure:
    """Federations at the points of a figure; `plus` has seeds of its own."""
    effort = replace(effort, seed=effort.seed + FRESH) if name == "plus" else effort
    base, points = swept(name)
    rows = sweep(effort, points)
    return Figure("themis", name, _parameters(effort, base), rows, themis_claims.BY_FIGURE[name](rows))


def overhead(effort: Effort) -> Figure:
    """Section 7.6: time of a decision for each batch in the buffer. Not spread over processes, which disturb it."""
    case = replace(EIGHTEEN, seconds=TIMED_S)
    runs = parallel.Workers(1).run(partial(batch_us, case=case, seed=effort.seed), range(effort.runs), effort.done)
    rows: list[Row] = [
        {
            "shedder": name,
            "us_per_batch": spread(one[name] for one in runs),
            "over_random": spread(one[name] / one["random"] - 1.0 for one in runs),
        }
        for name in TIMED
    ]
    return Figure("themis", "overhead", _parameters(effort, case), rows, themis_claims.overhead(rows))


#: Every figure by the name a user gives.
FIGURES: dict[str, Callable[[Effort], Figure]] = {
    **{name: partial(figure_of_traces, name) for name in WITH_TRACES},
    **{name: partial(figure_of_sites, name) for name in ("8", "9", "10", "11", "12", "13", "14", "comparison")},
    "overhead": overhead,
    "plus": partial(figure_of_sites, "plus"),
}


def tasks(figure: str, runs: int) -> int:
    """How many steps of progress a figure reports."""
    if figure in WITH_TRACES:
        return runs * len(WITH_TRACES[figure]) * len(DATASETS)
    return runs if figure == "overhead" else runs * len(swept(figure)[1])


def sweep(effort: Effort, points: Iterable[tuple[Row, Case]]) -> list[Row]:
    """Rows for every point and shedder."""
    listed = list(points)
    tasks = [(number, run) for number in range(len(listed)) for run in range(effort.runs)]
    one = partial(_measured, cases=[case for _, case in listed], seed=effort.seed)
    found = effort.workers.run(one, tasks, effort.done)
    rows = []
    for number, (x, _) in enumerate(listed):
        runs = found[number * effort.runs : (number + 1) * effort.runs]
        rows += [{**x, "shedder": name, **_columns([run[name] for run in runs])} for name in SHEDDERS]
    return rows


def _measured(task: tuple[int, int], *, cases: Sequence[Case], seed: int) -> dict[str, Fairness]:
    number, run = task
    return measure(run, case=cases[number], seed=seed)


def _columns(runs: Sequence[Fairness]) -> Row:
    """Means over runs; `worst` has the run that fared worst, column by column."""
    found = {
        "sic_mean": spread(one.mean for one in runs),
        "sic_std": spread(one.std for one in runs),
        "sic_min": spread(one.poorest for one in runs),
        "jain": spread(one.jain for one in runs),
        "jain_instant": spread(one.jain_instant for one in runs),
        "oscillation": spread(one.oscillation_share for one in runs),
    }
    worst = {name: found[name]["min"] for name in ("sic_min", "jain", "jain_instant")}
    worst["oscillation"] = found["oscillation"]["max"]
    return {name: one["mean"] for name, one in found.items()} | {"worst": worst}


@lru_cache(maxsize=2)
def _synthetic(seed: int) -> Traces:
    return synthetic_traces(seed)


def _traces(effort: Effort) -> Traces:
    return effort.traces or _synthetic(effort.seed)


def _correlation(effort: Effort, queries: Sequence[str]) -> list[Row]:
    cases = [(query, dataset) for query in queries for dataset in DATASETS]
    tasks = [(*case, run) for case in cases for run in range(effort.runs)]
    one = partial(_degraded, traces=_traces(effort), seed=effort.seed)
    found = effort.workers.run(one, tasks, effort.done)
    rows: list[Row] = []
    for at, (query, dataset) in enumerate(cases):
        runs = found[at * effort.runs : (at + 1) * effort.runs]
        for number, overload in enumerate(OVERLOADS):
            rows.append(
                {
                    "query": query,
                    "dataset": dataset,
                    "queries": overload,
                    "shedder": "random",
                    "sic": spread(run[number].sic for run in runs)["mean"],
                    "error": spread(run[number].error for run in runs)["mean"],
                }
            )
    return rows


def _degraded(task: tuple[str, str, int], *, traces: Traces, seed: int) -> list[Degraded]:
    query, dataset, run = task
    return correlation_run(run, query=query, dataset=dataset, traces=traces, seed=seed)


def _data_parameters(effort: Effort) -> Row:
    return {"runs": effort.runs, "seed": effort.seed, "planetlab": _traces(effort).origin, "room_for": OVERLOADS[0]}


def _parameters(effort: Effort, case: Case) -> Row:
    stated = ("warm_s", "seconds", "interval_s", "capacity_share", "capacity_per_s", "zipf")
    sources = {"batches_per_s": case.sources.batches_per_s, "tuples_per_batch": case.sources.tuples_per_batch}
    return {"runs": effort.runs, "seed": effort.seed, **{name: getattr(case, name) for name in stated}, **sources}
