from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.sim.workload import (
    COST_VALUES,
    ITEMS,
    Stream,
    arrivals,
    cumulated,
    draw_keys,
    item_costs,
    phases,
    read_columns,
    read_keys,
)

PHASE_ROWS = 6000


# Keys.


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
def test_zipf_probabilities_fall_as_a_power_of_the_rank(alpha: float) -> None:
    share = np.diff(cumulated(f"zipf-{alpha}", ITEMS), prepend=0.0)
    assert share[0] / share[9] == pytest.approx(10.0**alpha)
    assert share.sum() == pytest.approx(1.0)
    assert (np.diff(share) <= 0).all()


@pytest.mark.parametrize("distribution", ["uniform", "zipf-0.5", "zipf-1.0", "zipf-3.0"])
def test_keys_follow_their_distribution(distribution: str) -> None:
    rows, items = 100_000, 64
    keys = draw_keys(distribution, rows, items, np.random.default_rng(1))
    expected = rows * np.diff(cumulated(distribution, items), prepend=0.0)
    counts = np.bincount(keys, minlength=items)
    assert len(counts) == items
    # Chi square: its mean is 63, its standard deviation 11; rare items are taken together.
    common = expected >= 10
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    degrees = common.sum() - 1 + (not common.all())
    deviation = np.sum((observed - wanted) ** 2 / np.maximum(wanted, 1.0))
    assert deviation < degrees + 5 * np.sqrt(2 * degrees)


