import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.row.cost_model import HeavyHitters
from penstock.errors import PenstockError

ROWS = st.lists(st.tuples(st.integers(0, 9) | st.text(max_size=2), st.integers(0, 100)), max_size=100)


@given(ROWS)
def test_with_a_place_for_every_key_all_means_are_exact(rows: list[tuple[int | str, int]]) -> None:
    table = HeavyHitters(places=max(len({key for key, _ in rows}), 1))
    seen: dict[int | str, list[int]] = {}
    for key, cost in rows:
        assert table.mean(key) == (sum(seen[key]) / len(seen[key]) if key in seen else None)
        table.add(key, float(cost))
        seen.setdefault(key, []).append(cost)
    for key, costs in seen.items():
        assert table.mean(key) == sum(costs) / len(costs)


def test_frequent_keys_keep_their_places_under_a_zipf_stream() -> None:
    table = HeavyHitters(places=64)
    keys = np.minimum(np.random.default_rng(1).zipf(1.3, 20_000), 5000).tolist()
    for key in keys:
        table.add(key, float(key))
    assert len(set(keys)) > 500
    # Space-Saving promises a place to every key with more than rows / places = 312 rows.
    frequent = [key for key in set(keys) if keys.count(key) > 20_000 / 64]
    assert len(frequent) >= 8
    assert [table.mean(key) for key in frequent] == [float(key) for key in frequent]


def test_a_flood_of_new_keys_does_not_evict_a_frequent_one() -> None:
    table = HeavyHitters(places=4)
    for number in range(3000):
        table.add("frequent", 2.0)
        table.add(number, 9.0)
        assert table.mean("frequent") == 2.0


def test_a_mean_covers_the_rows_since_the_key_moved_in() -> None:
    table = HeavyHitters(places=1)
    table.add("old", 100.0)
    table.add("new", 4.0)
    table.add("new", 6.0)
    assert (table.mean("old"), table.mean("new")) == (None, 5.0)


@given(st.floats(0.1, 1.0), st.floats(0.1, 10.0))
def test_forgetting_keeps_the_mean_and_scaling_moves_it(decay: float, factor: float) -> None:
    table = HeavyHitters(places=2)
    table.add("a", 4.0)
    table.add("a", 8.0)
    table.decay(decay)
    assert table.mean("a") == pytest.approx(6.0)
    table.scale_costs(factor)
    assert table.mean("a") == pytest.approx(6.0 * factor)


def test_after_forgetting_new_rows_count_more() -> None:
    table = HeavyHitters(places=2)
    for _ in range(10):
        table.add("a", 1.0)
    table.decay(0.1)
    table.add("a", 3.0)
    assert table.mean("a") == pytest.approx(2.0)


@pytest.mark.parametrize("cost", [0.001, 0.75, 300.0])
def test_a_key_not_seen_for_very_long_is_forgotten_or_right_but_never_wrong(cost: float) -> None:
    table = HeavyHitters(places=2)
    table.add("rare", cost)
    for _ in range(4000):  # as after four million executed rows of other keys
        table.decay(0.8)
        mean = table.mean("rare")
        assert mean is None or mean == pytest.approx(cost)


def test_memory_does_not_grow_with_keys() -> None:
    table = HeavyHitters(places=16)
    before = table.memory_bytes
    for key in range(1000):
        table.add(key, 1.0)
    assert table.memory_bytes == before
    assert sum(table.mean(key) is not None for key in range(1000)) == 16


@pytest.mark.parametrize("places", [0, -1])
def test_a_table_without_places_is_refused(places: int) -> None:
    with pytest.raises(PenstockError, match=rf"^places = {places} is not usable: give a whole number from 1 up$"):
        HeavyHitters(places)
