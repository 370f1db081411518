from pathlib import Path
from typing import NamedTuple

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
    mention_costs,
    mentions,
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


class Phase(NamedTuple):
    keys: np.ndarray
    costs_s: np.ndarray
    gap_s: float

    @property
    def load(self) -> float:
        """Work offered per second; 1 is the capacity."""
        return float(self.costs_s.mean() / self.gap_s)

    @property
    def counts(self) -> np.ndarray:
        return np.bincount(self.keys, minlength=ITEMS)

    @property
    def cost_of(self) -> dict[int, float]:
        return dict(zip(self.keys.tolist(), self.costs_s.tolist(), strict=True))


@pytest.fixture(scope="module")
def figure_6() -> dict[str, Phase]:
    stream = phases(3, phase_rows=PHASE_ROWS)
    gaps_s = np.diff(stream.arrivals_s).tolist()
    parts = {}
    for number, name in enumerate("ABCDEFG"):
        part = slice(number * PHASE_ROWS, (number + 1) * PHASE_ROWS)
        gap_s = gaps_s[part.start]
        assert gaps_s[part] == pytest.approx([gap_s] * len(gaps_s[part]))
        parts[name] = Phase(stream.keys[part], stream.costs_s[part], gap_s)
    return parts


def test_figure_6_has_seven_phases_of_twenty_thousand_rows() -> None:
    assert phases(1).rows == 140_000


@pytest.mark.parametrize(
    ("name", "load"), [("A", 1.0), ("B", 2.0), ("C", 1.0), ("E", 1.0 / 1.5), ("F", 2.0), ("G", 1.0)]
)
def test_figure_6_each_phase_offers_the_load_the_paper_describes(
    figure_6: dict[str, Phase], name: str, load: float
) -> None:
    assert figure_6[name].load == pytest.approx(load, rel=0.05)


def test_figure_6_rates_change_as_the_paper_describes(figure_6: dict[str, Phase]) -> None:
    gaps_s = {name: phase.gap_s for name, phase in figure_6.items()}
    assert gaps_s["A"] == pytest.approx(2.0 * gaps_s["B"])
    assert gaps_s["A"] == pytest.approx(gaps_s["C"]) == pytest.approx(gaps_s["D"]) == pytest.approx(gaps_s["G"])
    assert gaps_s["E"] == pytest.approx(1.5 * gaps_s["F"])


def test_figure_6_phase_d_swaps_the_most_frequent_item_with_one_that_costs_most(figure_6: dict[str, Phase]) -> None:
    before = figure_6["C"].counts
    assert before.argmax() == 0
    swapped = int(figure_6["D"].counts.argmax())
    assert swapped != 0
    assert figure_6["D"].cost_of[swapped] == pytest.approx(0.0064)
    for name in "DEF":
        counts = figure_6[name].counts
        assert counts[swapped] == pytest.approx(before[0], rel=0.1)
        assert counts[0] < before[0] / 50
    assert figure_6["D"].load > 1.1 * figure_6["C"].load


def test_figure_6_phase_f_doubles_every_cost_and_g_takes_it_back(figure_6: dict[str, Phase]) -> None:
    a, e, f, g = (figure_6[name].cost_of for name in "AEFG")
    assert [f[key] for key in f.keys() & e] == [2.0 * e[key] for key in f.keys() & e]
    assert [f[key] for key in f.keys() & g] == [2.0 * g[key] for key in f.keys() & g]
    assert [a[key] for key in a.keys() & g] == [g[key] for key in a.keys() & g]


def test_figure_6_phase_g_is_phase_a_again_in_distribution_but_not_row_by_row(figure_6: dict[str, Phase]) -> None:
    a, g = figure_6["A"], figure_6["G"]
    assert np.abs(a.counts - g.counts).max() < 5 * np.sqrt(2 * a.counts.max())
    assert not np.array_equal(a.keys, g.keys)


def test_phases_are_repeatable_by_seed() -> None:
    stream, again, other = (phases(seed, phase_rows=100) for seed in (3, 3, 4))
    assert np.array_equal(stream.keys, again.keys)
    assert np.array_equal(stream.costs_s, again.costs_s)
    assert np.array_equal(stream.arrivals_s, again.arrivals_s)
    assert not np.array_equal(stream.keys, other.keys)


# Section 5.3.


def test_mentions_cost_what_the_paper_states_of_its_tweets() -> None:
    keys, costs_s, items = mentions(1, rows=50_000)
    assert costs_s.mean() == pytest.approx(0.0097, rel=0.05)
    assert np.mean(np.isclose(costs_s, 0.001)) == pytest.approx(0.36, abs=0.02)
    assert costs_s.max() <= 0.152 + 1e-9
    assert np.array_equal(np.unique(keys), np.arange(items))


def test_mentions_of_one_key_all_cost_the_same() -> None:
    """What a row costs depends on its key alone (section 2); only then can a shedder learn it."""
    keys, costs_s, items = mentions(1, rows=50_000)
    least_s, most_s = np.full(items, np.inf), np.zeros(items)
    np.minimum.at(least_s, keys, costs_s)
    np.maximum.at(most_s, keys, costs_s)
    assert np.sum(most_s > least_s + 1e-9) == 0


def test_mention_costs_follow_the_stated_shares() -> None:
    costs_s = mention_costs(50_000, seed=1)
    for cost_s, share in ((0.001, 0.632), (0.005, 0.213), (0.025, 0.155)):
        assert np.mean(costs_s == cost_s) == pytest.approx(share, abs=0.01)


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
    path = tmp_path / "stream.txt"
    path.write_text("user,amount\n" * 10)
    assert "give a readable Parquet file (CSV is named .csv or .csv.gz); reading failed:" in refusal(path)


def test_a_csv_file_is_read_by_its_line_of_names(tmp_path: Path) -> None:
    path = tmp_path / "stream.csv"
    path.write_text("user,amount\na,1\nb,2\na,3\n")
    keys, items = read_keys(path, "user")
    assert (keys.tolist(), items) == ([0, 1, 0], 2)
    assert refusal(path, "usr").endswith(": user, amount")
    assert refusal(tmp_path / "none.csv").endswith("is not usable: give an existing CSV file")
    path.write_text("user,amount\na\n")
    assert "give a readable CSV file (Parquet has another name than .csv or .csv.gz); reading failed:" in refusal(path)


def test_a_cut_off_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, user=["a", "b", "c"])
    path.write_bytes(path.read_bytes()[:-10])
    assert "give a readable Parquet file" in refusal(path)


def test_a_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "Parquet file" in refusal(tmp_path)


def test_a_recording_without_rows_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "has no rows" in refusal(written(tmp_path, user=pa.array([], pa.string())))


def test_nulls_are_refused_in_one_line(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, user=["a", None, "b", None]))
    assert "has 2 nulls: give a column without nulls" in message


def test_a_column_of_lists_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "user" in refusal(written(tmp_path, user=[["a"], ["b", "c"]]))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([1, 2], [1.0], [0.0, 1.0]), "one length"),
        (([1, 2], [1.0, -1.0], [0.0, 1.0]), "costs_s"),
        (([1, 2], [1.0, np.nan], [0.0, 1.0]), "costs_s"),
        (([1, 2], [1.0, 1.0], [1.0, 0.0]), "arrivals_s"),
        (([1, 2], [1.0, 1.0], [0.0, np.inf]), "arrivals_s"),
    ],
)
def test_a_stream_that_cannot_be_run_is_refused_in_one_line(columns: tuple[list[float], ...], words: str) -> None:
    with pytest.raises(PenstockError, match=words):
        Stream(*(np.array(column) for column in columns), items=3)
