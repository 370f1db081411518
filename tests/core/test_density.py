"""Keep shares by utility per cycle, against solvers that know nothing of sorts and water levels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, minimize

from penstock.core.control.allotment import alike, cheapest_first
from penstock.core.control.density import Allotment, Classes, allot
from penstock.core.fairness.max_min import fill
from penstock.errors import PenstockError

ALPHAS = (0.0, 0.5, 1.0, 2.0, math.inf)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Classes, float, float]:
    """A few classes of a few queries, a budget that is short, and a floor."""
    count = draw(st.integers(2, 10))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    queries = draw(st.integers(1, min(count, 4)))
    query = np.concatenate([np.arange(queries), rng.integers(0, queries, count - queries)])
    levels = draw(st.sampled_from([2, 5, 1000]))  # few levels: many classes are alike
    rows = rng.integers(1, 20, count).astype(float)
    classes = Classes(
        rows=rows,
        costs_s=(1.0 + rng.integers(0, levels, count)) / levels,
        utilities=(1.0 + rng.integers(0, levels, count)) / levels,
        query=query,
        source=rng.integers(0, 2, count) if draw(st.booleans()) else None,
        must_rows=rows * rng.uniform(0.0, 0.3, count) if draw(st.booleans()) else None,
        weights=rng.uniform(0.5, 2.0, queries) if draw(st.booleans()) else None,
    )
    min_keep = draw(st.sampled_from([0.0, 0.01, 0.1]))
    must = np.zeros(count) if classes.must_rows is None else classes.must_rows
    least = float((must + min_keep * (rows - must)) @ classes.costs_s)
    share = draw(st.floats(0.05, 0.95))
    return classes, least + share * (float(rows @ classes.costs_s) - least), min_keep


def linear(classes: Classes) -> tuple[np.ndarray, np.ndarray]:
    """Utility of each query as a constant and a matrix on keep shares, straight from the definition."""
    count, queries = len(classes.rows), classes.queries
    must = np.zeros(count) if classes.must_rows is None else classes.must_rows
    source = np.zeros(count, int) if classes.source is None else classes.source
    matrix, constant = np.zeros((queries, count)), np.zeros(queries)
    for query in range(queries):
        sources = {one for one, owner in zip(source, classes.query, strict=True) if owner == query}
        for one in sources:
            members = [i for i in range(count) if classes.query[i] == query and source[i] == one]
            whole = sum(classes.rows[i] * classes.utilities[i] for i in members)
            for i in members:
                worth = classes.utilities[i] / whole / len(sources)
                matrix[query, i] = worth * (classes.rows[i] - must[i])
                constant[query] += worth * must[i]
    return constant, matrix


def kept_work(classes: Classes, keep: np.ndarray) -> float:
    must = np.zeros(len(keep)) if classes.must_rows is None else classes.must_rows
    return float((must + keep * (classes.rows - must)) @ classes.costs_s)


def objective(utilities: np.ndarray, weights: np.ndarray, alpha: float) -> float:
    if alpha == math.inf:
        return float((utilities / weights).min())
    if alpha == 1.0:
        return float(weights @ np.log(utilities))
    return float(weights @ utilities ** (1.0 - alpha) / (1.0 - alpha))


def solved(classes: Classes, budget_s: float, min_keep: float, alpha: float) -> float:
    """The best objective that a solver finds."""
    constant, matrix = linear(classes)
    count, queries = len(classes.rows), classes.queries
    weights = np.ones(queries) if classes.weights is None else classes.weights
    must = np.zeros(count) if classes.must_rows is None else classes.must_rows
    loose_s = (classes.rows - must) * classes.costs_s
    room_s = budget_s - float(must @ classes.costs_s)
    bounds = [(min_keep, 1.0)] * count
    if alpha == 0.0:
        found = linprog(-weights @ matrix, A_ub=[loose_s], b_ub=[room_s], bounds=bounds)
        return float(weights @ constant - found.fun)
    if alpha == math.inf:
        worst = np.column_stack([-matrix / weights[:, np.newaxis], np.ones(queries)])
        rows = np.vstack([worst, np.append(loose_s, 0.0)])
        limits = np.append(constant / weights, room_s)
        found = linprog(np.append(np.zeros(count), -1.0), A_ub=rows, b_ub=limits, bounds=[*bounds, (None, None)])
        return float(-found.fun)
    even = np.full(count, min_keep + (1.0 - min_keep) * 0.02)
    found = minimize(
        lambda keep: -objective(np.maximum(constant + matrix @ keep, 1e-9), weights, alpha),
        even,
        method="SLSQP",
        bounds=bounds,
        constraints=LinearConstraint(loose_s, -np.inf, room_s),
        options={"maxiter": 500, "ftol": 1e-12},
    )
    keep = np.clip(found.x, min_keep, 1.0)
    excess = kept_work(classes, keep) / budget_s
    return -math.inf if excess > 1.0 + 1e-7 else objective(constant + matrix @ keep, weights, alpha)


@settings(max_examples=60, deadline=None)
@given(problem=problems(), alpha=st.sampled_from(ALPHAS))
def test_no_solver_finds_more(problem: tuple[Classes, float, float], alpha: float) -> None:
    classes, budget_s, min_keep = problem
    found = allot(classes, budget_s, alpha=alpha, min_keep=min_keep)
    constant, matrix = linear(classes)
    assert found.keep.min() >= min_keep - 1e-12
    assert found.keep.max() <= 1.0 + 1e-12
    assert kept_work(classes, found.keep) == pytest.approx(budget_s)
    assert found.work_s == pytest.approx(budget_s)
    np.testing.assert_allclose(found.delivered, constant + matrix @ found.keep, atol=1e-8)
    weights = np.ones(classes.queries) if classes.weights is None else classes.weights
    ours, theirs = objective(found.delivered, weights, alpha), solved(classes, budget_s, min_keep, alpha)
    assert ours >= theirs - 1e-6 * max(abs(theirs), 1.0)


@settings(max_examples=40, deadline=None)
@given(problem=problems(), alpha=st.floats(0.0, 30.0))
def test_a_second_of_work_brings_no_more_elsewhere(problem: tuple[Classes, float, float], alpha: float) -> None:
    """The condition of an optimum, for any alpha: nothing open has a higher marginal than what is not yet whole."""
    classes, budget_s, min_keep = problem
    found = allot(classes, budget_s, alpha=alpha, min_keep=min_keep)
    _, matrix = linear(classes)
    must = np.zeros(len(classes.rows)) if classes.must_rows is None else classes.must_rows
    density = matrix.sum(axis=0) / ((classes.rows - must) * classes.costs_s)
    weights = np.ones(classes.queries) if classes.weights is None else classes.weights
    bring = np.log(weights * np.maximum(found.delivered, 1e-300) ** -alpha)[classes.query] + np.log(density)
    above, below = bring[found.keep > min_keep + 1e-7], bring[found.keep < 1.0 - 1e-7]
    assert above.min(initial=math.inf) >= below.max(initial=-math.inf) - 1e-5


@st.composite
def rough_problems(draw: st.DrawFn) -> tuple[Classes, float, float]:
    """Classes that lie many magnitudes apart, or cost, bring or are worth nothing, with any budget."""
    count = draw(st.integers(1, 10))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    queries = draw(st.integers(1, min(count, 4)))
    span = draw(st.sampled_from([0.0, 3.0, 10.0, 50.0]))

    def amounts(size: int, spread: float, nothing: float = 0.1) -> np.ndarray:
        return np.where(rng.random(size) < nothing, 0.0, 10.0 ** rng.uniform(-spread, spread, size))

    rows = amounts(count, 2.0)
    classes = Classes(
        rows=rows,
        costs_s=amounts(count, span),
        utilities=amounts(count, span),
        query=np.concatenate([np.arange(queries), rng.integers(0, queries, count - queries)]),
        must_rows=rows * rng.choice([0.0, 0.3, 1.0], count) if draw(st.booleans()) else None,
        weights=amounts(queries, 3.0, 0.0) if draw(st.booleans()) else None,
    )
    share = draw(st.sampled_from([0.0, 1e-12, 1.0, 2.0]) | st.floats(0.0, 1.0))
    return classes, share * float(rows @ classes.costs_s), draw(st.sampled_from([0.0, 1e-4, 0.01, 1.0]))


@settings(max_examples=300, deadline=None)
@given(problem=rough_problems(), alpha=st.sampled_from([0.0, 1e-3, 1.0, 2.0, 30.0, 1e4, math.inf]))
def test_the_budget_is_spent_whatever_the_magnitudes(problem: tuple[Classes, float, float], alpha: float) -> None:
    classes, budget_s, min_keep = problem
    found = allot(classes, budget_s, alpha=alpha, min_keep=min_keep)
    everything, floor = (kept_work(classes, np.full(len(classes.rows), share)) for share in (1.0, min_keep))
    assert found.work_s == pytest.approx(min(max(budget_s, floor), everything), rel=1e-9, abs=0.0)
    assert found.keep.min() >= min_keep
    assert found.keep.max() <= 1.0
    assert ((found.delivered >= 0.0) & (found.delivered <= 1.0)).all()


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, math.inf])
def test_a_class_worth_next_to_nothing_does_not_break_the_budget(alpha: float) -> None:
    """Its utility is lost in the digits of its query's, its work is not."""
    classes = Classes(rows=np.ones(2), costs_s=np.array([1.0, 1e6]), utilities=np.array([1.0, 1e-20]))
    found = allot(classes, 10.0, alpha=alpha, min_keep=0.0)
    assert found.work_s == pytest.approx(10.0)
    assert found.keep.tolist() == pytest.approx([1.0, 9e-6])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_queries_that_are_alike_get_alike(alpha: float) -> None:
    classes = Classes(rows=np.ones(9), costs_s=np.tile([1.0, 2.0, 4.0], 3), query=np.repeat(np.arange(3), 3))
    keep = allot(classes, 7.5, alpha=alpha, min_keep=0.01).keep.reshape(3, 3)
    np.testing.assert_allclose(keep, np.tile(keep[0], (3, 1)), atol=1e-9)
    assert keep[0].tolist() == pytest.approx([1.0, 0.01 + (1.5 - 0.06) / 1.98 * 0.99, 0.01], abs=0.02)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("budget_s", "kept"), [(0.0, 0.01), (-1.0, 0.01), (5.0, 0.5), (10.0, 1.0), (math.inf, 1.0)])
