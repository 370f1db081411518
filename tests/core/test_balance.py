from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.fairness import balance_sic as module
from penstock.core.fairness.balance_sic import Selection, balance_sic
from penstock.core.fairness.max_min import max_min
from penstock.errors import PenstockError

FIGURE_3 = {"q1": [(20, 1 / 20)], "q2": [(30, 1 / 30)], "q3": [(10, 1 / 10)], "q4": [(10, 1 / 20), (20, 1 / 40)]}
#: Rates are lost in print; these are the only whole ones that give both of its outcomes.
FIGURE_4 = {"a": {"q1": [(10, 0.1)], "q2": [(5, 0.1)]}, "b": {"q2": [(10, 0.05)], "q3": [(10, 0.1)]}}

BATCHES = st.lists(st.tuples(st.integers(1, 30), st.floats(1e-3, 0.1)), min_size=1, max_size=4)
QUERIES = st.dictionaries(st.integers(0, 9), BATCHES, min_size=1, max_size=6)


def rounded(selection: Selection[str]) -> dict[str, float]:
    return {query: round(sic, 3) for query, sic in selection.sic.items()}


def test_figure_3() -> None:
    """Tuples in proportion to rates, as printed; ties fall as in print for some seed."""
    runs = [balance_sic(10, FIGURE_3, seed=seed, pick="proportional") for seed in range(60)]

    printed = [run for run in runs if rounded(run) == {"q1": 0.1, "q2": 0.133, "q3": 0.1, "q4": 0.1}]
    assert printed
    assert printed[0].kept == {"q1": [2], "q2": [4], "q3": [1], "q4": [1, 2]}
    assert all(run.tuples == 10 for run in runs)


def test_figure_3_with_the_most_valuable_tuples_first_has_one_tuple_more_to_give() -> None:
    run = balance_sic(8, FIGURE_3, seed=0)

    assert set(rounded(run).values()) == {0.1}
    assert run.kept["q4"] == [2, 0]


def figure_4(*, update_sic: bool, seed: int) -> dict[str, float]:
    """Two nodes side by side, one tuple a turn, each told after every turn what the other's queries have reached."""
    total = dict.fromkeys(("q1", "q2", "q3"), 0.0)
    own = {node: dict.fromkeys(queries, 0.0) for node, queries in FIGURE_4.items()}
    left = {node: {query: batches[0] for query, batches in queries.items()} for node, queries in FIGURE_4.items()}
    for turn in range(5):
        gained = []
        for node, queries in left.items():
            seen = total if update_sic else own[node]
            given_seed = 100 * seed + 10 * turn + (node == "b")
            run = balance_sic(
                1, {query: [batch] for query, batch in queries.items()}, known_sic=seen, seed=given_seed, project=False
            )
            gained += [(node, query, kept[0]) for query, kept in run.kept.items() if kept[0]]
        for node, query, kept in gained:
            tuples, sic = left[node][query]
            left[node][query] = (tuples - kept, sic)
            own[node][query] += kept * sic
            total[query] += kept * sic
    return {query: round(sic, 3) for query, sic in total.items()}


def test_figure_4() -> None:
    alone = [figure_4(update_sic=False, seed=seed) for seed in range(40)]
    told = [figure_4(update_sic=True, seed=seed) for seed in range(40)]

    assert {"q1": 0.2, "q2": 0.45, "q3": 0.2} in alone
    assert {"q1": 0.3, "q2": 0.3, "q3": 0.3} in told
    assert {"q1": 0.3, "q2": 0.3, "q3": 0.3} not in alone
    spread = [np.mean([max(run.values()) - min(run.values()) for run in runs]) for runs in (told, alone)]
    assert spread[0] < spread[1] / 2


def test_without_update_sic_a_node_does_not_hear_what_queries_have() -> None:
    queries = {"rich": [(10, 0.1)], "poor": [(10, 0.1)]}

    told = balance_sic(6, queries, known_sic={"rich": 2.0, "poor": 1.0})
    deaf = balance_sic(6, queries, known_sic={"rich": 2.0, "poor": 1.0}, update_sic=False)

    assert told.kept == {"rich": [0], "poor": [6]}
    assert deaf.kept == {"rich": [3], "poor": [3]}


def test_the_buffer_is_taken_as_lost_first() -> None:
    """Both are told to have 0.5, but more of it is in question for one."""
    queries = {"much": [(4, 0.1)], "little": [(1, 0.1)]}

    assert balance_sic(3, queries, known_sic={"much": 0.5, "little": 0.5}).kept == {"much": [3], "little": [0]}
    assert balance_sic(5, queries, known_sic={"much": 0.5, "little": 0.5}).sic == pytest.approx(
        {"much": 0.5, "little": 0.5}
    )


def test_one_query_climbs_to_the_next_level_while_its_equals_get_nothing() -> None:
    """The weak point of line 16: capacity is spent on one of three equals."""
    queries = {name: [(10, 0.1)] for name in "abc"} | {"rich": [(10, 0.1)]}

    run = balance_sic(5, queries, known_sic=dict.fromkeys("abc", 0.0) | {"rich": 0.5}, project=False)

    assert sorted(run.kept[name][0] for name in "abc") == [0, 0, 5]


