"""`penstock roadmap`: the paper's numbers through files, the JSON, the tables and the mistakes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import Command, in_process
from tests.core.networks import figure_4, irregular

from penstock.config.network_file import load
from penstock.core.network import exact, roadmap
from penstock.core.network.model import Network

EXAMPLES = Path(__file__).parents[1] / "examples" / "network"
FOR_SPARK = EXAMPLES / "run.yaml"
FIGURE_4 = EXAMPLES / "figure-4.yaml"

#: The example of the authors' slides.
SLIDES = """\
inputs: {I: {rate: 10}}
boxes:
  op1: {op: filter, from: I, cost: 10, selectivity: 0.5}
  op2: {op: filter, from: op1, cost: 10, selectivity: 0.8}
  op3: {op: map, from: op2, cost: 5, selectivity: 1}
  op4: {op: filter, from: op1, cost: 10, selectivity: 0.9}
outputs:
  O1: {from: op3}
  O2: {from: op4}
"""
#: Figure 8's value graph and histogram, behind a box that costs 10.
FIGURE_8 = """\
capacity: 100
inputs: {I: {rate: 20}}
boxes: {work: {op: map, from: I, cost: 10}}
outputs:
  O:
    from: work
    value:
      column: value
      intervals: [{range: [0, 50], utility: 0.2}, {range: [50, 100], utility: 1.0}]
      histogram: [0.4, 0.6]
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return in_process(monkeypatch, capfd, "roadmap")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "net.yaml"
        path.write_text(text)
        return path

    return written


@pytest.fixture
def answer(run: Command, tmp_path: Path) -> Callable[..., Any]:
    """Runs the command and reads its JSON."""

    def answer(*arguments: str | Path) -> Any:
        path = tmp_path / "roadmap.json"
        result = run(*arguments, "--json", path)
        assert result.status == 0, result.err
        assert result.err == ""
        return json.loads(path.read_text())

    return answer


def as_yaml(network: Network) -> str:
    """A network as a file."""
    boxes = {
        box.name: {"op": box.op, "from": list(box.sources), "cost": box.cost, "selectivity": box.selectivity}
        for box in network.boxes
    }
    outputs = {
        one.name: {"from": one.source, "loss_tolerance": [list(point) for point in one.loss_tolerance.points]}
        for one in network.outputs
    }
    inputs = {one.name: {"rate": one.rate} for one in network.inputs}
    return yaml.safe_dump({"inputs": inputs, "boxes": boxes, "outputs": outputs})


# The paper's numbers.


def test_figure_4_as_a_file_is_the_network_of_the_paper(answer: Callable[..., Any]) -> None:
    found = answer(FIGURE_4)

    assert found["coefficients"]["I1"] == 26.5
    assert found["coefficients"]["I2"] == 18.75
    assert found["coefficients"]["b1->b2"] == 13.0
    assert found["coefficients"]["b1->b4"] == 20.0
    assert found["coefficients"]["b5->b6"] == 12.5
    assert found["load"] == 640.0
    assert found["candidates"] == ["I1", "I2", "b1->b2", "b1->b4"]
    assert load(FIGURE_4).network == figure_4()


def test_the_numbers_of_the_slides(answer: Callable[..., Any], written: Callable[[str], Path]) -> None:
    path = written(SLIDES)
    found = answer(path)

    wanted = {"I": 22.0, "op1->op2": 14.0, "op2->op3": 5.0, "op1->op4": 10.0}
    assert {name: found["coefficients"][name] for name in wanted} == pytest.approx(wanted)
    assert found["load"] == pytest.approx(220.0)


# The JSON.


def test_the_json_has_the_keys_that_were_promised(answer: Callable[..., Any]) -> None:
    found = answer(FIGURE_4)

    assert list(found) == ["coefficients", "load", "candidates", "roadmap", "chosen"]
    assert set(found["coefficients"]) == {"I1", "I2"} | {arc.name for arc in figure_4().arcs}
    road = roadmap.build(figure_4())
    assert len(found["roadmap"]) == len(road)
    for index, entry in enumerate(found["roadmap"]):
        assert list(entry) == ["savings", "drops", "delivered", "utility"]
        wanted = road.entry(index)
        assert entry["savings"] == wanted.savings
        assert entry["delivered"] == wanted.delivered
        assert entry["utility"] == wanted.utility
        assert entry["drops"] == pytest.approx({name: 1.0 - keep for name, keep in wanted.keep.items()})
    assert found["roadmap"][0]["drops"] == {}
    assert found["roadmap"][-1]["delivered"] == {"O1": 0.0, "O2": 0.0}


def saved(found: Any, index: int) -> float:
    return sum(figure_4().rates[name] * one for name, one in found["roadmap"][index]["savings"].items())