def test_one_class(alpha: float, budget_s: float, kept: float) -> None:
    found = allot(Classes(rows=np.array([5.0]), costs_s=np.array([2.0])), budget_s, alpha=alpha)
    assert found.keep.tolist() == pytest.approx([kept])
    assert found.delivered.tolist() == pytest.approx([kept])


def test_no_class_at_all() -> None:
    assert allot(Classes(rows=np.zeros(0), costs_s=np.zeros(0)), 1.0).keep.tolist() == []


def test_what_no_float_can_hold_is_refused() -> None:
    with pytest.raises(PenstockError, match=r"^budget_s = nan is not usable: give a number$"):
        allot(Classes(rows=np.ones(1), costs_s=np.ones(1)), math.nan)
    with pytest.raises(PenstockError, match=r"^costs_s and utilities lie too many magnitudes apart"):
        allot(Classes(rows=np.full(2, 1e200), costs_s=np.full(2, 1e200)), 1.0)


@given(
    rows=st.lists(st.floats(1.0, 100.0), min_size=1, max_size=20),
    share=st.floats(0.02, 0.99),
    alpha=st.sampled_from(ALPHAS),
    data=st.data(),
)
def test_one_query_with_equal_utilities_is_the_budget_of_load_aware_shedding(
    rows: list[float], share: float, alpha: float, data: st.DataObject
) -> None:
    costs = data.draw(st.lists(st.integers(1, 10**6), min_size=len(rows), max_size=len(rows), unique=True))
    given_rows, costs_s = np.array(rows), np.array(costs, float)
    budget_s = share * float(given_rows @ costs_s)
    found = allot(Classes(rows=given_rows, costs_s=costs_s), budget_s, alpha=alpha)
    np.testing.assert_allclose(found.keep, cheapest_first(given_rows, costs_s, budget_s), atol=1e-7)
    same = allot(Classes(rows=given_rows, costs_s=np.full(len(rows), 3.0)), share * 3.0 * given_rows.sum(), alpha=alpha)
    np.testing.assert_allclose(same.keep, alike(1.0, share), atol=1e-9)


