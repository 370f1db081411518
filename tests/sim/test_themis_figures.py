"""The THEMIS paper's figures, on small federations: rows, claims that could fall, and pictures."""

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pytest

from penstock.sim.figure import Claim, Figure, Row, to_json
from penstock.sim.parallel import Workers
from penstock.sim.themis import claims as themis_claims
from penstock.sim.themis import figures as themis
from penstock.sim.themis import plots as themis_plots
from penstock.sim.themis.cases import SHEDDERS, Case, measure
from penstock.sim.themis.correlation import OVERLOADS
from penstock.sim.themis.data import DATASETS

SEED = 1
FAIRNESS = ("sic_mean", "sic_std", "sic_min", "jain", "jain_instant", "oscillation")
X = {
    "8": ("queries",),
    "9": ("interval_ms",),
    "10": ("fragments", "capacity", "zipf"),
    "11": ("ratio",),
    "12": ("nodes",),
    "13": ("queries",),
    "14": ("setup",),
    "comparison": ("capacity",),
    "plus": ("case",),
}


@pytest.fixture(scope="module")
def small() -> "pytest.MonkeyPatch":
    """Every experiment with few queries and few seconds: what is tested is the machinery, not the numbers."""
    with pytest.MonkeyPatch.context() as patch:
        few = {"warm_s": 1.0, "seconds": 2.0}
        for name in ("ONE_NODE", "SIX_NODES", "EIGHTEEN", "TEN_NODES", "SCALED", "COMPARISON"):
            case: Case = getattr(themis, name)
            smaller = replace(case, **few, total_fragments=40 if case.queries is None else 0)
            patch.setattr(themis, name, replace(smaller, queries=smaller.queries and 9))
        patch.setattr(themis, "QUERIES_ON_ONE", (6, 9))
        patch.setattr(themis, "QUERIES", (6, 9))
        patch.setattr(themis, "SITES", (6, 9))
        patch.setattr(themis, "INTERVALS_MS", (250, 500))
        for name in ("SETUPS", "PLUS"):
            cases = {
                key: replace(case, **few, queries=case.queries and 9, total_fragments=40)
                for key, case in getattr(themis, name).items()
            }
            patch.setattr(themis, name, cases)
        patch.setattr(themis, "TIMED_S", 2.0)
        patch.setattr(themis, "correlation_run", _short)
        patch.setattr("penstock.sim.themis.overhead._WARM_S", 1.0)
        yield patch


_correlation_run = themis.correlation_run


def _short(run: int, **given: object) -> object:
    return _correlation_run(run, **given, seconds=2)  # type: ignore[arg-type]


made: dict[str, Figure] = {}


def figure(name: str) -> Figure:
    if name not in made:
        made[name] = themis.FIGURES[name](themis.Effort(runs=1, seed=SEED))
    return made[name]


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", themis.FIGURES)
def test_every_figure_has_the_agreed_parts_and_can_be_drawn(name: str) -> None:
    data = json.loads(to_json([figure(name)], {"cores": 2}), parse_constant=no_constant)
    assert (data["paper"], data["figure"]) == ("themis", name)
    assert data["parameters"]["runs"] == 1
    assert data["claims"]
    for one in data["claims"]:
        assert type(one["holds"]) is bool
        assert all(isinstance(one[part], str) and one[part] for part in ("claim", "paper", "measured"))
    png = themis_plots.plot(figure(name))
    assert png.startswith(b"\x89PNG")
    assert png == themis_plots.plot(figure(name))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", X)
def test_rows_have_every_shedder_and_fairness_in_all_its_forms(name: str) -> None:
    rows = figure(name).rows
    points = [tuple(row[column] for column in X[name]) for row in rows]
    assert [row["shedder"] for row in rows] == list(SHEDDERS) * (len(rows) // 4)
    assert len(set(points)) == len(rows) // 4 == themis.tasks(name, 1)
    for row in rows:
        assert set(row) == {*X[name], "shedder", *FAIRNESS, "worst"}
        assert all(math.isfinite(row[column]) for column in FAIRNESS)
        assert 0.0 <= row["sic_min"] <= row["sic_mean"] <= 1.3
        assert all(0.0 < row[column] <= 1.0 + 1e-9 for column in ("jain", "jain_instant"))
        assert row["oscillation"] >= 0.0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "queries"), [("6", themis.AGGREGATE), ("7", themis.COMPLEX)])
def test_rows_of_figures_6_and_7_have_sic_and_error(name: str, queries: tuple[str, ...]) -> None:
    rows = figure(name).rows
    assert [(row["query"], row["dataset"], row["queries"]) for row in rows] == [
        (query, dataset, overload) for query in queries for dataset in DATASETS for overload in OVERLOADS
    ]
    assert all(0.0 < row["sic"] <= 1.0 for row in rows)


