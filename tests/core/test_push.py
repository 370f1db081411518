from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.networks import LINE

from penstock.core.network.intervals import Interval, IntervalSet
from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.push import push
from penstock.core.network.qos import ValueInterval, ValueQos
from penstock.errors import PenstockError

GRAPH = ValueQos("value", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
ROWS = [{"value": value, "other": value - 3.0} for value in np.arange(-12.0, 12.5, 0.5).tolist()]

Row = dict[str, float]


@dataclass(frozen=True)
class Step:
    """A box and what it does to a row, in Python; None: the row does not pass."""

    op: str
    sql: str
    does: Callable[[Row], Row | None]
    column: str = "value"

    def box(self, name: str, source: str) -> Box:
        if self.op == "filter":
            return Box(name, "filter", (source,), 1.0, 0.5, where=self.sql)
        return Box(name, "map", (source,), 1.0, select={self.column: self.sql})


STEPS = [
    Step("map", "value * 2 + 1", lambda row: row | {"value": row["value"] * 2 + 1}),
    Step("map", "(value - 3) / 4", lambda row: row | {"value": (row["value"] - 3) / 4}),
    Step("map", "5 - value", lambda row: row | {"value": 5 - row["value"]}),
    Step("map", "-value", lambda row: row | {"value": -row["value"]}),
    Step("map", "abs(value)", lambda row: row | {"value": abs(row["value"])}),
    Step("map", "value * other", lambda row: row | {"value": row["value"] * row["other"]}),
    Step("map", "other", lambda row: row | {"value": row["other"]}),
    Step("map", "value", lambda row: row | {"other": row["value"]}, column="other"),
    Step("map", "value + other * 2", lambda row: row | {"value": row["value"] + row["other"] * 2}),
    Step("filter", "value > 2", lambda row: row if row["value"] > 2 else None),
    Step("filter", "other <= 4 OR value < -1", lambda row: row if row["other"] <= 4 or row["value"] < -1 else None),
    Step("filter", "value BETWEEN -3 AND 10", lambda row: row if -3 <= row["value"] <= 10 else None),
]


def met(sql: str, row: Row) -> bool:
    """Whether a row meets a condition."""
    for word, same in (("AND", "and"), ("OR", "or"), ("ABS", "abs"), (" = ", " == "), ("false", "False")):
        sql = sql.replace(word, same)
    sql = sql.replace("NOT NULL", "not None").replace("IS", "is")
    return bool(eval(sql, {"abs": abs}, row))  # noqa: S307 - our own words


@given(
    st.lists(st.sampled_from(STEPS), max_size=5),
    st.sampled_from([Interval(-2, 3), Interval(0, 50, low_open=True), Interval(4, np.inf), Interval(-8, -8)]),
)
def test_a_condition_pushed_upstream_keeps_exactly_the_rows_that_are_kept_downstream(
    steps: list[Step], interval: Interval
) -> None:
    names = [f"b{number}" for number in range(len(steps))]
    sources = ["I", *names]
    boxes = [step.box(name, source) for step, name, source in zip(steps, names, sources, strict=False)]
    network = Network([Input("I", 10)], boxes, [Output("O", sources[-1], LINE, GRAPH)])
    kept = IntervalSet.of(interval)
    pushed = push(network, "O", kept)
    assert list(pushed) == ["I", *(arc.name for arc in network.arcs)]
    for number, arc in enumerate(network.arcs):
        for row in ROWS:
            below: Row | None = row
            for step in steps[number:]:
                below = None if below is None else step.does(below)
            wanted = below is not None and bool(kept.has(np.array([below["value"]]))[0])
            found = met(pushed[arc.name].sql(), row)
            # Filters on something else may still stop rows that were let through; those on the value alone do not.
            if below is not None or all("other" not in step.sql and "abs" not in step.sql for step in steps[number:]):
                assert found == wanted


def network_of(*boxes: Box, source: str, inputs: tuple[str, ...] = ("I",)) -> Network:
    return Network([Input(name, 10) for name in inputs], boxes, [Output("O", source, LINE, GRAPH)])


def test_the_example_of_the_paper_is_pushed_through_a_map() -> None:
    network = network_of(Box("scale", "map", ("I",), 1, select={"value": "x * 2 + 1"}), source="scale")
    assert push(network, "O", GRAPH.kept(80))["scale->O"].sql() == "value >= 25"
    assert push(network, "O", GRAPH.kept(80))["I"].sql() == "x >= 12"
    assert push(network, "O", GRAPH.kept(30))["scale->O"].sql() == "value > 75"
    assert push(network, "O", GRAPH.kept(30))["I->scale"].sql() == "x > 37"


def test_a_union_hands_each_source_the_condition_in_its_own_columns() -> None:
    network = network_of(
        Box("named", "map", ("A",), 1, select={"value": "speed / 2"}),
        Box("high", "filter", ("B",), 1, where="value > 60"),
        Box("both", "union", ("named", "high"), 1),
        source="both",
        inputs=("A", "B"),
    )
    pushed = push(network, "O", GRAPH.kept(60))
    assert {place: one.sql() for place, one in pushed.items()} == {
        "A": "speed > 100",
        "B": "value > 60",
        "A->named": "speed > 100",
        "B->high": "value > 60",
        "named->both": "value > 50",
        "high->both": "value > 50",
        "both->O": "value > 50",
    }


def test_two_ways_to_an_output_are_kept_both() -> None:
    network = network_of(
        Box("low", "filter", ("I",), 1, where="value < 10"),
        Box("high", "filter", ("I",), 1, where="value >= 90"),
        Box("both", "union", ("low", "high"), 1),
        source="both",
    )
    assert str(push(network, "O", GRAPH.kept(100))["I"].values) == "(-inf, 10) or [90, inf)"


def test_nothing_is_pushed_through_a_function_or_past_the_columns_of_an_aggregate() -> None:
    function = network_of(Box("f", "map", ("I",), 1, python="m:f", returns="value DOUBLE"), source="f")
    assert set(push(function, "O", GRAPH.kept(80))) == {"f->O"}
    counts = network_of(Box("n", "aggregate", ("I",), 1, by=("key",), select={"value": "count(1)"}), source="n")
    assert set(push(counts, "O", GRAPH.kept(80))) == {"n->O"}
    groups = network_of(Box("n", "aggregate", ("I",), 1, by=("value",), select={"n": "count(1)"}), source="n")
    assert push(groups, "O", GRAPH.kept(80))["I"].sql() == "value >= 25"


@pytest.mark.parametrize(
    ("left", "right", "on", "pushed"),
    [
        (("key", "value"), ("key", "size"), ("key",), {"A"}),
        (("key",), ("key", "value"), ("key",), {"B"}),
        (("key", "value"), (), ("key",), {"A"}),
        ((), ("key",), ("key",), {"A"}),
        ((), (), ("key",), set()),
        ((), (), ("value",), {"A", "B"}),
    ],
)
def test_behind_a_join_a_column_comes_from_the_side_that_has_it(
    left: tuple[str, ...], right: tuple[str, ...], on: tuple[str, ...], pushed: set[str]
) -> None:
    network = Network(
        [Input("A", 1, left), Input("B", 1, right)],
        [Box("pairs", "join", ("A", "B"), 1, on=on)],
        [Output("O", "pairs", LINE, GRAPH)],
    )
    assert set(push(network, "O", GRAPH.kept(80))) - {"A->pairs", "B->pairs"} == pushed | {"pairs->O"}


def test_a_filter_that_reads_a_column_shows_which_side_has_it() -> None:
    network = network_of(
        Box("hot", "filter", ("A",), 1, where="value > 10"),
        Box("pairs", "join", ("hot", "B"), 1, on=("key",)),
        source="pairs",
        inputs=("A", "B"),
    )
    pushed = push(network, "O", GRAPH.kept(100))
    assert pushed["A"].sql() == "value > 10"
    assert "B" not in pushed


def test_an_output_without_a_value_graph_and_bad_sql_are_refused() -> None:
    network = Network([Input("I", 1)], [], [Output("P", "I", LINE)])
    with pytest.raises(PenstockError, match="output = 'P' is not usable: give an output with a value graph"):
        push(network, "P", IntervalSet.everything())
    bad = network_of(Box("scale", "map", ("I",), 1, select={"value": "x *"}), source="scale")
    with pytest.raises(PenstockError, match=r"^select of scale: value = 'x \*' is not usable"):
        push(bad, "O", IntervalSet.everything())
