"""Network files: what each key becomes, and every mistake as one line that names file, line and field."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.network_file import NetworkFile, Sink, Source, load, schema
from penstock.config.yaml_lines import parse
from penstock.core.network.model import Box, Input
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "network"

#: The example of the issue that asked for the format, with what it leaves out: I2, and outputs for the last two boxes.
TEXT = """\
name: example
capacity: 500            # cost units per second; on Spark: learned
headroom: 0.9
inputs:
  I1: {rate: 10}         # on Spark also: format, options, schema, arrival
  I2: {rate: 20}
boxes:
  hot:   {op: filter, from: I1, where: "value > 10", cost: 10, selectivity: 0.5}
  all:   {op: union, from: [hot, I2], cost: 5}
  pairs: {op: join, from: [hot, I2], on: key, window: 10 s, cost: 20, selectivity: 0.1}
  scale: {op: map, from: all, select: {value: "value * 2 + 1"}, cost: 1}
  perkey: {op: aggregate, from: all, by: key, window: 10 s, select: {n: "count(1)"}, cost: 3, selectivity: 0.01}
outputs:
  O1: {from: hot, loss_tolerance: [[100, 1.0], [50, 0.7], [0, 0.0]]}
  O2: {from: pairs, value: {column: value, intervals: [{range: [0, 50], utility: 0.2}, \
{range: [50, 100], utility: 1.0}], histogram: [0.4, 0.6]}}
  O3: {from: scale}
  O4: {from: perkey}