@pytest.mark.usefixtures("small")
def test_overhead_is_timed_for_every_shedder_batch_by_batch() -> None:
    rows = figure("overhead").rows
    assert [row["shedder"] for row in rows] == ["random", "balance_sic", "penstock"]
    assert rows[0]["over_random"]["mean"] == 0.0
    assert all(row["us_per_batch"]["mean"] > 0.0 for row in rows)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["7", "8", "overhead"])
def test_progress_adds_up_to_what_was_announced(name: str) -> None:
    finished: list[int] = []
    themis.FIGURES[name](themis.Effort(runs=2, seed=SEED, done=finished.append))
    assert sum(finished) == {"7": 2 * 15, "8": 2 * len(themis.QUERIES_ON_ONE), "overhead": 2}[name]
    assert sum(finished) == themis.tasks(name, 2)


@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_rows_and_plus_has_seeds_of_its_own() -> None:
    again = themis.FIGURES["8"](themis.Effort(runs=1, seed=SEED)).rows
    assert again == figure("8").rows
    assert themis.FIGURES["8"](themis.Effort(runs=1, seed=SEED + 1)).rows != again
    assert figure("plus").parameters["seed"] == SEED + themis.FRESH


def test_the_number_of_processes_does_not_change_the_results() -> None:
    case = Case(sites=2, queries=6, fragments=(1, 2), capacity_share=0.3, warm_s=1.0, seconds=2.0)
    with Workers(2) as workers:
        there = themis.sweep(themis.Effort(runs=9, seed=SEED, workers=workers), [({"x": 1}, case)])
    assert there == themis.sweep(themis.Effort(runs=9, seed=SEED), [({"x": 1}, case)])


def test_rows_are_means_over_runs_and_the_worst_is_kept() -> None:
    case = Case(sites=2, queries=6, fragments=(1, 2), capacity_share=0.3, warm_s=1.0, seconds=2.0)
    rows = themis.sweep(themis.Effort(runs=3, seed=SEED), [({"x": 1}, case)])
    runs = [measure(run, case=case, seed=SEED)["random"] for run in range(3)]
    assert rows[0]["jain"] == pytest.approx(np.mean([one.jain for one in runs]))
    assert rows[0]["worst"]["sic_min"] == min(one.poorest for one in runs)
    assert rows[0]["worst"]["oscillation"] == max(one.oscillation_share for one in runs)


# Claims: computed from rows, and each would fall with other rows.

_GOOD = {
    "random": (0.16, 0.10, 0.03, 0.70, 0.69, 0.1),
    "balance_sic": (0.27, 0.01, 0.21, 0.975, 0.97, 0.02),
    "penstock": (0.298, 0.001, 0.29, 1.0, 0.999, 0.002),
    "max_min": (0.299, 0.0, 0.299, 1.0, 1.0, 0.0),
}


def rows_of(name: str, points: list[Row], **changed: Callable[[int, Row], float]) -> list[Row]:
    """Rows with which every claim holds, but for what a change says."""
    rows = []
    for number, x in enumerate(points):
        for shedder in SHEDDERS:
            row = {**x, "shedder": shedder, **dict(zip(FAIRNESS, _GOOD[shedder], strict=True))}
            if shedder == "balance_sic":
                row["sic_mean"] += {"12": 0.01, "13": -0.01}.get(name, 0.0) * number
                row["jain"] += {"11": 0.004, "10": -0.04 if number == 0 else 0.0}.get(name, 0.0) * max(number, 1)
            if name == "8" and number == len(points) - 1 and shedder == "balance_sic":
                row["sic_mean"] = 0.1
            row["worst"] = {column: row[column] for column in ("sic_min", "jain", "jain_instant", "oscillation")}
            for column, change in changed.items():
                row[column] = change(number, row)
            rows.append(row)
    return rows


POINTS: dict[str, list[Row]] = {
    "8": [{"queries": 24}, {"queries": 123}],
    "9": [{"interval_ms": 50}, {"interval_ms": 500}],
    "10": [{"fragments": "mixed", "capacity": share, "zipf": 0.5} for share in (0.1, 0.3)],
    "11": [{"ratio": 0.0}, {"ratio": 0.5}, {"ratio": 1.0}],
    "12": [{"nodes": 6}, {"nodes": 18}],
    "13": [{"queries": 200}, {"queries": 600}],
    "14": [{"setup": name} for name in themis.SETUPS],
    "comparison": [{"capacity": 0.1}, {"capacity": 0.5}],
    "plus": [{"case": "equal costs"}],
}


def judged(name: str, rows: list[Row]) -> dict[str, bool]:
    judge: Callable[[list[Row]], list[Claim]] = getattr(
        themis_claims, name if name in {"comparison", "overhead"} else f"figure_{name}"
    )
    return {one.claim: one.holds for one in judge(rows)}


