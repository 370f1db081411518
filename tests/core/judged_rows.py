"""Networks whose rows are judged by value, and rows to send through them: every one is followed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tests.core.networks import LINE

from penstock.core.network.by_value.roadmap import Cell, Judged, bounds, subjects
from penstock.core.network.intervals import Interval, IntervalSet, union
from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import ValueInterval, ValueQos
from penstock.core.network.roadmap import Entry

#: Values evenly from 0 to 100, and a second column that has nothing to do with them.
COUNT = 20_000
EVEN = (np.arange(COUNT) + 0.5) / COUNT * 100.0
COLUMNS = {"value": EVEN, "other": np.random.default_rng(0).permutation(EVEN)}

NOTHING = Entry({}, {}, {}, 0.0)


@dataclass(frozen=True)
class Rows:
    """Rows of one input, with how many a second each stands for."""

    origin: str
    columns: Mapping[str, NDArray[np.float64]]
    weight: NDArray[np.float64]

    @property
    def count(self) -> float:
        return float(self.weight.sum())

    def of(self, sql: str) -> NDArray[np.float64]:
        """An expression over the columns."""
        return np.asarray(eval(sql.replace("ABS", "abs"), {"abs": np.abs}, dict(self.columns)))  # noqa: S307 - ours

    def dropped(self, place: str, entry: Entry) -> "Rows":
        weight, predicate = self.weight * entry.keep.get(place, 1.0), entry.predicates.get(place)
        if predicate is not None:
            weight = weight * predicate.kept[self.origin].has(self.of(predicate.subject))
        return replace(self, weight=weight)

    def through(self, box: Box) -> "Rows":
        made = {name: self.of(sql) for name, sql in box.select.items()}
        weight = self.weight * self.of(box.where) if box.where else self.weight
        return Rows(self.origin, {**self.columns, **made}, weight)


@dataclass(frozen=True)
class Run:
    """What comes of rows under an entry: on each arc, and as work a second."""

    network: Network
    arcs: dict[str, list[Rows]]
    load: float

    def worth(self, output: Output) -> float:
        """What the rows are worth that an output gets."""
        total = 0.0
        for rows in self.arrived(output.name):
            if output.value is None:
                total += rows.count
            else:
                values = rows.columns[output.value.column]
                total += sum(
                    utility * float(rows.weight[graded.has(values)].sum())
                    for graded, utility, _ in output.value.graded()
                )
        return total

    def arrived(self, output: str) -> list[Rows]:
        return self.arcs[self.network.into[output][0].name]

    def count(self, output: str) -> float:
        return sum(rows.count for rows in self.arrived(output))


def run(network: Network, entry: Entry = NOTHING) -> Run:
    """Send all rows through a network, under the drops of an entry."""
    boxes = {box.name: box for box in network.boxes}
    arcs, load = dict[str, list[Rows]](), 0.0
    for name in network.order:
        if network.into[name]:
            leaving = [rows for arc in network.into[name] for rows in arcs[arc.name]]
        else:
            leaving = [Rows(name, COLUMNS, np.full(COUNT, network.rates[name] / COUNT)).dropped(name, entry)]
        if name in boxes:
            load += boxes[name].cost * sum(rows.count for rows in leaving)
            leaving = [rows.through(boxes[name]) for rows in leaving]
        for arc in network.out_of[name]:
            arcs[arc.name] = [rows.dropped(arc.name, entry) for rows in leaving]
    return Run(network, arcs, load)


def measured(network: Network) -> dict[str, Judged]:
    """Cells where judging begins, counted."""
    arcs, found = run(network).arcs, {}
    for place, subject in subjects(network).items():
        coming = arcs[place] if place in arcs else arcs[network.out_of[place][0].name]
        total = sum(rows.count for rows in coming)
        cells = []
        # Where values do not come evenly, cells are made smaller than they need be.
        slices = [IntervalSet.of(Interval(low, low + 1, low_open=True)) for low in range(100)]
        for values in (
            part for one in bounds(network, place) for part in _cut(one, slices if "ABS" in subject else [])
        ):
            share = sum(float(rows.weight[values.has(rows.of(subject))].sum()) for rows in coming) / total
            cells.append(Cell(values, share))
        found[place] = Judged(subject, tuple(cells))
    return found


def _cut(values: IntervalSet, slices: list[IntervalSet]) -> list[IntervalSet]:
    parts = [values & one for one in slices] + [values - union(slices)]
    return [part for part in parts if part.parts]


def graph(low: float, bend: float, ends: tuple[float, float] = (0.0, 100.0), column: str = "value") -> ValueQos:
    """Values up to a bend are worth `low`, those above are worth 1."""
    return ValueQos(column, [ValueInterval(ends[0], bend, low), ValueInterval(bend, ends[1], 1.0)], [0.5, 0.5])


def filter_box(name: str, source: str, where: str, selectivity: float, cost: float = 4.0) -> Box:
    return Box(name, "filter", (source,), cost, selectivity, where=where)


def map_box(name: str, source: str, value: str, cost: float = 4.0) -> Box:
    return Box(name, "map", (source,), cost, select={"value": value})


def chain() -> Network:
    """A filter, and a map with an inverse."""
    boxes = [filter_box("high", "I", "value > 20", 0.8), map_box("scale", "high", "value * 2 + 1")]
    return Network([Input("I", 10)], boxes, [Output("O", "scale", LINE, graph(0.2, 101.0, (1.0, 201.0)))])


def fan_out() -> Network:
    """Two inputs made one and shared by three outputs, one of which likes low values; one map has no inverse."""
    return Network(
        [Input("A", 10), Input("B", 5)],
        [
            filter_box("some", "A", "value > 30", 0.7, cost=2.0),
            Box("moved", "map", ("B",), 1.0, select={"value": "100 - value"}),
            Box("both", "union", ("some", "moved"), 1.0),
            filter_box("high", "both", "value > 20", 11 / 12),
            map_box("scale", "high", "value * 2", cost=9.0),
            map_box("turn", "high", "100 - value", cost=3.0),
        ],
        [
            Output("O", "scale", LINE, graph(0.2, 90.0, (0.0, 200.0))),
            Output("P", "turn", LINE, graph(0.4, 30.0)),
            Output("Q", "high", LINE, graph(0.7, 60.0)),
        ],
    )


def forward() -> Network:
    """A map without an inverse above a split."""
    return Network(
        [Input("I", 10)],
        [
            map_box("far", "I", "abs(value - other)"),
            filter_box("high", "far", "value > 10", 0.81),
            map_box("scale", "high", "value / 2 - 1", cost=7.0),
        ],
        [Output("O", "scale", LINE, graph(0.1, 20.0, (-1.0, 49.0))), Output("P", "high", LINE, graph(0.5, 25.0))],
    )


def mixed() -> Network:
    """One input, two outputs that judge rows by different columns, and one that judges them by number alone."""
    return Network(
        [Input("I", 10)],
        [
            filter_box("high", "I", "value > 10", 0.9),
            map_box("one", "high", "value * 2", cost=6.0),
            map_box("two", "high", "value + 1", cost=2.0),
            map_box("three", "high", "value + 2", cost=5.0),
        ],
        [
            Output("O", "one", LINE, graph(0.2, 120.0, (0.0, 200.0))),
            Output("P", "two", LINE, graph(0.5, 30.0, column="other")),
            Output("Q", "three", LINE),
        ],
    )


def diamond() -> Network:
    """An input that comes to a union in two ways, with a split behind it."""
    return Network(
        [Input("I", 10), Input("J", 3)],
        [
            filter_box("hot", "I", "value > 60", 0.4),
            filter_box("warm", "I", "value > 30", 0.7, cost=2.0),
            Box("all", "union", ("hot", "warm", "J"), 1.0),
            map_box("scale", "all", "value * 2", cost=8.0),
            map_box("same", "all", "value", cost=2.0),
        ],
        [
            Output("O", "scale", LINE, graph(0.3, 160.0, (0.0, 200.0))),
            Output("P", "same", LINE, graph(0.6, 45.0)),
        ],
    )


NETWORKS = {"chain": chain(), "fan_out": fan_out(), "forward": forward(), "mixed": mixed(), "diamond": diamond()}
