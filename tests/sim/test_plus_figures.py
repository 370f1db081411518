"""One policy for cost, worth and fairness: the study, the papers' scenarios, and what estimates cost."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from penstock.core.fairness.jain import jain
from penstock.sim.balanced import claims as plus_claims
from penstock.sim.balanced import figures as plus
from penstock.sim.balanced import plots as plus_plots
from penstock.sim.balanced import runs as plus_runs
from penstock.sim.balanced import study as plus_study
from penstock.sim.figure import Figure, Row

RESULTS = Path(__file__).parents[2] / "docs" / "papers" / "plus"
FEW = plus.Effort(runs=40)


@pytest.fixture(scope="module")
def study() -> Figure:
    return plus.figure_study(FEW)


def test_the_study_with_exact_knowledge_is_met(study: Figure) -> None:
    assert [claim.claim for claim in study.claims if not claim.holds] == []
    assert {row["policy"] for row in study.rows} == set(plus_study.POLICIES)


@pytest.mark.parametrize("policy", plus_study.POLICIES)
def test_every_policy_of_the_study_spends_the_same_work(policy: str) -> None:
    given = plus_study.node(1, 0)
    keep = plus_study.kept(policy, given)
    assert given.work_s(keep) == pytest.approx(given.budget_s)
    assert given.delivered(np.ones(len(keep))).tolist() == pytest.approx([1.0] * plus_study.QUERIES)


def test_the_trade_off_goes_one_way() -> None:
    figure = plus.figure_alpha(plus.Effort(runs=3))
    assert all(claim.holds for claim in figure.claims)
    assert figure.rows[-1]["worst_utility"]["mean"] == pytest.approx(figure.rows[-1]["mean_utility"]["mean"])


def test_claims_can_fail(study: Figure) -> None:
    """Rows in which the policy does no better than random are told as such."""
    at = {"mean": 0.3, "min": 0.3, "max": 0.3}
    poor: list[Row] = [{**row, "mean_utility": at, "worst_utility": at} for row in study.rows]
    assert [claim.holds for claim in plus_claims.study(poor)] == [True, True, False, False, False, False, True, False]
    means = {"paper": {"mean": 1.0}, "balanced": {"mean": 1.1}}
    row = {"scenario": "a", "metric": "drops", "better": "lower", **means, "runs_as_good": 1.0}
    assert not plus_claims.table([row])[0].holds
    assert plus_claims.table([{**row, "better": "higher"}])[0].holds
    assert not plus_claims.table([{**row, "better": "higher", "runs_as_good": 0.8}])[0].holds
    late = {"mean": 0.9, "max": 1.2}
    assert not plus_claims.table([{**row, "metric": "latency over the target", "paper": late, "balanced": late}])[
        0
    ].holds


@pytest.mark.parametrize("scenario", plus_runs.SCENARIOS)
def test_balanced_is_as_good_as_each_paper_on_its_own_measure(scenario: str) -> None:
    for outcome in plus_runs.SCENARIOS[scenario](3, 5):
        if outcome.metric.endswith("over the target"):
            assert outcome.ours <= 1.0
        elif outcome.lower_is_better:
            assert outcome.ours <= outcome.theirs + 1e-9
        else:
            assert outcome.ours >= outcome.theirs - 1e-9


def test_auroras_plans_fit_the_capacity() -> None:
    network = plus_runs.trees(np.random.default_rng([0, 2]))
    paths = plus_runs.Paths.of(network)
    capacity = network.run(1.0).load
    for excess in plus_runs.AURORA_EXCESS:
        for by in ("tuples", "values"):
            keep = paths.kept(network, excess, by)
            assert network.run(1.0 + excess, dict(keep)).load <= capacity * (1.0 + 1e-9)


def test_errors_cost_more_the_larger_they_are_and_the_true_work_always_fits() -> None:
    given = plus_study.node(0, 0)
    means = []
    for noise in (0.0, 0.5, 2.0):
        found = plus_study.with_noise(given, "alpha_1", noise, np.random.default_rng(1))
        means.append(found.mean())
    assert means == sorted(means, reverse=True)
    assert means[0] == pytest.approx(given.delivered(plus_study.kept("alpha_1", given)).mean(), abs=1e-6)


def test_max_min_without_worths_does_not_hang_on_them() -> None:
    figure = plus.figure_noise(plus.Effort(runs=4))
    rows = [row for row in figure.rows if (row["errors_in"], row["policy"]) == ("utilities", plus_study.ALIKE)]
    assert {row["noise"] for row in rows} == set(plus.NOISES)
    assert {round(row["worst_utility"]["mean"], 6) for row in rows} == {round(rows[0]["worst_utility"]["mean"], 6)}
    assert next(claim for claim in figure.claims if claim.claim.startswith("worths left out")).holds


def test_runs_are_compared_in_pairs() -> None:
    """A mean that is better does not hide runs that are worse."""
    pairs = [plus_runs.Outcome("a", "drops", 1.0, 1.1)] * 3 + [plus_runs.Outcome("a", "drops", 9.0, 1.0)]
    row = plus._table_row(tuple(pairs))  # noqa: SLF001 - what a figure makes of its runs
    assert row["balanced"]["mean"] < row["paper"]["mean"]
    assert row["runs_as_good"] == 0.25
    assert not plus_claims.table([row])[0].holds


def test_costs_that_are_dealt_anew_are_learned_anew() -> None:
    found = plus_study.under_drift(plus_study.node(0, 0), "max_min", 60, 0.0, np.random.default_rng(2))
    lost = found.exact.min(axis=1) - found.learned.min(axis=1)
    assert lost[29] < 0.02
    assert lost[30] > 0.1
    assert lost[-1] < 0.05


def test_every_figure_can_be_drawn(study: Figure) -> None:
    row = {"scenario": "a", "metric": "b", "better": "lower", "paper": {"mean": 2.0}, "balanced": {"mean": 1.0}}
    for figure in (study, plus.figure_alpha(plus.Effort(runs=1)), Figure("plus", "table", {}, [row])):
        assert plus_plots.plot(figure).startswith(b"\x89PNG")
    ends = {"mean_utility": {"mean": 0.5}, "worst_utility": {"mean": 0.4}, "policy": "alpha_1"}
    noise = [{**ends, "errors_in": one, "noise": size} for one in ("costs", "utilities") for size in (0.1, 0.5)]
    drift = [{**ends, "step": step, "batches": part} for step in (0.0, 0.1) for part in ("a", "b", "c")]
    assert plus_plots.plot(Figure("plus", "noise", {}, noise)).startswith(b"\x89PNG")
    assert plus_plots.plot(Figure("plus", "drift", {}, drift)).startswith(b"\x89PNG")


def test_max_min_is_even(study: Figure) -> None:
    given = plus_study.node(4, 0)
    assert jain(given.delivered(plus_study.kept("max_min", given))) == pytest.approx(1.0)
    assert math.isclose(study.rows[-1]["jain"]["mean"], 1.0)


@pytest.mark.parametrize("figure", plus.FIGURES)
def test_the_documentation_has_every_figure_with_its_claims(figure: str) -> None:
    data = json.loads((RESULTS / f"plus-{figure}.json").read_text(encoding="utf-8"))
    page = (RESULTS / "claims.md").read_text(encoding="utf-8")
    assert data["rows"]
    assert (RESULTS / f"plus-{figure}.png").read_bytes().startswith(b"\x89PNG")
    for claim in data["claims"]:
        assert f"| {claim['measured']} | {'yes' if claim['holds'] else '**no**'} |" in page
