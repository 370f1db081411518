"""What people see of a running network: the view in a terminal, the drawing and the page; no Spark is needed."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.core.networks import LINE, figure_4, irregular

from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import LossTolerance
from penstock.views.network import formatting as fmt
from penstock.views.network import terminal
from penstock.views.network.drawing import LETTER, drawing, graph
from penstock.views.network.history import summary
from penstock.views.network.page import page
from penstock.views.network.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

CROSS = "\N{MULTIPLICATION SIGN}"
#: Places in a drawing have one digit behind the point.
ROUNDED = 0.2
NASTY = "<b>$x^&\"'"


def snapshot(network: Network, batch: int = 0, **given: Any) -> Snapshot:
    """Nothing is dropped; a row costs what the network says."""
    flows = network.flows()
    found = Snapshot(
        batch=batch,
        time_s=1000.0 + 2.0 * batch,
        duration_s=1.5,
        rows={name: round(2.0 * rate) for name, rate in (flows | network.rates).items()},
        rates=network.rates,
        flows=flows,
        loads={arc.name: arc.cost * flows[arc.name] for arc in network.arcs},
        load=network.load(),
        capacity=2.0 * network.load(),
        headroom=0.9,
        drops={},
        shed={},
        delivered={one.name: 100.0 for one in network.outputs},
        utilities={one.name: 1.0 for one in network.outputs},
        entries=40,
        rebuilt=1,
    )
    return replace(found, **given)


def named(name: str, boxes: int = 1) -> Network:
    """A chain of boxes, the first of them with this name."""
    names = [name, *(f"box{number}" for number in range(1, boxes))]
    chain = [Box(one, "map", (before,), 1.0) for before, one in zip(["in", *names], names, strict=False)]
    return Network([Input("in", 100)], chain, [Output("out", names[-1], LINE)])


def big(drops: int = 0) -> tuple[Network, Snapshot]:
    network = irregular(7, seed=5, sharing=0.3)
    assert len(network.boxes) >= 60
    places = [one.name for one in network.inputs[:2]] + [arc.name for arc in network.arcs if "union" in arc.target]
    words_of = {place: f"keeps value >= {number} and value < 75" for number, place in enumerate(places[:drops])}
    return network, snapshot(network, drops=words_of)


def shown(network: Network, one: Snapshot | None, width: int = 80, height: int = 40) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(terminal.Panel(network, one))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) < height
    assert all(cell_len(line) <= width for line in lines)
    return lines


def at(lines: list[str], name: str) -> str:
    """The line of the drawing that begins with a name."""
    return next(line for line in lines if line.lstrip("│├└↓… ").startswith(name))


# The terminal


def test_the_view_shows_rates_and_loads_of_arcs_and_a_drop_where_it_stands() -> None:
    network = figure_4()
    lines = shown(network, snapshot(network, drops={"b1->b4": "drops 40%", "I2": "keeps value >= 25"}))
    assert at(lines, "b4 filter").split() == ["└", "b4", "filter", "5", "50.00", CROSS, "drops", "40%"]
    assert at(lines, "I2").endswith(f"{CROSS} keeps value >= 25")
    assert sum(CROSS in line for line in lines) == 2
    assert "see above" in at(lines, "b6 see")


def test_the_view_shows_each_outputs_cursor_the_load_and_alarms() -> None:
    network = figure_4()
    one = snapshot(
        network,
        7,
        load=800.0,
        capacity=500.0,
        delivered={"O1": 50.0, "O2": 100.0},
        utilities={"O1": 0.73, "O2": 1.0},
        alarms=("no [entry] saves enough",),
    )
    lines = shown(network, one)
    first, second = lines[-2:]
    assert "50% utility 0.73" in first
    assert first.index("●") - first.index("━") == 12
    assert "100% utility 1.00" in second
    assert lines[0].startswith("batch 7 in 1.5 s")
    assert "800 due" in lines[1]
    assert "450 allowed (90% of 500)" in lines[1]
    assert lines[2] == "no [entry] saves enough"


def test_alarms_are_yellow_and_drops_red() -> None:
    network = figure_4()
    console = Console(width=80, height=40, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(terminal.Panel(network, snapshot(network, alarms=("too much",), drops={"I1": "drops 9%"})))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[33mtoo much" in text
    assert f"\x1b[1;31m {CROSS} drops 9%" in text


@pytest.mark.parametrize(("width", "height"), [(60, 24), (60, 10), (200, 50), (30, 4), (80, 200)])
def test_a_network_of_60_boxes_fits_the_terminal(width: int, height: int) -> None:
    network, one = big(drops=4)
    lines = shown(network, one, width, height)
    if height == 200:
        assert not [line for line in lines if "not shown" in line]
        assert all(at(lines, box.name) for box in network.boxes)


def test_drops_stay_when_a_big_network_is_cut() -> None:
    network, one = big(drops=6)
    lines = shown(network, one, 100, 24)
    assert sum(f"{CROSS} keeps" in line for line in lines) == 6
    # What lies between an input and an inner arc is cut, so the arc is called by its whole name.
    assert any("->union" in line and f"{CROSS} keeps" in line for line in lines)
    assert not any("drops among them" in line for line in lines)
    assert any("drops among them" in line for line in shown(network, one, 100, 10))


def test_a_network_of_one_box_and_long_names_fit() -> None:
    network = named("the_mean_temperature_of_every_hall_in_the_north_wing_in_the_last_hour")
    lines = shown(network, snapshot(network, drops={"in": "keeps value >= 25 and value < 75 or urgent"}), width=60)
    assert "the_mea" in at(lines, "the_mea")
    assert at(lines, "in").endswith("…")
    assert at(lines, "the_mea").split()[-2:] == ["100", "100"]


def test_before_the_first_batch_the_network_is_drawn_without_numbers() -> None:
    lines = shown(figure_4(), None)
    assert lines[0] == "no batch yet"
    assert at(lines, "b1") == "↓ b1 filter"


def test_an_output_without_rows_says_so() -> None:
    network = figure_4()
    lines = shown(network, snapshot(network, delivered={"O1": 100.0}, utilities={"O1": 1.0}))
    assert lines[-1].split() == ["O2", "no", "rows"]


def test_a_name_cannot_move_the_cursor() -> None:
    network = named("a\x1b[2Jb\n")
    assert "a?[2Jb?" in "".join(shown(network, snapshot(network)))
    assert "\x1b" not in terminal.line(snapshot(network, shed={"a\x1b": 1}))


def test_the_plain_line_says_load_what_is_shed_and_cursors() -> None:
    network = figure_4()
    one = snapshot(
        network,
        3,
        shed={"I2": 12_000, "b1->b4": 5},
        delivered={"O1": 50.0, "O2": 100.0},
        utilities={"O1": 0.73, "O2": 1.0},
        entry=4,
    )
    assert terminal.line(one) == (
        "batch 3 in 1.5 s: 30 rows/s in, load 640 due, 640 done, 1,152 allowed, 12,005 rows shed at I2, b1->b4, "
        "entry 4 of 40, O1 at 50% (utility 0.73)"
    )
    assert terminal.line(snapshot(network)).endswith("no rows shed, entry 0 of 40, outputs whole")


def test_without_a_terminal_there_is_a_line_every_few_seconds_the_last_and_every_alarm_at_once() -> None:
    network = figure_4()
    console = Console(file=io.StringIO(), width=40)
    with terminal.watching(console, network) as update:
        for batch in range(5):  # 2 s apart
            update(snapshot(network, batch, alarms=("[too] much",) if batch in (1, 2) else ()))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split(" in ")[0] for line in lines] == ["batch 0", "batch 1: ALARM: [too] much", "batch 3", "batch 4"]


def test_in_a_terminal_the_last_snapshot_stays() -> None:
    network = figure_4()
    console = Console(file=io.StringIO(), width=80, height=40, force_terminal=True, color_system=None)
    with terminal.watching(console, network) as update:
        update(snapshot(network, 1))
        update(snapshot(network, 2, drops={"b1->b4": "drops 40%"}))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "drops 40%" in text.rsplit("batch 2", 1)[-1]


# The drawing


class Written(NamedTuple):
    """A text or node of a drawing, and where it is."""

    what: str
    left: float
    top: float
    right: float
    bottom: float

    def touches(self, other: Written) -> bool:
        beside = self.left + ROUNDED >= other.right or other.left + ROUNDED >= self.right
        below = self.top + ROUNDED >= other.bottom or other.top + ROUNDED >= self.bottom
        return not beside and not below


def groups(svg: str, kind: str) -> dict[str, ET.Element]:
    root = ET.fromstring(re.sub(r' xmlns="[^"]*"', "", svg))  # noqa: S314 - our own
    return {one.attrib["data-place"]: one for one in root.iter("g") if kind in one.attrib["class"].split()}


def texts(group: ET.Element) -> list[str]:
    return [one.text or "" for one in group.iter("text")]


def everything_written(svg: str) -> list[Written]:
    root = ET.fromstring(re.sub(r' xmlns="[^"]*"', "", svg))  # noqa: S314 - our own
    found = []
    for one in root.iter("text"):
        left, base = float(one.attrib["x"]), float(one.attrib["y"])
        text = one.text or ""
        found.append(Written(text, left, base - 8.0, left + LETTER * cell_len(text), base + 2.0))
    return found


def nodes(svg: str) -> list[Written]:
    found = []
    for kind in ("input", "box", "output"):
        for name, group in groups(svg, kind).items():
            place: Mapping[str, str] = group.findall("rect")[0].attrib
            left, top = float(place["x"]), float(place["y"])
            found.append(Written(name, left, top, left + float(place["width"]), top + float(place["height"])))
    return found


def test_rates_loads_and_drops_are_on_their_arcs() -> None:
    network = figure_4()
    svg = drawing(network, snapshot(network, drops={"b1->b4": "drops 40%", "I2": "keeps value >= 25"}))
    arcs = groups(svg, "arc")
    assert set(arcs) == {arc.name for arc in network.arcs}
    assert texts(arcs["b1->b4"]) == ["5 rows/s", "load 50.00", "drops 40%"]
    assert texts(arcs["b1->b2"]) == ["5 rows/s", "load 50.00"]
    assert texts(groups(svg, "input")["I2"]) == ["I2", "20 rows/s", "keeps value >= 25"]
    every = arcs | groups(svg, "input")
    assert {name for name, group in every.items() if group.findall("circle")} == {"b1->b4", "I2"}


def test_an_output_is_drawn_with_its_cursor() -> None:
    network = figure_4()
    svg = drawing(network, snapshot(network, delivered={"O1": 62.5}, utilities={"O1": 0.88}))
    outputs = groups(svg, "output")
    assert texts(outputs["O1"])[1:] == ["62.5% delivered", "utility 0.88"]
    assert texts(outputs["O2"])[1:] == ["no rows"]


def wild(seed: int) -> tuple[Network, Snapshot]:
    """Sharing, long names, a source taken twice, and a drop everywhere."""
    base = irregular(6, seed, sharing=0.5)
    fan = [Box(f"fan of many {number}" * 2, "map", ("head0.0",), 1.0) for number in range(12)]
    twice = Box("twice", "union", ("head0.0", "head0.0", *(box.name for box in fan)), 1.0)
    far = Output("an output that is called by a very long name", "head0.0", LINE)
    network = Network(base.inputs, [*base.boxes, *fan, twice], [*base.outputs, Output("wide", "twice", LINE), far])
    places = [*network.rates, *(arc.name for arc in network.arcs)]
    return network, snapshot(network, drops=dict.fromkeys(places, "keeps value >= 25 and value < 75 or urgent"))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_drawn_overlaps(seed: int) -> None:
    network, one = wild(seed)
    for state in (one, replace(one, drops={}), None):
        svg = drawing(network, state)
        drawn, written = nodes(svg), everything_written(svg)
        assert len(drawn) == len(network.order)
        assert not [pair for pair in combinations(drawn, 2) if pair[0].touches(pair[1])]
        assert not [pair for pair in combinations(written, 2) if pair[0].touches(pair[1])]
        for text in written:
            around = [node for node in drawn if node.touches(text)]
            assert all(node.left < text.left and text.right < node.right for node in around), text


def test_no_line_goes_through_a_label_or_a_node() -> None:
    network, one = wild(1)
    svg = drawing(network, one)
    solid = [*nodes(svg), *everything_written(svg)]
    for name, group in groups(svg, "arc").items():
        path = group.findall("path")[0].attrib["d"]
        left, line = map(float, re.match(r"M(\S+) ([^C]+)", path).groups())  # type: ignore[union-attr]
        for kind, numbers in re.findall(r"([CH])([^CH]+)", path):
            *_, right = to = [float(number) for number in numbers.split()]
            if kind == "C":
                right = to[-2]
                taken = [one for one in solid if one.left + ROUNDED < right and left + ROUNDED < one.right]
                line = to[-1]
            else:
                thick = Written(name, left, line - 2.5, right, line + 2.5)
                taken = [one for one in solid if one.touches(thick)]
            assert not taken, name
            left = right


def test_a_tree_is_drawn_without_crossings() -> None:
    network = irregular(8, seed=2)
    svg = drawing(network, None)
    tops = {one.what: one.top for one in nodes(svg)}
    for query in range(8):
        heads = [tops[f"head{query}.{branch}"] for branch in range(3)]
        others = [tops[f"head{other}.{branch}"] for other in range(8) if other != query for branch in range(3)]
        assert not [top for top in others if min(heads) < top < max(heads)]


def test_boxes_change_places_so_that_arcs_do_not_cross() -> None:
    boxes = [Box(name, "map", (source,), 1.0) for name, source in (("x", "I1"), ("y", "I1"), ("z", "I2"))]
    network = Network([Input("I1", 1), Input("I2", 1)], boxes, [Output(f"O{name}", name, LINE) for name in "xzy"])
    tops = {one.what: one.top for one in nodes(drawing(network, None))}
    assert not min(tops["x"], tops["y"]) < tops["z"] < max(tops["x"], tops["y"])
    assert not min(tops["Ox"], tops["Oy"]) < tops["Oz"] < max(tops["Ox"], tops["Oy"])


def test_the_qos_graph_has_its_cursor_on_the_curve() -> None:
    output = Output("O", "b", LossTolerance([(100, 1.0), (60, 0.88), (0, 0.0)]))
    svg = graph(output, (60.0, 0.88), (0.0, 0.0))
    root = ET.fromstring(re.sub(r' xmlns="[^"]*"', "", svg))  # noqa: S314 - our own
    points = [tuple(map(float, point.split(","))) for point in root.findall("polyline")[0].attrib["points"].split()]
    worst, cursor = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in root.findall("circle")]
    assert cursor == points[1]
    assert worst == points[2]
    assert "60% delivered, utility 0.88" in svg


# The page and the summary


def run(network: Network) -> list[Snapshot]:
    """Calm, overloaded with drops, calm again; 2 s apart."""
    calm, over = snapshot(network, 0), 2.0 * network.load()
    shedding = {
        "load": over * 2.0,
        "drops": {"I2": "drops 40%"},
        "shed": {"I2": 16},
        "delivered": {"O1": 100.0, "O2": 62.5},
        "utilities": {"O1": 1.0, "O2": 0.8},
    }
    return [
        calm,
        snapshot(network, 1, **shedding),
        snapshot(network, 2, **shedding, alarms=("<late>",)),
        snapshot(network, 3),
    ]


def test_the_summary_counts_rows_and_utility() -> None:
    network = figure_4()
    found = summary(network, run(network))
    assert found["batches"] == 4
    assert found["batches_overloaded"] == 2
    assert found["batches_above_headroom"] == 0
    assert found["highest_load"]["batch"] == 1
    assert found["seconds"] == pytest.approx(7.5)
    assert found["inputs"] == {"I1": {"rows_in": 80}, "I2": {"rows_in": 160}}
    assert found["rows_in"] == 240
    assert found["rows_shed"] == 32
    assert found["places"]["I2"] == {"rows_in": 160, "kept": 128, "shed": 32, "batches": 2, "drop": "drops 40%"}
    assert found["places"]["b1->b4"]["shed"] == 0
    assert found["outputs"]["O2"]["mean_utility"] == pytest.approx(0.9)
    assert found["outputs"]["O2"]["worst_utility"] == 0.8
    assert found["outputs"]["O2"]["last_delivered"] == 100.0
    assert found["worst_utility"] == 0.8
    assert found["road_maps_built"] == 1
    assert found["alarms"] == {"<late>": 1}


def test_rows_in_are_kept_and_shed_at_every_place() -> None:
    network, one = wild(0)
    shed = {place: 5 + number for number, place in enumerate(one.drops)}
    for place, found in summary(network, [replace(one, shed=shed)])["places"].items():
        assert found["rows_in"] == found["kept"] + found["shed"]
        assert found["shed"] == shed[place]


@pytest.mark.parametrize("given", [math.nan, math.inf])
def test_the_summary_is_json_also_when_numbers_are_not_known(given: float) -> None:
    network = figure_4()
    one = snapshot(network, load=given, capacity=given, delivered={}, utilities={"O1": given}, rates={}, flows={})
    json.dumps(summary(network, [one]), allow_nan=False)
    json.dumps(summary(network, []), allow_nan=False)
    assert b"no rows" in page("n", network, [one], "m", "c")
    assert shown(network, one)


def test_the_page_shows_the_peak_the_end_cursors_and_drops() -> None:
    network = figure_4()
    html = page("my network", network, run(network), "a machine", "penstock run x.yaml").decode()
    assert "<h1>Network my network</h1>" in html
    assert "The network at its highest load: batch 1," in html
    assert "The network at the end: batch 3," in html
    peak, end = re.findall(r"<svg.*?</svg>", html, re.DOTALL)[:2]
    assert "62.5% delivered" in peak
    assert "drops 40%" in peak
    assert "drops 40%" not in end
    assert html.count("data:image/png;base64,") == 3
    assert ('<tr><td>I2</td><td>160</td><td>128</td><td>32</td><td>2</td><td class="words">drops 40%</td></tr>') in html
    assert "240 rows came in and 32 were shed, at 1 place." in html
    assert "&lt;late&gt; (in 1 of 4 batches)" in html
    assert "Measured on a machine. Made by <code>penstock run x.yaml</code>." in html


def test_the_page_needs_no_other_file() -> None:
    html = page("n", figure_4(), run(figure_4()), "m", "c").decode().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.findall(r"https?:|<script|<link|url\(", html)


def test_every_name_is_escaped() -> None:
    network = Network(
        [Input(f"in{NASTY}", 100)],
        [Box(NASTY, "map", (f"in{NASTY}",), 1.0)],
        [Output(f"out{NASTY}", NASTY, LINE), Output(f"_{NASTY}", NASTY, LINE)],
    )
    one = snapshot(
        network,
        drops={f"in{NASTY}": NASTY, f"{NASTY}->_{NASTY}": NASTY},
        shed={f"in{NASTY}": 3, f"{NASTY}->_{NASTY}": 1},
        alarms=(NASTY,),
    )
    html = page(NASTY, network, [one, one], NASTY, NASTY).decode()
    assert "<b>" not in html
    assert not re.findall(r'="[^"]*"\'', html)
    assert html.count("&lt;b&gt;$x^&amp;&quot;&#x27;") > 20
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ET.fromstring(svg)  # noqa: S314 - our own


def test_without_a_batch_the_page_shows_the_network() -> None:
    network = figure_4()
    html = page("n", network, [], "m", "c").decode()
    assert "No batch ended." in html
    assert set(groups(re.findall(r"<svg.*?</svg>", html, re.DOTALL)[0], "box")) == {box.name for box in network.boxes}
    assert "data:image/png" not in html
    assert "no rows" in html


def test_a_page_of_60_boxes_names_all_of_them() -> None:
    network, one = big(drops=9)
    html = page("n", network, [one], "m", "c").decode()
    assert all(f'data-place="{box.name}"' in html for box in network.boxes)
    assert "The network at the end, with its highest load: batch 0" in html


def test_names_keep_both_ends_when_they_are_cut() -> None:
    assert fmt.cut("温度温度温度温度", 7) == "温…度"
    for cells in range(12):
        assert cell_len(fmt.cut("a long name 温度", cells)) <= cells