def test_the_entry_is_the_first_that_saves_the_excess(
    answer: Callable[..., Any], written: Callable[[str], Path]
) -> None:
    by_capacity = answer(FIGURE_4)  # 640 - 0.9 * 500
    given = answer(FIGURE_4, "--shed", "190")
    more = answer(FIGURE_4, "--shed", "300.5")
    text = FIGURE_4.read_text()
    room = answer(written(text.replace("capacity: 500", "capacity: 5000")))
    unknown = answer(written(text.replace("capacity: 500", "# capacity: 500")))

    assert by_capacity == given
    assert saved(given, given["chosen"]) >= 190.0 > saved(given, given["chosen"] - 1)
    assert saved(more, more["chosen"]) >= 300.5 > saved(more, more["chosen"] - 1)
    assert room["chosen"] == unknown["chosen"] == answer(FIGURE_4, "--shed", "0")["chosen"] == 0


def test_the_exact_optimum_is_beside_the_entry(answer: Callable[..., Any], run: Command) -> None:
    found = answer(FIGURE_4, "--solver", "exact")
    best = exact.best(figure_4(), 450.0)

    assert list(found) == ["coefficients", "load", "candidates", "roadmap", "chosen", "exact"]
    assert found["exact"]["utility"] == pytest.approx(best.utility)
    assert found["exact"]["delivered"] == best.delivered
    assert found["exact"]["drops"] == pytest.approx({name: 1.0 - keep for name, keep in best.keep.items()})
    assert found["exact"]["utility"] >= found["roadmap"][found["chosen"]]["utility"]
    assert "exact optimum" in run(FIGURE_4, "--solver", "exact").out


def test_the_file_chooses_the_solver_and_its_objective(
    answer: Callable[..., Any], written: Callable[[str], Path]
) -> None:
    path = written(f"solver: exact\nobjective: max_min\n{FIGURE_4.read_text()}")
    found = answer(path, "--shed", "500")
    best = exact.best(figure_4(), 140.0, objective="max_min")

    assert found["exact"]["delivered"] == best.delivered
    assert min(best.utilities.values()) > min(exact.best(figure_4(), 140.0).utilities.values())
    assert "exact" not in answer(path, "--solver", "greedy")


def test_an_objective_needs_no_solver_beside_it(answer: Callable[..., Any], written: Callable[[str], Path]) -> None:
    maps = []
    for solver in ("", "solver: exact\n"):
        found = answer(written(f"{solver}objective: balanced\n{FIGURE_4.read_text()}"), "--shed", "500")
        maps.append(found["roadmap"])
    assert maps[0] == maps[1]


def test_placement_and_step_change_the_road_map(answer: Callable[..., Any]) -> None:
    group = answer(FIGURE_4, "--placement", "group")
    coarse = answer(FIGURE_4, "--step", "0.5")

    assert len(group["roadmap"]) == len(roadmap.build(figure_4(), placement="group"))
    assert group["roadmap"] != answer(FIGURE_4, "--placement", "single")["roadmap"]
    assert len(coarse["roadmap"]) == len(roadmap.build(figure_4(), step=0.5))


def test_json_goes_to_standard_output_by_itself() -> None:
    command = [
        sys.executable,
        "-c",
        "from penstock.cli.main import main; main()",
        "roadmap",
        str(FIGURE_4),
        "--json",
        "-",
    ]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    assert json.loads(result.stdout)["load"] == 640.0
    assert re.search(r"Entry \d+ is chosen", result.stderr)


# Drops by value.


@pytest.mark.parametrize(
    ("shed", "kept", "percent", "utility"),
    [("40", "value >= 25", 80.0, 0.9412), ("140", "value > 75", 30.0, 0.4412)],
)
def test_figure_8_as_a_file_drops_by_value(
    answer: Callable[..., Any],
    written: Callable[[str], Path],
    shed: str,
    kept: str,
    percent: float,
    utility: float,
) -> None:
    found = answer(written(FIGURE_8), "--shed", shed, "--solver", "exact")

    entry = found["roadmap"][found["chosen"]]
    assert entry["drops"] == {"I": kept}
    assert entry["delivered"] == pytest.approx({"O": percent})
    assert entry["utility"] == pytest.approx(utility, abs=1e-4)
    assert found["exact"] == {
        "delivered": pytest.approx({"O": percent}),
        "utility": pytest.approx(entry["utility"]),
    }


def test_a_condition_is_told_in_terms_of_the_columns_at_its_place(
    answer: Callable[..., Any], run: Command, written: Callable[[str], Path]
) -> None:
    path = written(FIGURE_8.replace("cost: 10}", 'cost: 10, select: {value: "2 * x"}}'))

    found = answer(path, "--shed", "140")
    assert found["roadmap"][found["chosen"]]["drops"] == {"I": "x > 37.5"}
    assert "at I: keep rows with x > 37.5" in run(path, "--shed", "140").out


def test_the_kind_may_be_chosen(answer: Callable[..., Any], written: Callable[[str], Path]) -> None:
    path = written(FIGURE_8)
    found = answer(path, "--kind", "random", "--shed", "40")

    assert found["roadmap"][found["chosen"]]["drops"] == pytest.approx({"I": 0.2})
    assert answer(path) == answer(path, "--kind", "semantic")


