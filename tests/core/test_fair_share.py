import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from penstock.core.fairness.max_min import max_min
from penstock.errors import PenstockError

BATCHES = st.lists(st.tuples(st.integers(1, 30), st.floats(1e-3, 0.1), st.floats(0.1, 5.0)), min_size=1, max_size=4)
QUERIES = st.dictionaries(st.integers(0, 9), BATCHES, min_size=1, max_size=6)
LEVELS = st.dictionaries(st.integers(0, 9), st.floats(0.0, 0.5))
WEIGHTS = st.dictionaries(st.integers(0, 9), st.floats(0.2, 4.0))


def program(
    budget: float,
    queries: dict[int, list[tuple[int, float, float]]],
    known: dict[int, float],
    weights: dict[int, float],
) -> float:
    """The best level of the poorest query, by a linear program over the shares and that level."""
    batches = [(query, *batch) for query, own in queries.items() for batch in own]
    cost = np.array([tuples * work for _, tuples, _, work in batches])
    rows = [[*cost, 0.0]]
    limits = [budget]
    for query in queries:
        worth = [-tuples * sic if owner == query else 0.0 for owner, tuples, sic, _ in batches]
        rows.append([*worth, weights.get(query, 1.0)])
        limits.append(known.get(query, 0.0))
    goal = np.zeros(len(batches) + 1)
    goal[-1] = -1.0
    bounds = [(0.0, 1.0)] * len(batches) + [(None, None)]
    return float(linprog(goal, A_ub=rows, b_ub=limits, bounds=bounds).x[-1])


@given(QUERIES, st.floats(0.0, 300.0), LEVELS, WEIGHTS)
@settings(max_examples=60, deadline=None)
def test_the_poorest_query_is_as_rich_as_a_linear_program_makes_it(
    queries: dict[int, list[tuple[int, float, float]]],
    budget: float,
    known: dict[int, float],
    weights: dict[int, float],
) -> None:
    shares = max_min(budget, queries, known_sic=known, weights=weights)

    poorest = min(sic / weights.get(query, 1.0) for query, sic in shares.sic.items())
    assert poorest == pytest.approx(program(budget, queries, known, weights), abs=1e-7)
    assert shares.work <= budget * (1 + 1e-9) + 1e-9
    assert all(0.0 <= share <= 1.0 for kept in shares.kept.values() for share in kept)
    everything = sum(tuples * work for own in queries.values() for tuples, _, work in own)
    assert shares.work == pytest.approx(min(budget, everything))


@given(QUERIES, st.floats(0.0, 300.0), LEVELS)
@settings(max_examples=60, deadline=None)
def test_only_a_query_with_nothing_left_stays_below_the_level_and_one_above_it_got_nothing(
    queries: dict[int, list[tuple[int, float, float]]], budget: float, known: dict[int, float]
) -> None:
    """Which is what makes the next poorest as rich as can be, and so on."""
    shares = max_min(budget, queries, known_sic=known)

    for query, kept in shares.kept.items():
        if shares.sic[query] < shares.level - 1e-9:
            assert kept == pytest.approx([1.0] * len(kept))
        if shares.sic[query] > shares.level + 1e-9:
            assert kept == [0.0] * len(kept)


def test_batches_worth_the_same_for_their_work_give_the_same_share() -> None:
    shares = max_min(15, {"a": [(10, 0.01), (20, 0.01), (10, 0.001)]})

    assert shares.kept["a"] == pytest.approx([0.5, 0.5, 0.0])


def test_free_tuples_are_kept_and_worthless_ones_only_in_room_that_nothing_else_needs() -> None:
    queries = {"a": [(10, 0.01, 0.0), (10, 0.0, 1.0)], "b": [(10, 0.01, 1.0)]}

    assert max_min(5, queries).kept == {"a": [1.0, 0.0], "b": [0.5]}
    assert max_min(15, queries).kept == {"a": [1.0, 0.5], "b": [1.0]}


def test_nothing_to_share() -> None:
    assert max_min(5, {}).kept == {}
    assert max_min(0, {"a": [(10, 0.01)]}).kept == {"a": [0.0]}
    assert max_min(10, {"a": [(10, 0.01)]}).level == np.inf


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(PenstockError, match="budget = -1 is not usable"):
        max_min(-1, {"a": [(10, 0.01)]})
    with pytest.raises(PenstockError, match="weights"):
        max_min(1, {"a": [(10, 0.01)]}, weights={"a": 0.0})
    with pytest.raises(PenstockError, match="weights of query 'a' = inf is not usable"):
        max_min(1, {"a": [(10, 0.01)]}, weights={"a": np.inf})
    with pytest.raises(PenstockError, match="batch of query 'a'"):
        max_min(1, {"a": [(10, -0.01)]})