@given(utilities=st.lists(st.integers(1, 10**6), min_size=2, max_size=12, unique=True), share=st.floats(0.01, 0.99))
def test_equal_costs_drop_by_value(utilities: list[int], share: float) -> None:
    """Semantic shedding: the least useful rows go first, whole classes of them."""
    count = len(utilities)
    worth = np.array(utilities, float)
    classes = Classes(rows=np.full(count, 10.0), costs_s=np.full(count, 0.5), utilities=worth)
    found = allot(classes, share * 5.0 * count, min_keep=0.0)
    left, expected = share * count, np.zeros(count)
    for place in np.argsort(-worth):
        expected[place] = min(max(left, 0.0), 1.0)
        left -= 1.0
    np.testing.assert_allclose(found.keep, expected, atol=1e-7)


def poorest_first(rates: np.ndarray, query: np.ndarray, sources: np.ndarray, capacity: int) -> np.ndarray:
    """The SIC of each query if each tuple in turn goes to the poorest: THEMIS's optimum, tuple by tuple."""
    queries = int(query.max()) + 1
    sic = np.zeros(queries)
    left = rates.astype(int).copy()
    worth = 1.0 / (rates * sources[query])
    for _ in range(capacity):
        owner = min((q for q in range(queries) if left[query == q].any()), key=lambda q: (sic[q], q), default=None)
        if owner is None:
            break
        mine = [i for i in np.flatnonzero(query == owner) if left[i]]
        best = max(mine, key=lambda i: worth[i])
        left[best] -= 1
        sic[owner] += worth[best]
    return sic


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.05, 0.9))
def test_equal_costs_and_utilities_are_max_min_sic(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    query = np.array([0, 1, 1, 2, 2, 2])
    source = np.arange(6)
    rates = rng.integers(20, 200, 6).astype(float)
    capacity = int(share * rates.sum())
    found = allot(
        Classes(rows=rates, costs_s=np.ones(6), query=query, source=source), capacity, alpha=math.inf, min_keep=0.0
    )
    by_tuple = poorest_first(rates, query, np.array([1, 2, 3]), capacity)
    # A tuple is the smallest amount there, and a continuum here.
    assert found.delivered.min() == pytest.approx(by_tuple.min(), abs=2.0 / rates.min())
    assert found.delivered.min() >= by_tuple.min() - 1e-9


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.05, 0.9))
def test_max_min_from_a_start_is_the_water_level_of_fair_shedding(seed: int, share: float) -> None:
    """`core.fairness.max_min` solves the same problem for SIC, written apart."""
    rng = np.random.default_rng(seed)
    owner = np.sort(np.concatenate([np.arange(5), rng.integers(0, 5, 20)]))
    tuples, sic, work = rng.integers(1, 50, 25).astype(float), rng.uniform(1e-4, 1e-3, 25), rng.uniform(0.5, 3.0, 25)
    start, weight = rng.uniform(0.0, 0.02, 5), rng.uniform(0.5, 2.0, 5)
    budget = share * float(tuples @ work)
    shares, level = fill(budget, owner, sic * tuples, work * tuples, start, weight)
    classes = Classes(
        rows=tuples, costs_s=work, utilities=sic, query=owner, weights=weight, whole=np.ones(5), held=start
    )
    found = allot(classes, budget, alpha=math.inf, min_keep=0.0)
    np.testing.assert_allclose(found.keep, shares, atol=1e-6)
    assert (found.delivered / weight).min() == pytest.approx(min(level, (found.delivered / weight).min()))