def test_keys_are_repeatable_by_seed() -> None:
    first, again, other = (draw_keys("zipf-1.0", 1000, 64, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("distribution", ["zipf", "zipf-", "zipf-x", "zipf--1", "zipf-inf", "zipf-nan", "normal", ""])
def test_an_unknown_distribution_is_refused(distribution: str) -> None:
    with pytest.raises(PenstockError, match=r"^distribution = .* is not usable: give 'uniform' or 'zipf-ALPHA'"):
        draw_keys(distribution, 10, 10, np.random.default_rng(0))


# Costs.


def test_each_of_the_costs_at_equal_distance_belongs_to_as_many_items() -> None:
    values, counts = np.unique(item_costs(np.random.default_rng(0)), return_counts=True)
    assert values == pytest.approx(np.arange(1, 65) * 0.0001)
    assert counts.tolist() == [ITEMS // COST_VALUES] * COST_VALUES


def test_which_item_costs_what_is_drawn_anew_for_every_seed() -> None:
    first, again, other = (item_costs(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.mean(first == other) < 0.1
    assert abs(np.corrcoef(first, np.arange(ITEMS))[0, 1]) < 0.1


@pytest.mark.parametrize("values", [0, -1, 63, 4097])
def test_costs_that_do_not_divide_the_items_are_refused(values: int) -> None:
    with pytest.raises(PenstockError, match=rf"^values = {values} is not usable: .* divides the 4096 items$"):
        item_costs(np.random.default_rng(0), values=values)


# Arrivals.


@given(st.integers(0, 50), st.integers(0, 60))
def test_calm_rows_come_at_their_own_gap(rows: int, calm_rows: int) -> None:
    times = arrivals(rows, 1.0, calm_rows=calm_rows, calm_gap_s=4.0)
    expected = [4.0 * min(row, calm_rows) + max(row - calm_rows, 0) for row in range(rows)]
    assert times.tolist() == expected


def test_mean_cost_is_the_streams_own() -> None:
    stream = Stream(np.array([0, 1, 1]), np.array([1.0, 4.0, 4.0]), np.zeros(3), 2)
    assert (stream.rows, stream.mean_cost_s) == (3, 3.0)


# Figure 6.


@pytest.fixture(scope="module")
def stream() -> Stream:
    return phases(3, phase_rows=PHASE_ROWS)


def phase(stream: Stream, name: str) -> slice:
    start = "ABCDEFG".index(name) * PHASE_ROWS
    return slice(start, start + PHASE_ROWS)


def load(stream: Stream, name: str) -> float:
    """Work offered per second of the phase; 1 is the capacity."""
    part = phase(stream, name)
    gaps_s = np.diff(stream.arrivals_s[part])
    assert gaps_s == pytest.approx(gaps_s[0])
    return float(stream.costs_s[part].mean() / gaps_s[0])


def test_phases_last_as_long_as_the_paper_says() -> None:
    assert phases(1).rows == 140_000


@pytest.mark.parametrize(("name", "expected"), [("A", 1.0), ("B", 2.0), ("C", 1.0), ("E", 1 / 1.5), ("F", 2.0), ("G", 1.0)])
def test_figure_6_each_phase_offers_the_load_the_paper_describes(stream: Stream, name: str, expected: float) -> None:
    assert load(stream, name) == pytest.approx(expected, rel=0.05)


def test_figure_6_phase_b_doubles_the_rate(stream: Stream) -> None:
    gap_a, gap_b = (np.diff(stream.arrivals_s[phase(stream, name)])[0] for name in "AB")
    assert gap_a / gap_b == pytest.approx(2.0)


def test_figure_6_phase_d_swaps_the_most_frequent_item_with_one_that_costs_most(stream: Stream) -> None:
    before = np.bincount(stream.keys[phase(stream, "C")], minlength=ITEMS)
    assert before.argmax() == 0
    for name in "DEF":
        counts = np.bincount(stream.keys[phase(stream, name)], minlength=ITEMS)
        swapped = int(counts.argmax())
        assert swapped != 0
        assert stream.costs_s[phase(stream, "D")][stream.keys[phase(stream, "D")] == swapped][0] == pytest.approx(0.0064)
        # The two have changed places; item 0 is now as rare as the other was.
        assert counts[swapped] == pytest.approx(before[0], rel=0.1)
        assert counts[0] < before[0] / 50
    gap_c, gap_d = (np.diff(stream.arrivals_s[phase(stream, name)])[0] for name in "CD")
    assert gap_d == pytest.approx(gap_c)
    assert load(stream, "D") > load(stream, "C")


def test_figure_6_phase_f_doubles_every_cost_and_g_takes_it_back(stream: Stream) -> None:
    by_key = {name: dict(zip(*columns(stream, name), strict=True)) for name in "AEFG"}
    for key, cost_s in by_key["F"].items():
        if key in by_key["E"]:
            assert cost_s == 2.0 * by_key["E"][key]
        if key in by_key["G"]:
            assert by_key["G"][key] == cost_s / 2.0
    assert all(by_key["A"].get(key, cost_s) == cost_s for key, cost_s in by_key["G"].items())


def columns(stream: Stream, name: str) -> tuple[list[int], list[float]]:
    part = phase(stream, name)
    return stream.keys[part].tolist(), stream.costs_s[part].tolist()


def test_figure_6_phase_g_is_phase_a_again_in_distribution_but_not_row_by_row(stream: Stream) -> None:
    a, g = (np.bincount(stream.keys[phase(stream, name)], minlength=ITEMS) for name in "AG")
    top = slice(0, 20)
    assert np.abs(a[top] - g[top]).max() < 5 * np.sqrt(2 * a[top].max())
    assert not np.array_equal(stream.keys[phase(stream, "A")], stream.keys[phase(stream, "G")])


def test_phases_are_repeatable_by_seed(stream: Stream) -> None:
    again, other = phases(3, phase_rows=PHASE_ROWS), phases(4, phase_rows=PHASE_ROWS)
    assert np.array_equal(stream.keys, again.keys)
    assert np.array_equal(stream.costs_s, again.costs_s)
    assert np.array_equal(stream.arrivals_s, again.arrivals_s)
    assert not np.array_equal(stream.keys, other.keys)
    assert (np.diff(stream.arrivals_s) > 0).all()


# Recorded streams.


def written(folder: Path, **columns: object) -> Path:
    path = folder / "stream.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def test_recorded_keys_are_numbered_by_first_appearance(tmp_path: Path) -> None:
    path = written(tmp_path, user=["b", "a", "b", "c", "a"], amount=[1, 2, 3, 4, 5])
    keys, items = read_keys(path, "user")
    assert (keys.tolist(), items, keys.dtype) == ([0, 1, 0, 2, 1], 3, np.int64)


def test_recorded_numbers_serve_as_keys(tmp_path: Path) -> None:
    keys, items = read_keys(written(tmp_path, user=[900, 7, 900]), "user")
    assert (keys.tolist(), items) == ([0, 1, 0], 2)


def test_dictionary_encoded_keys_are_numbered_by_first_appearance_too(tmp_path: Path) -> None:
    """A column of categories, as pandas writes it: its dictionary is sorted and holds values no row has."""
    users = pa.DictionaryArray.from_arrays(pa.array([2, 1, 2, 1], pa.int8()), pa.array(["a", "b", "c", "d"]))
    keys, items = read_keys(written(tmp_path, user=users), "user")
    assert (keys.tolist(), items) == ([0, 1, 0, 1], 2)


def test_an_empty_recording_has_no_keys(tmp_path: Path) -> None:
    keys, items = read_keys(written(tmp_path, user=pa.array([], pa.string())), "user")
    assert (keys.tolist(), items) == ([], 0)


def test_columns_are_read_as_they_are(tmp_path: Path) -> None:
    table = read_columns(written(tmp_path, user=["a", "b"], cost=[0.5, 1.5], extra=[1, 2]), ["cost", "user"])
    assert table.to_pydict() == {"cost": [0.5, 1.5], "user": ["a", "b"]}


def refusal(path: Path, column: str = "user") -> str:
    with pytest.raises(PenstockError) as refused:
        read_keys(path, column)
    message = str(refused.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, user=["a"], amount=[1]), "usr")
    assert message.startswith("column = 'usr' is not usable: give one of the columns of ")
    assert message.endswith(": user, amount")


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.parquet").endswith("is not usable: give an existing Parquet file")


def test_a_file_that_is_no_parquet_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "stream.csv"
    path.write_text("user,amount\n" * 10)
    assert "give a readable Parquet file; reading failed:" in refusal(path)


def test_a_cut_off_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, user=["a", "b", "c"])
    path.write_bytes(path.read_bytes()[:-10])
    assert "give a readable Parquet file" in refusal(path)


def test_a_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "Parquet file" in refusal(tmp_path)


def test_nulls_are_refused_in_one_line(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, user=["a", None, "b", None]))
    assert "has 2 nulls: give a column without nulls" in message


def test_a_column_of_lists_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "user" in refusal(written(tmp_path, user=[["a"], ["b", "c"]]))
