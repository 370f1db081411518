"""Query networks over rows with one value each, computed exactly: no row is drawn, every value is followed.

Inputs bring whole values from 0 to 100, each as often as any other. A filter passes values above its constant. So
an arc carries rows a second by input and value; a random drop scales them, a semantic drop removes values.
A whole value represents the numbers up to 0.5 away from it, so that a cut can take a part of its rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.core.network.by_value.cells import Cell, Hull, Judged
from penstock.core.network.by_value.roadmap import SemanticRoadMap, bounds, build, subjects
from penstock.core.network.intervals import IntervalSet
from penstock.core.network.model import Box, Network
from penstock.core.network.origins import by_origin
from penstock.core.network.qos import ValueInterval, ValueQos
from penstock.core.network.roadmap import Entry

VALUES = np.arange(101.0)

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """The load and output of a network under drops."""

    load: float  #: work a second
    delivered: dict[str, Vector]  #: rows a second at each output, by value


@dataclass(frozen=True)
class ValueNetwork:
    """A network whose filters are `value > constant`."""

    network: Network  #: its shape, with costs; selectivities follow from the constants
    above: Mapping[str, float]  #: the constant of each filter
    low_utility: Mapping[str, float]  #: for each output, the utility of values up to `bend`; others have utility 1
    bend: float = 50.0  #: where the second interval of values begins

    def run(self, rate: float, keep: Mapping[str, Vector | float] | None = None) -> Outcome:
        """All inputs bring `rate` rows a second; places in `keep` pass a share.

        A place has one share for all rows, one for each value, or one for each input and value.
        """
        kept = keep or {}
        network = self.network
        position = {one.name: number for number, one in enumerate(network.inputs)}
        flow: dict[str, Vector] = {}
        load = 0.0
        delivered = {}
        for name in network.order:
            arcs = network.into[name]
            if not arcs:
                leaving = np.zeros((len(position), len(VALUES)))
                leaving[position[name]] = rate / len(VALUES)
            else:
                leaving = np.sum([flow[arc.name] for arc in arcs], axis=0)
                load += arcs[0].cost * float(leaving.sum())
                if name in self.above:
                    leaving = leaving * (self.above[name] < VALUES)
            leaving = leaving * kept.get(name, 1.0)
            for arc in network.out_of[name]:
                flow[arc.name] = leaving * kept.get(arc.name, 1.0)
            if not network.out_of[name]:
                delivered[name] = leaving.sum(axis=0)
        return Outcome(load, delivered)

    @cached_property
    def full(self) -> dict[str, Vector]:
        """Rows a second at each output without drops, by value, at a rate of one."""
        return self.run(1.0).delivered

    @cached_property
    def graphs(self) -> dict[str, ValueQos]:
        """The utility of each output's values: a histogram with one cell per value."""
        ends = [-0.5, *(VALUES + 0.5)]
        found = {}
        for name, low in self.low_utility.items():
            utilities = np.where(self.bend >= VALUES, low, 1.0).tolist()
            cells = [ValueInterval(*cell) for cell in zip(ends, ends[1:], utilities, strict=False)]
            found[name] = ValueQos("value", cells, self.full[name].tolist())
        return found

    @cached_property
    def by_origin(self) -> Network:
        """The network with the selectivity of filters for each input, and the loss tolerance of each output."""
        passed: dict[str, dict[str, float]] = {one.name: {one.name: -1.0} for one in self.network.inputs}
        for name in self.network.order:
            if self.network.into[name]:
                before = [passed[arc.source] for arc in self.network.into[name]]
                own = {origin: above for one in before for origin, above in one.items()}
                limit = self.above.get(name, -1.0)
                passed[name] = {origin: max(above, limit) for origin, above in own.items()}

        def selectivity(box: Box, origin: str) -> float:
            before = next(passed[source][origin] for source in box.sources if origin in passed[source])
            return float(np.sum(passed[box.name][origin] < VALUES)) / max(float(np.sum(before < VALUES)), 1.0)

        outputs = [replace(one, loss_tolerance=self.graphs[one.name].loss_tolerance()) for one in self.network.outputs]
        return by_origin(Network(self.network.inputs, self.network.boxes, outputs), selectivity)

    @cached_property
    def with_values(self) -> Network:
        """The network with its filters' conditions and the utility of the outputs' values."""
        boxes = [
            replace(box, where=f"value > {self.above[box.name] + 0.5}") if box.name in self.above else box
            for box in self.network.boxes
        ]
        low, bend, high = VALUES[0] - 0.5, self.bend + 0.5, VALUES[-1] + 0.5
        outputs = []
        for one in self.network.outputs:
            parts = [ValueInterval(low, bend, self.low_utility[one.name]), ValueInterval(bend, high, 1.0)]
            rows = self.full[one.name]
            counted = [float(rows[self.bend >= VALUES].sum()), float(rows[self.bend < VALUES].sum())]
            graph = ValueQos("value", parts, counted)
            outputs.append(replace(one, loss_tolerance=graph.loss_tolerance(), value=graph))
        return Network(self.network.inputs, boxes, outputs)

    def semantic_map(self, step: float = 0.02) -> SemanticRoadMap:
        """The road map of drops by value, with all values as they come.

        >>> from penstock.sim.aurora.networks import trees
        >>> made = trees(np.random.default_rng(0))
        >>> roadmap, load = made.semantic_map(), made.run(1.0).load
        >>> rates = {one.name: 2.0 for one in made.network.inputs}  # twice as much as it can do
        >>> entry = roadmap.entry(roadmap.find(load, rates))
        >>> made.run(2.0, made.kept(entry)).load <= load * (1.0 + 1e-9)
        True
        """
        network, hull = self.with_values, Hull(VALUES[0] - 0.5, VALUES[-1] + 0.5)
        judged = {
            place: Judged(
                subject, tuple(Cell(values, hull.length(values) / len(VALUES)) for values in bounds(network, place))
            )
            for place, subject in subjects(network).items()
        }
        return build(network, judged=judged, step=step)

    def kept(self, entry: Entry) -> dict[str, Vector | float]:
        """Keep shares of an entry, as `run` takes them."""
        found: dict[str, Vector | float] = dict(entry.keep)
        for place, predicate in entry.predicates.items():
            shares = np.ones((len(self.network.inputs), len(VALUES)))
            for number, one in enumerate(self.network.inputs):
                if one.name in predicate.kept:
                    shares[number] = _covered(predicate.kept[one.name])
            found[place] = shares
        return found

    def tuple_utility(self, outcome: Outcome, rate: float) -> float:
        """Utility by how many rows are delivered, summed over outputs."""
        total = 0.0
        for name, graph in self.graphs.items():
            percent = 100.0 * float(outcome.delivered[name].sum() / (rate * self.full[name].sum()))
            total += graph.loss_tolerance().utility(percent)
        return total

    def value_utility(self, outcome: Outcome, rate: float) -> float:
        """Utility by which values are delivered, summed over outputs: what they are worth over what all are worth."""
        total = 0.0
        for name, low in self.low_utility.items():
            worth = np.where(self.bend >= VALUES, low, 1.0)
            total += float(worth @ outcome.delivered[name] / (rate * (worth @ self.full[name])))
        return total


def _covered(values: IntervalSet) -> Vector:
    """The share of each whole value's rows that lie in a set."""
    found = np.zeros(len(VALUES))
    for part in values.parts:
        found += np.clip(np.minimum(part.high, VALUES + 0.5) - np.maximum(part.low, VALUES - 0.5), 0.0, 1.0)
    return found