def test_places_without_one_measure_of_value_drop_at_random_beside_those_with_one(answer: Callable[..., Any]) -> None:
    found = answer(EXAMPLES / "example.yaml", "--kind", "semantic")

    drops = found["roadmap"][found["chosen"]]["drops"]
    assert drops["hot->pairs"] == "value > 50"
    assert 0.0 < drops["I2->pairs"] < 1.0


# The tables.


def test_the_tables_say_what_the_json_says(run: Command) -> None:
    result = run(FIGURE_4)

    assert result.status == 0
    assert "load 640 a second, 190 above the 450 that may be used (0.9 of 500)" in result.out
    assert "18.75" in result.out
    assert re.search(r"20 of \d+ entries", result.out)
    assert re.search(r"Entry \d+ is chosen to shed 190; it saves 190\.", result.out)
    assert "at I2: drop 50.76% of the rows" in result.out
    assert "delivered, percent: O1 100, O2 60.52" in result.out


def test_a_load_that_is_not_too_much_and_one_that_is_not_known(run: Command, written: Callable[[str], Path]) -> None:
    text = FIGURE_4.read_text()
    room = run(written(text.replace("capacity: 500", "capacity: 1000")))
    unknown = run(written(text.replace("capacity: 500", "# capacity: 500")))

    assert "260 below the 900 that may be used" in room.out
    assert "there is nothing to shed" in room.out
    assert "the capacity is not known" in unknown.out


def test_more_than_there_is_cannot_be_shed(run: Command) -> None:
    assert "No entry saves as much; this is the last one." in run(FIGURE_4, "--shed", "641").out


def test_long_tables_are_cut(run: Command, written: Callable[[str], Path]) -> None:
    result = run(written(as_yaml(irregular(12, seed=1, sharing=0.3))), "--shed", "100")

    assert "40 of " in result.out
    assert result.out.count("\n") < 120


def test_names_are_printed_as_they_are(run: Command, written: Callable[[str], Path]) -> None:
    path = written("name: '[bold]odd[/bold] :smile:'\ninputs: {I: {rate: 1}}\noutputs: {O: {from: I}}\n")

    assert "[bold]odd[/bold] :smile:: load 0 a second" in run(path).out


@pytest.mark.parametrize("path", sorted(set(EXAMPLES.glob("*.yaml")) - {FOR_SPARK}), ids=lambda path: path.stem)
def test_the_examples_run(run: Command, path: Path) -> None:
    assert run(path).status == 0


def test_the_example_for_spark_leaves_to_spark_what_it_learns(run: Command) -> None:
    result = run(FOR_SPARK)

    assert result.status == 2
    assert "inputs.north.rate is missing" in result.err
    file = load(FOR_SPARK, complete=False, runnable=True)
    assert file.kind == "semantic"
    assert {"boxes.scored.cost", "outputs.trends.value.histogram"} <= file.missing


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("FILE",)),
        ((FIGURE_4, "--kind", "any"), ("--kind", "'any'", "random, semantic")),
        ((FIGURE_4, "--kind", "semantic"), ("--kind", "figure-4.yaml", "value graph")),
        ((FIGURE_4, "--shed", "-1"), ("--shed", "-1", "from 0 up")),
        ((FIGURE_4, "--shed", "nan"), ("--shed", "from 0 up")),
        ((FIGURE_4, "--placement", "both"), ("--placement", "single, group")),
        ((FIGURE_4, "--solver", "fast"), ("--solver", "greedy, exact")),
        ((FIGURE_4, "--step", "0"), ("--step", "0.0001 to 1")),
        ((FIGURE_4, "--step", "2"), ("--step", "0.0001 to 1")),
        ((EXAMPLES / "example.yaml", "--kind", "semantic", "--placement", "group"), ("--placement", "--kind random")),
        ((FIGURE_4, FIGURE_4), ("figure-4.yaml",)),
        (("none.yaml",), ("none.yaml", "No such file")),
    ],
    ids=lambda value: " ".join(str(one)[-12:] for one in value),
)
def test_a_mistake_is_one_line(run: Command, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith("penstock: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err


def test_the_worst_output_counts_for_drops_at_random_alone(run: Command, written: Callable[[str], Path]) -> None:
    result = run(written(f"objective: max_min\n{FIGURE_8}"))

    assert result.status == 2
    assert result.err == "penstock: objective = 'max_min' is not usable: give sum, or --kind random\n"


def test_a_mistake_in_the_file_names_its_line_and_writes_nothing(
    run: Command, written: Callable[[str], Path], tmp_path: Path
) -> None:
    path = written(SLIDES.replace("selectivity: 0.8", "selectivity: abc"))
    result = run(path, "--json", tmp_path / "out.json")

    assert result.status == 2
    assert result.err == (
        f"penstock: {path}, line 4, boxes.op2.selectivity = 'abc' is not usable: "
        "give the share of rows that pass, from 0 to 1\n"
    )
    assert not (tmp_path / "out.json").exists()
