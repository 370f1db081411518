import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.network.qos import DelayQos, LossTolerance, ValueInterval, ValueQos
from penstock.errors import PenstockError

EXAMPLE = ValueQos("value", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
SHARES = st.floats(0.0, 1.0)
VALUE_GRAPHS = st.lists(st.tuples(SHARES, SHARES, st.floats(0.01, 1.0)), min_size=1, max_size=5).map(
    lambda rows: ValueQos(
        "value",
        [
            ValueInterval(10.0 * n, 10.0 * n + 10.0, 0.001 + 0.999 * low, 0.001 + 0.999 * high)
            for n, (low, high, _) in enumerate(rows)
        ],
        [share for _, _, share in rows],
        chunks=4,
    )
)


def test_the_example_of_the_paper() -> None:
    points = EXAMPLE.loss_tolerance().points
    assert [percent for percent, _ in points] == [100.0, 60.0, 0.0]
    assert points[1][1] == pytest.approx(0.88, abs=0.005)
    assert EXAMPLE.kept(80.0).sql("value") == "value >= 25"
    assert EXAMPLE.kept(30.0).sql("value") == "value > 75"
    assert EXAMPLE.kept(60.0).sql("value") == "value > 50"
    assert EXAMPLE.kept(100.0).sql("value") == "value IS NOT NULL"
    assert EXAMPLE.kept(0.0).sql("value") == "false"


@given(VALUE_GRAPHS)
def test_a_derived_graph_is_concave_and_runs_from_everything_to_nothing(graph: ValueQos) -> None:
    tolerance = graph.loss_tolerance()
    assert tolerance.utility(100.0) == 1.0
    assert tolerance.utility(0.0) == 0.0
    losses = [tolerance.loss_per_percent(percent) for percent in np.linspace(100.0, 1.0, 50)]
    assert all(after >= before - 1e-6 for before, after in pairwise(losses))


@given(VALUE_GRAPHS, st.floats(0.0, 100.0))
def test_the_values_kept_are_as_many_as_asked_for_and_worth_what_the_graph_says(
    graph: ValueQos, percent: float
) -> None:
    kept = graph.kept(percent)
    rows = utility = whole = 0.0
    for chunk in graph.order:
        values = chunk.values.low + (np.arange(4000) + 0.5) / 4000 * (chunk.values.high - chunk.values.low)
        share = float(kept.has(values).mean())
        rows += share * chunk.share
        utility += share * chunk.share * chunk.utility
        whole += chunk.share * chunk.utility
    assert 100.0 * rows == pytest.approx(percent, abs=0.1)
    assert utility / whole == pytest.approx(graph.loss_tolerance().utility(percent), abs=0.003)


@given(VALUE_GRAPHS, st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_who_keeps_less_keeps_a_subset(graph: ValueQos, one: float, two: float) -> None:
    few, many = graph.kept(min(one, two)), graph.kept(max(one, two))
    values = np.linspace(-5.0, 60.0, 1301)
    assert not np.any(few.has(values) & ~many.has(values))


def test_a_utility_that_changes_is_cut_into_chunks() -> None:
    graph = ValueQos("value", [ValueInterval(0, 100, 1.0, 0.0)], [1.0], chunks=4)
    assert [chunk.utility for chunk in graph.order] == [0.125, 0.375, 0.625, 0.875]
    assert graph.kept(75.0).sql("value") == "value <= 75"


@given(st.lists(st.tuples(st.integers(1, 99), st.floats(0.0, 1.0)), max_size=6, unique_by=lambda point: point[0]))
def test_an_envelope_is_the_least_concave_graph_above(middle: list[tuple[int, float]]) -> None:
    points = [(100, 1.0), *sorted(middle, reverse=True), (0, 0.0)]
    falling = [(percent, min(1.0, max(u for p, u in points if p <= percent))) for percent, _ in points]
    graph = LossTolerance.envelope(falling)
    for percent, utility in falling:
        assert graph.utility(percent) >= utility - 1e-9
    assert set(graph.points) <= {(float(p), u) for p, u in falling}


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([(100, 1.0), (40, 0.9), (50, 0.5), (0, 0.0)], "give points from 100 percent down to 0"),
        ([(90, 1.0), (0, 0.0)], "give points from 100 percent down to 0"),
        ([(100, 0.5), (0, 0.9)], "give utilities that do not rise as rows are lost"),
        ([(100, 1.0), (50, 0.2), (0, 0.0)], "give a concave graph"),
        ([(100, 1.5), (0, 0.0)], "give two points or more, each with a utility from 0 to 1"),
        ([(100, 1.0)], "give two points or more"),
        ([(100, "high"), (0, 0.0)], "give two points or more"),
    ],
)
def test_what_is_no_loss_tolerance_is_refused(points: list[tuple[float, float]], line: str) -> None:
    with pytest.raises(PenstockError, match=f"loss_tolerance = .* is not usable: {line}"):
        LossTolerance(points)


@pytest.mark.parametrize(
    ("intervals", "histogram", "line"),
    [
        ([ValueInterval(0, 50, 0.2)], [0.4, 0.6], "histogram = .* give 1 frequencies, one an interval"),
        ([ValueInterval(0, 50, 0.2)], [-1.0], "give frequencies from 0 up, not all of them 0"),
        ([ValueInterval(0, 50, 0.2), ValueInterval(60, 70, 1.0)], [1, 1], "give a range that begins at 50"),
        ([ValueInterval(0, 50, 2.0)], [1], "utility = 2.0 is not usable: give a utility from 0 to 1"),
        ([ValueInterval(0, 50, 0.0)], [1], "give a utility above 0 for values that occur"),
        ([ValueInterval(50, 0, 0.5)], [1], "give two numbers, the lower one first"),
    ],
)
def test_what_is_no_value_graph_is_refused(intervals: list[ValueInterval], histogram: list[float], line: str) -> None:
    with pytest.raises(PenstockError, match=line):
        ValueQos("value", intervals, histogram)


def test_a_delay_graph_falls_from_its_threshold_on() -> None:
    graph = DelayQos([(0, 1.0), (1, 1.0), (3, 0.5), (4, 0.0)])
    assert graph.threshold_s == 1.0
    assert [graph.utility(delay) for delay in (0.0, 1.0, 2.0, 3.0, 9.0)] == [1.0, 1.0, 0.75, 0.5, 0.0]
    for points in ([(1, 1.0), (2, 0.5)], [(0, 0.5), (1, 0.9)], [(0, 1.0), (0, 0.5)]):
        with pytest.raises(PenstockError, match=r"latency = .* is not usable: give points from a delay of 0 s on"):
            DelayQos(points)
    assert LossTolerance([(100, 1.0), (0, 0.5)]).loss_per_percent(0.0) == math.inf