"""
SCHEMA = schema()


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "net.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def edited(old: str, new: str) -> str:
    assert TEXT.count(old) == 1, old
    return TEXT.replace(old, new)


def values(text: str) -> Any:
    """As any reader of YAML 1.2 sees them."""
    return parse("net.yaml", text).data


def fits_schema(text: str) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(values(text))


def refusal(path: Path, **how: bool) -> str:
    with pytest.raises(PenstockError) as error:
        load(path, **how)
    text = str(error.value)
    assert "\n" not in text
    return text.replace(f"{path.parent}/", "")


@pytest.fixture
def file(tmp_path: Path) -> NetworkFile:
    return load(written(tmp_path, TEXT))


# What keys become.


def test_the_example_becomes_a_network(file: NetworkFile) -> None:
    assert (file.name, file.capacity, file.headroom, file.limit) == ("example", 500.0, 0.9, 450.0)
    assert file.network.inputs == [Input("I1", 10.0), Input("I2", 20.0)]
    assert file.network.boxes == [
        Box("hot", "filter", ("I1",), 10.0, 0.5, where="value > 10"),
        Box("all", "union", ("hot", "I2"), 5.0),
        Box("pairs", "join", ("hot", "I2"), 20.0, 0.1, on=("key",), window_s=10.0),
        Box("scale", "map", ("all",), 1.0, select={"value": "value * 2 + 1"}),
        Box("perkey", "aggregate", ("all",), 3.0, 0.01, by=("key",), window_s=10.0, select={"n": "count(1)"}),
    ]
    assert [(one.name, one.source) for one in file.network.outputs] == [
        ("O1", "hot"),
        ("O2", "pairs"),
        ("O3", "scale"),
        ("O4", "perkey"),
    ]
    o1, o2, o3, _ = file.network.outputs
    assert o1.loss_tolerance.points == ((100.0, 1.0), (50.0, 0.7), (0.0, 0.0))
    assert o2.value is not None
    assert o2.value.kept(80).sql("value") == "value >= 25"
    assert o2.loss_tolerance.points[1] == pytest.approx((60.0, 0.8824), abs=1e-4)
    assert o3.loss_tolerance.points == ((100.0, 1.0), (0.0, 0.0))


def test_a_join_and_a_union_count_the_rows_of_both_sources(file: NetworkFile) -> None:
    flows = file.network.flows()

    assert flows["pairs->O2"] == pytest.approx(0.1 * (5 + 20))
    assert flows["scale->O3"] == pytest.approx(5 + 20)
    assert file.network.load() == pytest.approx(10 * 10 + 25 * 5 + 25 * 20 + 25 * 1 + 25 * 3)


def test_what_is_left_out_has_a_default(file: NetworkFile, tmp_path: Path) -> None:
    bare = load(written(tmp_path, "inputs: {I: {rate: 1}}\noutputs: {O: {from: I}}\n"))

    assert (bare.name, bare.capacity, bare.headroom, bare.trigger_s) == ("net", None, 0.9, 2.0)
    assert (bare.kind, bare.solver, bare.objective) == ("random", "auto", "sum")
    assert bare.limit is None
    assert bare.excess(1e9) == 0.0
    assert file.excess(640.0) == 190.0
    assert file.missing == frozenset()


def test_what_spark_needs_is_kept(tmp_path: Path) -> None:
    text = """\
    trigger: 500 ms
    solver: exact
    objective: max_min
    inputs:
      clicks:
        format: kafka
        options: {subscribe: clicks, startingOffsets: earliest, failOnDataLoss: false, maxOffsetsPerTrigger: 1000}
        schema: key bigint, value double
        arrival: timestamp
    boxes:
      score: {op: map, from: [clicks], python: "models.click:score", returns: "key bigint, score double"}
      both: {op: union, from: [clicks, score], selectivity: {clicks: 1, score: 0.5}}
    outputs:
      O: {from: both, latency: [[0, 1], [2, 1], [10, 0]], to: {format: parquet, options: {path: out}}}
      P: {from: score}
    """
    file = load(written(tmp_path, text), complete=False, runnable=True)

    assert (file.trigger_s, file.solver, file.objective) == (0.5, "exact", "max_min")
    options = {
        "subscribe": "clicks",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": "1000",
    }
    assert file.sources == {"clicks": Source("kafka", options, "key bigint, value double", "timestamp")}
    assert file.sinks == {"O": Sink(format="parquet", options={"path": "out"}), "P": Sink(format="console")}
    assert file.network.inputs[0].columns == ("key", "value")
    score, both = file.network.boxes
    assert (score.sources, score.python, score.returns) == (
        ("clicks",),
        "models.click:score",
        "key bigint, score double",
    )
    assert both.selectivity_of("score") == 0.5
    assert file.network.outputs[0].latency is not None
    assert file.network.outputs[0].latency.threshold_s == 2.0
    assert fits_schema(text)


def test_statistics_that_are_learned_have_placeholders(tmp_path: Path) -> None:
    for learned in (r"rate: \d+", r", cost: \d+", r", selectivity: [\d.]+", r", histogram: \[[^]]*\]"):
        assert re.search(learned, TEXT)
    text = re.sub(r"rate: \d+|, cost: \d+|, selectivity: [\d.]+|, histogram: \[[^]]*\]", "", TEXT)
    file = load(written(tmp_path, text), complete=False)

    assert file.network.rates == {"I1": 1.0, "I2": 1.0}
    assert {box.name: (box.cost, box.selectivity) for box in file.network.boxes} == {
        "hot": (1.0, 0.5),
        "all": (1.0, 1.0),
        "pairs": (1.0, 1.0),
        "scale": (1.0, 1.0),
        "perkey": (1.0, 1.0),
    }
    assert file.network.outputs[1].loss_tolerance.points[1][0] == 50.0
    assert file.missing == {
        *("inputs.I1.rate", "inputs.I2.rate"),
        *(f"boxes.{name}.cost" for name in ("hot", "all", "pairs", "scale", "perkey")),
        *(f"boxes.{name}.selectivity" for name in ("hot", "pairs", "perkey")),
        "outputs.O2.value.histogram",
    }


def test_shedding_is_semantic_if_every_output_says_which_values_matter(tmp_path: Path) -> None:
    value = "value: {column: v, intervals: [{range: [0, 1], utility: 1}], histogram: [1]}"
    text = f"inputs: {{I: {{rate: 1}}}}\noutputs:\n  O: {{from: I, {value}}}\n  P: {{from: I}}\n"

    assert load(written(tmp_path, text)).kind == "random"
    assert load(written(tmp_path, f"kind: semantic\n{text}")).kind == "semantic"
    assert load(written(tmp_path, text.replace("  P: {from: I}\n", ""))).kind == "semantic"


def test_a_graph_that_is_not_concave_may_be_replaced_by_its_envelope(tmp_path: Path) -> None:
    text = edited("[50, 0.7], [0, 0.0]]", "[50, 0.3], [0, 0.0]], envelope: true")

    assert load(written(tmp_path, text)).network.outputs[0].loss_tolerance.points == ((100.0, 1.0), (0.0, 0.0))


def test_names_may_be_numbers_and_values_may_be_shared(tmp_path: Path) -> None:
    text = """\
    inputs: {1: {rate: 1e3}}
    boxes: {2: {op: filter, from: 1, cost: 1, selectivity: .5}}
    outputs:
      3: {from: 2, loss_tolerance: &graph [[100, 1.0], [0, 0.0]]}
      on: {from: [1], loss_tolerance: *graph}
    """
    network = load(written(tmp_path, text)).network

    assert [arc.name for arc in network.arcs] == ["1->2", "2->3", "1->on"]
    assert network.rates == {"1": 1000.0}
    assert fits_schema(text)


# Mistakes. Where the schema alone can tell, it does.

STRUCTURE: list[tuple[str, str, str, str]] = [
    ("selectivity: 0.5", "selectivity: abc", "boxes.hot.selectivity = 'abc'", "from 0 to 1"),
    ("selectivity: 0.5", "selectivity: 1.5", "boxes.hot.selectivity = 1.5", "from 0 to 1"),
    ("selectivity: 0.5", "selectivty: 0.5", "boxes.hot.selectivty = 0.5", "selectivity comes nearest"),
    ("selectivity: 0.1", "selectivity: {hot: -1, I2: 1}", "boxes.pairs.selectivity", "a number from 0 up"),
    ("op: filter", "op: filtr", "boxes.hot.op = 'filtr'", "filter comes nearest"),
    ("op: filter", "op: [filter]", "boxes.hot.op = ['filter']", "one of filter, map"),
    ("op: filter, ", "", "boxes.hot.op is missing", "one of filter, map, union, join, aggregate"),
    ("op: map", "op: map, where: a", "boxes.scale.where = 'a'", "a key among op, from"),
    ("from: I1, ", "", "boxes.hot.from is missing", "the name of an input or a box"),
    ("from: I1", "from: [I1, I2]", "boxes.hot.from = ['I1', 'I2']", "the name of an input or a box"),
    ("from: I1", "from: true", "boxes.hot.from = True", "the name"),
    ("union, from: [hot, I2]", "union, from: hot", "boxes.all.from = 'hot'", "two or more"),
    ("join, from: [hot, I2]", "join, from: [hot, I2, I1]", "boxes.pairs.from = ['hot', 'I2', 'I1']", "two names"),
    ("cost: 20", "cost: -20", "boxes.pairs.cost = -20", "a number from 0 up"),
    ("cost: 20", "cost: '20'", "boxes.pairs.cost = '20'", "a number from 0 up"),
    ("cost: 20", "cost: true", "boxes.pairs.cost = True", "a number from 0 up"),
    ("cost: 20", "cost: ", "boxes.pairs.cost is empty", "remove the key"),
    ("on: key, window", "on: [], window", "boxes.pairs.on = []", "a column"),
    ("{rate: 10}", "10", "inputs.I1 = 10", "rate, format, options, schema, arrival"),
    ("{rate: 10}", "{rate: fast}", "inputs.I1.rate = 'fast'", "rows a second"),
    ("{rate: 10}", "{rate: 10, format: 3}", "inputs.I1.format = 3", "a format"),
    ("{rate: 10}", "{rate: 10, options: [a]}", "inputs.I1.options = ['a']", "options by name"),
    ("{rate: 10}", "{rate: 10, options: {a: [b]}}", "inputs.I1.options = {'a': ['b']}", "options by name"),
    ("[0.4, 0.6]", "0.4", "outputs.O2.value.histogram = 0.4", "one an interval"),
    ("range: [50, 100]", "range: [50]", "outputs.O2.value.intervals[1].range = [50]", "two numbers"),
    ("utility: 0.2", "utility: 2", "outputs.O2.value.intervals[0].utility = 2", "from 0 to 1"),
    ("column: value, ", "", "outputs.O2.value.column is missing", "the column"),
    ("column: value", "column: value, chunks: 0", "outputs.O2.value.chunks = 0", "from 1 to 1000"),
    ("[50, 0.7]", "[50]", "outputs.O1.loss_tolerance = [[100, 1.0], [50], [0, 0.0]]", "points"),
    ("O3: {from: scale}", "O3: scale", "outputs.O3 = 'scale'", "from, loss_tolerance"),
    ("O3: {from: scale}", "a->b: {from: scale}", "outputs.a->b = 'a->b'", "letters, digits"),
    ("O3: {from: scale}", "O3: {from: scale, to: {format: orc}}", "outputs.O3.to.format = 'orc'", "console, parquet"),
    ("O3: {from: scale}", "O3: {from: scale, to: {}}", "outputs.O3.to.format is missing", "console, parquet"),
    ("capacity: 500", "capacity: 0", "capacity = 0", "above 0"),
    ("headroom: 0.9", "headroom: 90", "headroom = 90", "up to 1"),
    ("headroom: 0.9", "trigger: [2]", "trigger = [2]", "'2 s'"),
    ("headroom: 0.9", "kind: any", "kind = 'any'", "random, semantic"),
    ("headroom: 0.9", "solver: fast", "solver = 'fast'", "auto, greedy, exact"),
    ("headroom: 0.9", "objective: mean", "objective = 'mean'", "sum, balanced, max_min"),
    ("headroom: 0.9", "headrom: 0.9", "headrom = 0.9", "headroom comes nearest"),
    ("name: example", "name: 5", "name = 5", "text"),
    ("name: example", "<<: {a: b}", "<< = {'a': 'b'}", "a key among name, capacity"),
]
MEANING: list[tuple[str, str, str, str]] = [
    ("from: I1", "from: i1", "boxes.hot.from = 'i1'", "I1 comes nearest"),
    ("O3: {from: scale}", "O3: {from: O1}", "outputs.O3.from = 'O1'", "an input or a box"),
    ("from: I1", "from: all", "boxes.hot.from = 'all'", "the cycle is hot -> all -> hot"),
    ("from: I1", "from: hot", "boxes.hot.from = 'hot'", "the cycle is hot -> hot"),
    ("O3: {from: scale}", "hot: {from: scale}", "outputs.hot has the name of boxes.hot", "each name once"),
    ("O3: {from: scale}", "O3: {from: all}", "boxes.scale leads nowhere", "remove it"),
    ("selectivity: 0.1", "selectivity: {hot: 1}", "boxes.pairs.selectivity = {'hot': 1}", "each of hot, I2"),
    ("window: 10 s, cost", "window: soon, cost", "boxes.pairs.window = 'soon'", "'2 s'"),
    ("window: 10 s, cost", "window: -1, cost", "boxes.pairs.window = -1", "'2 s'"),
    ("value > 10", "value >", "boxes.hot.where = 'value >'", "a condition in Spark SQL"),
    ("value > 10", "a; b", "boxes.hot.where = 'a; b'", "a condition in Spark SQL"),
    ("value * 2 + 1", "value * 2 +", "boxes.scale.select.value = 'value * 2 +'", "an expression in Spark SQL"),
    ("select: {value: ", "python: f, select: {value: ", "boxes.scale.python = 'f'", "module:function"),
    ("select: {value: ", "python: 'm:f', select: {value: ", "boxes.scale.python = 'm:f'", "either python or select"),
    ('select: {value: "value * 2 + 1"}', "python: 'm:f'", "boxes.scale.returns is missing", "the columns"),
    ("select: {value: ", "returns: 'a int', select: {value: ", "boxes.scale.returns = 'a int'", "with python"),
    ("column: value", "column: the value", "outputs.O2.value.column = 'the value'", "in backticks"),
    ("[50, 0.7]", "[50, 0.3]", "outputs.O1.loss_tolerance = [", "envelope: true"),
    ("[50, 0.7]", "[50, 1.7]", "outputs.O1.loss_tolerance = [", "a utility from 0 to 1"),
    ("[50, 0.7]", "[150, 0.7]", "outputs.O1.loss_tolerance = [", "from 100 percent down to 0"),
    ("O3: {from: scale}", "O3: {from: scale, latency: [[1, 1], [2, 0]]}", "outputs.O3.latency = [", "a delay of 0 s"),
    ("O3: {from: scale}", "O3: {from: scale, envelope: true}", "outputs.O3.envelope = True", "with loss_tolerance"),
    ("O3: {from: scale}", "O3: {from: scale, to: {format: csv}}", "outputs.O3.to.options.path is missing", "csv"),
    ("O3: {from: scale}", "O3: {from: scale, to: {format: kafka, options: {topic: t}}}", "servers is missing", "kafka"),
    ("[0.4, 0.6]", "[0.4]", "outputs.O2.value.histogram = [0.4]", "2 frequencies"),
    ("[0.4, 0.6]", "[0, 0]", "outputs.O2.value.histogram = [", "not all of them 0"),
    ("range: [50, 100]", "range: [100, 50]", "intervals[1].range = [100, 50]", "the lower one first"),
    ("range: [50, 100]", "range: [60, 100]", "outputs.O2.value.intervals = [", "begins at 50"),
    ("O2: {", "O2: {loss_tolerance: [[100, 1], [0, 0]], ", "O2.loss_tolerance = [[100, 1], [0, 0]]", "either"),
    ("headroom: 0.9", "objective: max_min\nsolver: greedy", "objective = 'max_min'", "solver: exact"),
    ("selectivity: 0.5", "selectivity: .nan", "boxes.hot.selectivity = nan", "from 0 to 1"),
    ("{rate: 10}", "{rate: .inf}", "inputs.I1.rate = inf", "rows a second"),
    ("{rate: 10}", "{rate: 1e999}", "inputs.I1.rate = inf", "rows a second"),
    ("{rate: 10}", "{rate: " + "9" * 400 + "}", "inputs.I1.rate = 999", "rows a second"),
    (", selectivity: 0.5", "", "boxes.hot.selectivity is missing", "penstock run learns it"),
    (", selectivity: 0.1", "", "boxes.pairs.selectivity is missing", "penstock run learns it"),
    (", selectivity: 0.01", "", "boxes.perkey.selectivity is missing", "penstock run learns it"),
    (", cost: 20", "", "boxes.pairs.cost is missing", "penstock run learns it"),
    ("{rate: 10}", "{}", "inputs.I1.rate is missing", "penstock run learns it"),
    (", histogram: [0.4, 0.6]", "", "outputs.O2.value.histogram is missing", "penstock run learns it"),
]
YAML: list[tuple[str, str, str, str]] = [
    ("name: example", "name: [example", "not YAML", "a flow sequence from line 1 on"),
    ("name: example", "\tname: example", "not YAML", "'\\t'"),
    ("name: example", "name: exam\0ple", "not YAML", "'\\x00'"),
    ("name: example", "name: 'example", "not YAML", "a quoted scalar from line 1 on"),
    ("name: example", "name: example\n---", "not YAML", "another document"),
    ("name: example", "name: *example", "not YAML", "undefined alias"),
    ("name: example", "name: &a [*a]", "name[0] contains itself", "alias"),
    ("name: example", "name: !!python/name:os.system x", "name has the tag", "plain values"),
    ("name: example", "name: !!int five", "name is no int", "another one"),
    ("name: example", "[a, b]: c", "has a key that is a list", "a word"),
    ("O3: {from: scale}", "O2: {from: scale}", "outputs.O2 is there twice, first in line 15", "once"),
    ("cost: 20", "cost: 20, cost: 30", "boxes.pairs.cost is there twice, first in line 10", "once"),
]


def line_of_change(text: str) -> int:
    """The first line that is not as it was."""
    return next(number for number, line in enumerate(text.split("\n"), 1) if line not in TEXT.split("\n"))


def identity(value: str) -> str:
    return value[:40]


@pytest.mark.parametrize(("old", "new", "field", "words"), [*STRUCTURE, *MEANING, *YAML], ids=identity)
def test_a_mistake_is_one_line_with_file_line_and_field(
    tmp_path: Path, old: str, new: str, field: str, words: str
) -> None:
    text = edited(old, new)
    told = refusal(written(tmp_path, text))

    assert field in told
    assert words in told
    place = re.match(r"net\.yaml, line (\d+)(?:, | )", told)
    assert place is not None
    if not re.search(r"leads nowhere|another document|from line 1 on", told):
        assert int(place[1]) == line_of_change(text)


@pytest.mark.parametrize(("old", "new"), [case[:2] for case in STRUCTURE], ids=identity)
def test_the_schema_refuses_what_it_can_tell(old: str, new: str) -> None:
    assert not fits_schema(edited(old, new))


@pytest.mark.parametrize(("old", "new"), [case[:2] for case in MEANING if "nan" not in case[1]], ids=identity)
def test_the_schema_lets_the_rest_through_to_the_code(old: str, new: str) -> None:
    data = values(edited(old, new))
    refused = list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(data))

    assert not refused


def test_the_line_is_that_of_the_value_in_block_style_too(tmp_path: Path) -> None:
    output = "    from: I\n    loss_tolerance:\n      - [100, 1]\n      - [0, no]\n"
    text = f"inputs:\n  I:\n    rate: 1\noutputs:\n  O:\n{output}"

    assert refusal(written(tmp_path, text)).startswith("net.yaml, line 7, outputs.O.loss_tolerance = ")


def test_the_first_mistake_in_the_file_is_told(tmp_path: Path) -> None:
    text = edited("{rate: 20}", "{rate: x}").replace("cost: 3", "cost: y").replace("headroom: 0.9", "headroom: z")

    assert refusal(written(tmp_path, text)).startswith("net.yaml, line 3, headroom = 'z'")


def test_a_box_of_the_cycle_is_named_and_none_behind_it(tmp_path: Path) -> None:
    text = """\
    inputs: {I: {rate: 1}}
    boxes:
      a: {op: union, from: [I, c], cost: 1}
      b: {op: map, from: a, cost: 1}
      c: {op: map, from: b, cost: 1}
      behind: {op: map, from: c, cost: 1}
    outputs: {O: {from: behind}}
    """
    told = refusal(written(tmp_path, text))

    place = re.match(r"net.yaml, line (\d), boxes\.([abc])\.from = ", told)
    assert place is not None
    assert "abc".index(place[2]) + 3 == int(place[1])
    assert re.search(r"the cycle is (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)$", told)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "net.yaml is empty: give inputs, boxes and outputs"),
        (b"# nothing yet\n", "net.yaml is empty"),
        (b"- a\n- b\n", "net.yaml, line 1 = ['a', 'b'] is not usable: give a mapping with keys among name"),
        (b"some text", "net.yaml, line 1 = 'some text' is not usable: give a mapping"),
        (b"name: x\nother: \xff\n", "net.yaml, line 2 is not UTF-8"),
        (b"[" * 5000, "nested too deeply"),
        (b"name: x\n", "net.yaml, line 1, inputs is missing: give one input or more"),
        (b"inputs: {}\noutputs: {O: {from: I}}", "net.yaml, line 1, inputs = {} is not usable: give one input or more"),
        (b"inputs: {I: {rate: 1}}\n", "outputs is missing: give one output or more"),
        (b"inputs: [I]\noutputs: {O: {from: I}}", "inputs = ['I'] is not usable"),
    ],
)
def test_content_that_is_no_network_is_told_of(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in refusal(written(tmp_path, content))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "none.yaml' is not usable: give the path of a YAML file; No such file" in refusal(tmp_path / "none.yaml")
    assert "is not usable: give the path of a YAML file; Is a directory" in refusal(tmp_path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    assert load(written(tmp_path, b"\xef\xbb\xbf" + TEXT.encode())).name == "example"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{rate: 10}", "{}", "inputs.I1.format is missing"),
        ('where: "value > 10", ', "", "boxes.hot.where is missing"),
        ("on: key, ", "", "boxes.pairs.on is missing"),
        ("window: 10 s, cost", "cost", "boxes.pairs.window is missing"),
        ("window: 10 s, select", "select", "boxes.perkey.window is missing"),
        ('select: {n: "count(1)"}, ', "", "boxes.perkey.select is missing"),
    ],
)
def test_a_file_that_is_to_run_says_what_boxes_do(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = edited(old, new)
    if "format" not in words:
        text = re.sub(r"rate: \d+", "format: rate", text)

    assert words in refusal(written(tmp_path, text), complete=False, runnable=True)
    load(written(tmp_path, text), complete=False)


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 200),
    st.floats(),
    st.text(max_size=6),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from(["from", "op", "a", "path"]), st.integers(), max_size=2),
)


@given(st.data())
def test_whatever_stands_in_a_file_it_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    values = yaml.safe_load(TEXT.replace("on: key", "'on': key"))
    for _ in range(data.draw(st.integers(1, 3))):
        node = values
        while True:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key = data.draw(st.sampled_from(keys)) if keys else None
            if key is None or not isinstance(node[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
                break
            node = node[key]
        if key is not None:
            node[key] = data.draw(junk)
    path = written(tmp_path_factory.getbasetemp(), yaml.safe_dump(values))
    told = str(path)
    try:
        load(path, complete=data.draw(st.booleans()))
    except PenstockError as error:
        told = str(error)
    assert "\n" not in told
    assert told.startswith(str(path))


# The schema.


def test_the_schema_in_the_documentation_is_that_of_the_code() -> None:
    assert json.loads((ROOT / "docs" / "network.schema.json").read_text()) == SCHEMA, "run scripts/network_schema.py"


def test_the_example_and_the_example_files_fit_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for text in (TEXT, *(path.read_text() for path in EXAMPLES.glob("*.yaml"))):
        jsonschema.validate(values(text), SCHEMA, jsonschema.Draft202012Validator)


def keys_of(part: Any) -> set[str]:
    if isinstance(part, list):
        return set().union(*map(keys_of, part))
    if not isinstance(part, dict):
        return set()
    return set(part.get("properties", ())).union(*map(keys_of, part.values()))


def test_the_page_tells_of_every_key_and_its_network_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "network-files.md").read_text()

    assert {key for key in keys_of(SCHEMA) if f"`{key}`" not in page} == set()
    networks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert networks
    for text in networks:
        load(written(tmp_path, text))


def test_the_errors_on_the_page_are_those_of_the_code(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "network-files.md").read_text()
    shown = re.findall(r"^penstock: (net\.yaml.*)$", page, re.MULTILINE)
    possible = {refusal(written(tmp_path, edited(old, new))) for old, new, *_ in [*STRUCTURE, *MEANING, *YAML]}

    assert len(shown) >= 4
    assert set(shown) <= possible