@pytest.mark.parametrize("name", POINTS)
def test_claims_hold_with_rows_as_the_paper_has_them(name: str) -> None:
    assert [claim for claim, holds in judged(name, rows_of(name, POINTS[name])).items() if not holds] == [
        claim for claim in ("mixed: Jain's index is 33 percent higher",) if name == "10"
    ]


def only(shedder: str, column: str, value: float, at: int | None = None) -> dict[str, Callable[[int, Row], float]]:
    def change(number: int, row: Row) -> float:
        return value if row["shedder"] == shedder and at in {None, number} else float(row[column])

    return {column: change}


@pytest.mark.parametrize(
    ("name", "words", "change"),
    [
        ("8", "SIC values are equal", only("balance_sic", "jain", 0.9, 0)),
        ("8", "at 528,000", only("balance_sic", "sic_mean", 0.2, 1)),
        ("8", "do not oscillate", only("balance_sic", "oscillation", 0.2, 0)),
        ("8", "Penstock", only("penstock", "jain_instant", 0.9, 1)),
        ("9", "whatever the interval", only("balance_sic", "jain", 0.9, 1)),
        ("9", "the mean SIC is close", only("balance_sic", "sic_mean", 0.2, 1)),
        ("10", "fairer than random", only("balance_sic", "jain", 0.6, 1)),
        ("10", "spread less", only("balance_sic", "sic_std", 0.2, 1)),
        ("10", "mean SIC is higher", only("balance_sic", "sic_mean", 0.1, 0)),
        ("11", "the fairer", only("balance_sic", "jain", 0.9, 2)),
        ("12", "grows with the nodes", only("balance_sic", "sic_mean", 0.1, 1)),
        ("13", "falls with more queries", only("balance_sic", "sic_mean", 0.3, 1)),
        ("14", "50 ms links", only("balance_sic", "sic_mean", 0.2, 1)),
        ("14", "mean rate as before", only("balance_sic", "sic_mean", 0.2, 2)),
        ("14", "on top of the usual rate", only("balance_sic", "sic_mean", 0.14, 4)),
        ("comparison", "is 0.97", only("balance_sic", "jain", 0.93, 0)),
        ("comparison", "at every instant as well", only("balance_sic", "jain_instant", 0.93, 0)),
    ],
)
def test_each_claim_would_fall_with_other_rows(
    name: str, words: str, change: dict[str, Callable[[int, Row], float]]
) -> None:
    (found,) = [holds for claim, holds in judged(name, rows_of(name, POINTS[name], **change)).items() if words in claim]
    assert not found


def test_thirty_three_percent_holds_if_the_range_has_it() -> None:
    rows = rows_of("10", POINTS["10"], **only("random", "jain", 0.74, 1))
    rows = [{**row, "jain": 0.95} if row["shedder"] == "balance_sic" else row for row in rows]
    assert judged("10", rows)["mixed: Jain's index is 33 percent higher"]


@pytest.mark.parametrize(("column", "value"), [("jain_instant", 0.98), ("sic_min", 0.27), ("oscillation", 0.03)])
def test_a_bar_of_figure_plus_is_for_the_worst_run(column: str, value: float) -> None:
    rows = rows_of("plus", POINTS["plus"])
    worse = copy.deepcopy(rows)
    next(row for row in worse if row["shedder"] == "penstock")["worst"][column] = value
    assert all(judged("plus", rows).values())
    assert sum(not holds for holds in judged("plus", worse).values()) == 1


def test_overhead_is_held_to_eleven_percent() -> None:
    def rows(over: float) -> list[Row]:
        return [
            {"shedder": name, "us_per_batch": {"mean": 1.0}, "over_random": {"mean": over}}
            for name in ("random", "balance_sic", "penstock")
        ]

    assert set(judged("overhead", rows(0.1)).values()) == {True}
    assert set(judged("overhead", rows(0.12)).values()) == {False}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("name", "words", "query", "dataset", "error"),
    [
        ("6", "the error decreases", "avg", "gaussian", lambda row: row["sic"]),
        ("6", "stronger for COUNT", "avg", "uniform", lambda _: 2.0),
        ("6", "AVG changes little", "avg", "uniform", lambda _: 0.8),
        ("6", "in proportion", "count", "uniform", lambda _: 0.5),
        ("6", "MAX has a small error", "max", "mixed", lambda _: 0.0),
        ("7", "the error decreases", "cov", "gaussian", lambda row: row["sic"]),
        ("7", "alike for all data sets", "top_5", "gaussian", lambda _: 0.9),
        ("7", "more prominent", "cov", "planetlab", lambda _: 0.0),
    ],
)
def test_claims_on_errors_would_fall(
    name: str, words: str, query: str, dataset: str, error: Callable[[Row], float]
) -> None:
    rows = copy.deepcopy(figure(name).rows)
    for row in rows:
        if (row["query"], row["dataset"]) == (query, dataset):
            row["error"] = error(row)
    (found,) = [holds for claim, holds in judged(name, rows).items() if words in claim]
    assert not found
