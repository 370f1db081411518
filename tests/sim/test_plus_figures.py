"""One policy for cost, worth and fairness: the study, the papers' scenarios, and what estimates cost."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from penstock.core.balanced.planner import ByClass
from penstock.core.control.planner import SOURCE
from penstock.core.fairness.jain import jain
from penstock.core.fairness.members import Choice
from penstock.messages.plan import KeepTable
from penstock.sim.balanced import claims as plus_claims
from penstock.sim.balanced import figures as plus
from penstock.sim.balanced import plots as plus_plots
from penstock.sim.balanced import queries as plus_queries
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
    assert keep @ (given.classes.rows * given.classes.costs_s) == pytest.approx(given.budget_s)
    assert given.delivered(np.ones(len(keep))).tolist() == pytest.approx([1.0] * plus_study.QUERIES)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few batches, and few cases."""
    for name, value in (("SECONDS", 40), ("OVERHEAD_S", 2.0), ("LEARN_S", 20), ("PLANNED", ("balance_sic", "max_min"))):
        monkeypatch.setattr(plus_queries, name, value)
    monkeypatch.setattr(plus, "DRIFT_S", 40)
    monkeypatch.setattr(plus, "ALPHAS", (math.inf,))
    noise = [("costs", 0.0, policy) for policy in (*plus.LEARNED, plus_study.ALIKE)]
    monkeypatch.setattr(plus, "_NOISE_CASES", [*noise, ("utilities", 0.5, "max_min")])
    monkeypatch.setattr(plus, "_DRIFT_CASES", [(0.0, "max_min")])
    monkeypatch.setattr(plus, "STRETCHES", {"the end": slice(20, 40)})
    for name in ("queries", "noise", "drift"):  # they name cases that are left out
        monkeypatch.setattr(plus_claims, name, lambda _rows: [])


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("figure", ["queries", "alpha", "noise", "drift"])
def test_what_balanced_delivers_is_what_the_planner_of_spark_keeps(
    figure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a rule that keeps almost nothing, the planner's rows have almost no utility; the baselines' are the same."""
    before = plus.FIGURES[figure](plus.Effort(runs=1)).rows
    nothing = KeepTable(SOURCE, (0.001,), ("for a test",))
    monkeypatch.setattr(ByClass, "choose", lambda *_: Choice(nothing, 0.001, moved=True))
    after = plus.FIGURES[figure](plus.Effort(runs=1)).rows
    ours = [row for row in before if row.get("policy") not in ("random", "balance_sic", *plus_study.EXACT)]
    assert ours
    for then, now in zip(before, after, strict=True):
        if then in ours:
            assert now["mean_utility"]["mean"] < 0.2 < then["mean_utility"]["mean"]
        else:
            assert now["mean_utility"] == then["mean_utility"]
        assert now.get("exact_mean") == then.get("exact_mean")


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


@pytest.mark.usefixtures("short")
def test_a_planner_with_large_errors_delivers_less() -> None:
    given = plus_study.node(0, 0, plus_queries.SHARING)
    errors = np.exp(np.random.default_rng(1).normal(0.0, 2.0, len(given.worths)))
    truth, costs, worths = (
        plus_queries.delivered(plus_queries.planned("max_min", given, wrong), 20.0, 40.0).min()
        for wrong in (plus_queries.NO_ERRORS, plus_queries.Errors(costs=errors), plus_queries.Errors(worths=errors))
    )
    assert max(costs, worths) < 0.9 * truth


def test_runs_are_compared_in_pairs() -> None:
    """A mean that is better does not hide runs that are worse."""
    pairs = [plus_runs.Outcome("a", "drops", 1.0, 1.1)] * 3 + [plus_runs.Outcome("a", "drops", 9.0, 1.0)]
    row = plus._table_row(tuple(pairs))  # noqa: SLF001 - what a figure makes of its runs
    assert row["balanced"]["mean"] < row["paper"]["mean"]
    assert row["runs_as_good"] == 0.25
    assert not plus_claims.table([row])[0].holds


def test_costs_walk_and_are_dealt_anew_in_the_middle() -> None:
    given = plus_study.node(0, 0)
    steady, walking = (plus_study.walk(given, 10, step, np.random.default_rng(2)) for step in (0.0, 0.05))
    assert steady[4].tolist() == pytest.approx(given.classes.costs_s.tolist())
    assert steady[5].tolist() != pytest.approx(given.classes.costs_s.tolist())
    for before, after in zip(steady[4].reshape(20, -1), steady[5].reshape(20, -1), strict=True):
        assert sorted(after) == pytest.approx(sorted(before))
    assert all(given.classes.rows @ one == pytest.approx(given.classes.rows @ steady[0]) for one in walking)
    assert len({tuple(one) for one in walking}) == 10


def test_every_figure_can_be_drawn(study: Figure) -> None:
    row = {"scenario": "a", "metric": "b", "better": "lower", "paper": {"mean": 2.0}, "balanced": {"mean": 1.0}}
    alpha = {"alpha": "1", **{f"exact_{end}": {"mean": 0.5} for end in ("mean", "worst")}}
    alpha |= {f"{end}_utility": {"mean": 0.5} for end in ("mean", "worst")}
    for figure in (study, Figure("plus", "alpha", {}, [alpha]), Figure("plus", "table", {}, [row])):
        assert plus_plots.plot(figure).startswith(b"\x89PNG")
    ends = {"mean_utility": {"mean": 0.5}, "worst_utility": {"mean": 0.4}, "policy": "alpha_1"}
    noise = [{**ends, "errors_in": one, "noise": size} for one in ("costs", "utilities") for size in (0.1, 0.5)]
    drift = [{**ends, "step": step, "stretch": part} for step in (0.0, 0.1) for part in ("a", "b", "c")]
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