def test_everything_that_fits_is_kept() -> None:
    found = allot(Classes(rows=np.array([3.0, 0.0]), costs_s=np.array([1.0, 5.0])), 3.0)
    assert found == Allotment(pytest.approx(np.ones(2)), pytest.approx(np.ones(1)), 3.0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_floors_and_must_keep_come_first_even_if_they_are_too_much(alpha: float) -> None:
    classes = Classes(rows=np.array([10.0, 10.0]), costs_s=np.array([1.0, 2.0]), must_rows=np.array([0.0, 5.0]))
    found = allot(classes, 1.0, alpha=alpha, min_keep=0.1)
    assert found.keep.tolist() == [0.1, 0.1]
    assert found.work_s == pytest.approx(10.0 + 1.0 + 1.0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_free_rows_are_kept_and_worthless_ones_get_what_is_left(alpha: float) -> None:
    rows = np.array([5.0, 5.0, 5.0])
    classes = Classes(rows=rows, costs_s=np.array([0.0, 1.0, 1.0]), utilities=np.array([1.0, 1.0, 0.0]))
    assert allot(classes, 3.0, alpha=alpha, min_keep=0.0).keep.tolist() == pytest.approx([1.0, 0.6, 0.0])
    assert allot(classes, 7.0, alpha=alpha, min_keep=0.0).keep.tolist() == pytest.approx([1.0, 1.0, 0.4])
    assert allot(classes, 3.0, alpha=alpha, min_keep=0.0).delivered.tolist() == pytest.approx([0.8])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_query_without_rows_is_no_trouble(alpha: float) -> None:
    classes = Classes(
        rows=np.array([10.0, 0.0, 10.0]),
        costs_s=np.array([1.0, 1.0, 3.0]),
        query=np.array([0, 1, 2]),
        weights=np.array([1.0, 1.0, 2.0]),
    )
    found = allot(classes, 10.0, alpha=alpha)
    assert found.work_s == pytest.approx(10.0)
    assert found.delivered[1] == 1.0


def test_weights_favour() -> None:
    rows, query = np.array([100.0, 100.0]), np.array([0, 1])
    classes = Classes(rows=rows, costs_s=np.ones(2), query=query, weights=np.array([1.0, 2.0]))
    assert allot(classes, 90.0, alpha=1.0).delivered.tolist() == pytest.approx([0.3, 0.6])
    assert allot(classes, 90.0, alpha=math.inf).delivered.tolist() == pytest.approx([0.3, 0.6])


def test_a_higher_alpha_lifts_the_poorest_and_costs_the_mean() -> None:
    rng = np.random.default_rng(5)
    query = rng.integers(0, 12, 300)
    classes = Classes(rows=np.ones(300), costs_s=rng.lognormal(0.0, 1.0, 300) * (1.0 + query), query=query)
    budget_s = 0.3 * float(classes.rows @ classes.costs_s)
    found = [allot(classes, budget_s, alpha=alpha, min_keep=0.0).delivered for alpha in ALPHAS]
    worst, mean = [one.min() for one in found], [one.mean() for one in found]
    assert worst == sorted(worst)
    assert mean == sorted(mean, reverse=True)


@pytest.mark.parametrize(
    ("given_arrays", "line"),
    [
        ({"rows": np.array([-1.0])}, "rows = -1.0 is not usable: give finite numbers from 0 up"),
        ({"costs_s": np.array([math.nan])}, "costs_s = nan is not usable: give finite numbers from 0 up"),
        ({"utilities": np.ones(2)}, "utilities = '2 entries' is not usable: give 1, one for each of rows"),
        ({"query": np.array([-1])}, "query = -1 is not usable: give numbers of queries from 0 up"),
        ({"held": np.zeros(0)}, "held = '0 entries' is not usable: give 1, one a query"),
        ({"weights": np.zeros(1)}, "weights = 0.0 is not usable: give 1 numbers above 0, one a query"),
    ],
)
def test_what_is_no_class_is_refused(given_arrays: dict[str, np.ndarray], line: str) -> None:
    with pytest.raises(PenstockError, match=f"^{line}$"):
        Classes(**{"rows": np.ones(1), "costs_s": np.ones(1), **given_arrays})


@pytest.mark.parametrize("alpha", [-1.0, math.nan, "1"])
def test_what_is_no_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(PenstockError, match=r"alpha = .* is not usable: give a number from 0 up"):
        allot(Classes(rows=np.ones(1), costs_s=np.ones(1)), 0.5, alpha=alpha)
