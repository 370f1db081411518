import pytest
from tests.core.networks import LINE, figure_4, irregular

from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.origins import by_origin
from penstock.errors import PenstockError

I1 = Input("I1", 10)
HOT = Box("hot", "filter", ("I1",), 10, 0.5)
O1 = Output("O1", "hot", LINE)


def test_the_coefficients_of_the_papers_example() -> None:
    network = figure_4()
    assert network.coefficients["I1"] == pytest.approx(26.5)
    assert network.coefficients["I2"] == pytest.approx(18.75)
    assert network.load({"I1": 10, "I2": 20}) == pytest.approx(640.0)


def test_the_numbers_of_the_authors_slides() -> None:
    network = Network(
        [Input("I", 10)],
        [
            Box("op1", "filter", ("I",), 10, 0.5),
            Box("op2", "filter", ("op1",), 10, 0.8),
            Box("op3", "map", ("op2",), 5),
            Box("op4", "filter", ("op1",), 10, 0.9),
        ],
        [Output("O1", "op3", LINE), Output("O2", "op4", LINE)],
    )
    found = network.coefficients
    assert [found[name] for name in ("I", "op1->op2", "op2->op3", "op1->op4")] == [22.0, 14.0, 5.0, 10.0]
    assert network.load() == 220.0


@pytest.mark.parametrize("seed", range(3))
def test_the_load_is_the_work_of_all_rows_on_all_arcs(seed: int) -> None:
    network = irregular(8, seed, sharing=0.3)
    flows = network.flows()
    assert network.load() == pytest.approx(sum(arc.cost * flows[arc.name] for arc in network.arcs))


@pytest.mark.parametrize("seed", range(3))
def test_a_network_taken_apart_by_origin_does_the_same_work(seed: int) -> None:
    network = irregular(8, seed, sharing=0.3)
    apart = by_origin(network)
    assert apart.load() == pytest.approx(network.load())
    for one in network.inputs:
        assert apart.coefficients[one.name] == pytest.approx(network.coefficients[one.name])
    for output in network.outputs:
        arc, copy = network.into[output.name][0].name, apart.into[output.name][0].name
        assert apart.flows()[copy] == pytest.approx(network.flows()[arc])


def test_a_join_with_itself_has_two_arcs() -> None:
    network = Network([I1], [Box("pairs", "join", ("I1", "I1"), 3, 0.1)], [Output("O1", "pairs", LINE)])
    assert [arc.name for arc in network.arcs] == ["I1->pairs", "I1->pairs#2", "pairs->O1"]
    assert network.coefficients["I1"] == 6.0


@pytest.mark.parametrize(
    ("inputs", "boxes", "outputs", "line"),
    [
        ([I1, I1], [HOT], [O1], "name = 'I1' is not usable: give each name once"),
        ([I1], [HOT], [], "outputs are missing"),
        ([I1], [HOT, Box("cold", "filter", ("I1",), 1)], [O1], "from = 'cold' is not usable: give it as a source"),
        (
            [I1],
            [Box("hot", "filter", ("I9",), 1)],
            [O1],
            "from of hot = 'I9' is not usable: give an input or a box: I1",
        ),
        ([I1], [HOT], [Output("O1", "warm", LINE)], "from of O1 = 'warm' is not usable"),
        ([I1], [Box("hot", "split", ("I1",), 1)], [O1], "op of hot = 'split' is not usable: give one of filter"),  # type: ignore[arg-type]
        ([I1], [Box("hot", "union", ("I1",), 1)], [O1], r"from of hot = \['I1'\] is not usable: give 2 or more"),
        ([I1], [Box("hot", "filter", ("I1",), -1)], [O1], "cost of hot = -1 is not usable: give a number from 0 up"),
        ([I1], [Box("hot", "filter", ("I1",), 1, None)], [O1], "selectivity of hot = None"),  # type: ignore[arg-type]
        ([Input("I1", float("nan"))], [HOT], [O1], "rate of I1 = nan"),
        (
            [I1],
            [Box("a", "union", ("I1", "b"), 1), Box("b", "map", ("a",), 1)],
            [Output("O1", "b", LINE)],
            "the network has a cycle through a, b, O1",
        ),
        (
            [I1, Input("I2", 1)],
            [Box("all", "union", ("I1", "I2"), 1, {"I1": 0.5})],
            [Output("O1", "all", LINE)],
            "selectivity of all = .* give one for each of I1, I2",
        ),
    ],
)
def test_what_is_no_network_is_refused(inputs: list[Input], boxes: list[Box], outputs: list[Output], line: str) -> None:
    with pytest.raises(PenstockError, match=line):
        Network(inputs, boxes, outputs)