@given(QUERIES, st.integers(0, 200), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_capacity_is_used_up_and_never_exceeded(
    queries: dict[int, list[tuple[int, float]]], capacity: int, seed: int
) -> None:
    for pick in ("valuable", "proportional"):
        run = balance_sic(capacity, queries, seed=seed, pick=pick)  # type: ignore[arg-type]

        assert run.tuples == min(capacity, sum(size for batches in queries.values() for size, _ in batches))
        for query, batches in queries.items():
            assert all(0 <= kept <= size for kept, (size, _) in zip(run.kept[query], batches, strict=True))
            worth = sum(kept * sic for kept, (_, sic) in zip(run.kept[query], batches, strict=True))
            assert run.sic[query] == pytest.approx(worth)


@given(QUERIES, st.integers(0, 200), st.dictionaries(st.integers(0, 9), st.floats(0.0, 1.0)))
@settings(max_examples=100, deadline=None)
def test_algorithm_1_never_beats_the_exact_solver_on_the_poorest_query(
    queries: dict[int, list[tuple[int, float]]], capacity: int, known: dict[int, float]
) -> None:
    climbed = balance_sic(capacity, queries, known_sic=known, project=False)
    exact = max_min(capacity, queries, known_sic=known)

    assert min(climbed.sic.values()) <= min(exact.sic.values()) + 1e-9


def test_the_same_seed_gives_the_same_selection_and_another_one_other_ties() -> None:
    queries = {query: [(10, 0.01)] for query in range(20)}

    assert balance_sic(7, queries, seed=3) == balance_sic(7, queries, seed=3)
    assert len({tuple(map(tuple, balance_sic(7, queries, seed=seed).kept.values())) for seed in range(9)}) > 1


@given(st.integers(0, 10**6), st.floats(0.0, 1.1), st.sampled_from([0.0, 0.01, 0.3]))
@settings(max_examples=40, deadline=None)
def test_leaping_ends_where_walking_ends(seed: int, share: float, spread: float) -> None:
    rng = np.random.default_rng(seed)
    queries = int(rng.integers(1, 12))
    owner = np.repeat(np.arange(queries), rng.integers(1, 4, queries))
    tuples = rng.integers(1, 60, owner.size)
    sic = rng.uniform(1e-4, 1e-2, owner.size)
    start = spread * rng.random(queries)
    room = share * float(tuples.sum())
    ends = []
    for leap_room in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "LEAP_ROOM", leap_room)
            ends.append(module.climb(room, owner, tuples, sic, start, seed=1))

    # With random values ties happen only where all start alike, and there they are drawn differently.
    if spread:
        assert ends[0][0].tolist() == ends[1][0].tolist()
    assert ends[0][1].min() == pytest.approx(ends[1][1].min(), abs=0.01 if spread == 0.0 else 1e-9)
    assert ends[0][0].sum() == ends[1][0].sum()


def test_equal_queries_are_walked_through_equally_with_a_leap() -> None:
    run = balance_sic(30_000, {query: [(1000, 1e-3)] for query in range(100)})

    assert {kept for (kept,) in run.kept.values()} == {300}


def test_tuples_without_sic_are_kept_only_in_room_that_nothing_else_needs() -> None:
    queries = {"a": [(5, 0.0), (5, 0.1)], "b": [(5, 0.1)]}

    assert balance_sic(10, queries).kept == {"a": [0, 5], "b": [5]}
    assert balance_sic(12, queries).kept == {"a": [2, 5], "b": [5]}


def test_nothing_to_select_from() -> None:
    assert balance_sic(5, {}).kept == {}
    assert balance_sic(5, {"a": []}).kept == {"a": []}
    assert balance_sic(0, {"a": [(5, 0.1)]}).kept == {"a": [0]}


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    "batch",
    [(-1, 0.1), (1.5, 0.1), (1, -0.1), (1, NAN), (NAN, 0.1), (INFINITE, 0.1), (2**70, 0.1), (1, "x"), (1,), 3, "ab"],
)
def test_a_batch_that_cannot_be_is_refused(batch: Any) -> None:
    for solve in (balance_sic, max_min):
        if solve is max_min and batch in {(1.5, 0.1), (2**70, 0.1)}:
            continue  # parts of a tuple, and as many as you like
        with pytest.raises(PenstockError, match="batch of query 'a'") as caught:
            solve(5, {"a": [batch]})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sic", [INFINITE, NAN, "x", None])
def test_a_sic_that_cannot_be_is_refused(sic: Any) -> None:
    for solve in (balance_sic, max_min):
        with pytest.raises(PenstockError, match="known_sic of query 'a'"):
            solve(5, {"a": [(5, 0.1)]}, known_sic={"a": sic})


def test_any_capacity_is_room_enough() -> None:
    assert balance_sic(1e30, {"a": [(5, 0.1)]}).kept == {"a": [5]}


def test_a_capacity_or_pick_that_cannot_be_is_refused() -> None:
    with pytest.raises(PenstockError, match="capacity = -1 is not usable"):
        balance_sic(-1, {"a": [(5, 0.1)]})
    with pytest.raises(PenstockError, match="pick = 'best' is not usable"):
        balance_sic(1, {"a": [(5, 0.1)]}, pick="best")  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="pick = "):
        balance_sic(1, {"a": [(5, 0.1)]}, pick=["best"])  # type: ignore[arg-type]
