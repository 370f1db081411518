import numpy as np
import pytest
from tests.core.networks import example_with_values

from penstock.core.network.by_value.histograms import Histograms, share
from penstock.core.network.intervals import Interval, IntervalSet

STEPS = np.linspace(0.0, 1.0, 51)


def quantiles(values: np.ndarray) -> list[float]:
    return [float(value) for value in np.quantile(values, STEPS, method="lower")]


def test_shares_are_those_of_the_rows() -> None:
    values = np.random.default_rng(1).gamma(2.0, 20.0, 20_000)
    for low, high in ((0.0, 10.0), (10.0, 50.0), (33.0, 34.0), (50.0, 500.0)):
        inside = IntervalSet.of(Interval(low, high, low_open=True))
        assert share(inside, quantiles(values)) == pytest.approx(np.mean((values > low) & (values <= high)), abs=0.01)


def test_lumps_of_equal_values_count_whole() -> None:
    values = np.concatenate([np.zeros(500), np.full(300, 7.0), np.linspace(8.0, 9.0, 200)])
    assert share(IntervalSet.of(Interval(0.0, 0.0)), quantiles(values)) == pytest.approx(0.5, abs=0.03)
    assert share(IntervalSet.of(Interval(7.0, 7.0)), quantiles(values)) == pytest.approx(0.3, abs=0.03)
    assert share(IntervalSet.of(Interval(0.0, 7.0, low_open=True)), quantiles(values)) == pytest.approx(0.3, abs=0.03)


def test_a_set_and_its_complement_make_a_whole() -> None:
    values = quantiles(np.random.default_rng(2).normal(size=1000).round(1))
    for cut in (-1.0, 0.0, 0.05, 3.0):
        low = IntervalSet.of(Interval(-np.inf, cut))
        assert share(low, values) + share(~low, values) == pytest.approx(1.0)


def test_cells_follow_what_was_measured() -> None:
    known = Histograms(example_with_values())
    (place,) = known.subjects
    assert not known.moved()
    before = known.judged()[place]
    known.learn({place: quantiles(np.random.default_rng(3).uniform(80.0, 100.0, 5000))})
    assert known.moved()
    after = known.judged()[place]
    assert not known.moved()
    assert sum(cell.share for cell in after.cells) == pytest.approx(1.0)
    low = IntervalSet.of(Interval(-np.inf, 75.0))
    assert sum(cell.share for cell in before.cells if not (cell.values - low).parts) > 0.3
    assert sum(cell.share for cell in after.cells if not (cell.values - low).parts) == pytest.approx(0.0, abs=1e-9)


def test_no_values_teach_nothing() -> None:
    known = Histograms(example_with_values())
    (place,) = known.subjects
    before = known.judged()
    for nothing in ([], [1.0], [float("nan")] * 51, [float("-inf")] * 51):
        known.learn({place: nothing})
    known.learn({"elsewhere": [0.0, 1.0]})
    assert known.judged() == before
