"""Query networks over rows with one value each, computed exactly: no row is drawn, every value is followed.

Inputs bring whole values from 0 to 100, each as often as any other. A filter lets values above its constant through. So
what flows on an arc is a vector, rows a second by value; a random drop scales it, a semantic drop cuts values out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.core.network import Box, Network
from penstock.core.origins import by_origin
from penstock.core.qos import ValueInterval, ValueQos

VALUES = np.arange(101.0)

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What a network does under drops.

    Attributes:
        load: Work a second.
        delivered: Rows a second at each output, by value.
    """

    load: float
    delivered: dict[str, Vector]


@dataclass(frozen=True)
class ValueNetwork:
    """A network whose filters are `value > constant`.

    Attributes:
        network: Its shape, with costs; selectivities follow from the constants.
        above: The constant of each filter.
        low_utility: For each output, what its values up to `bend` are worth; the others are worth 1.
        bend: Where the second interval of values begins.
    """

    network: Network
    above: Mapping[str, float]
    low_utility: Mapping[str, float]
    bend: float = 50.0

    def run(self, rate: float, keep: Mapping[str, Vector | float] | None = None) -> Outcome:
        """All inputs bring `rate` rows a second; of each value, places in `keep` let a share through."""
        kept = keep or {}
        network = self.network
        flow: dict[str, Vector] = {}
        load = 0.0
        delivered = {}
        for name in network.order:
            arcs = network.into[name]
            if not arcs:
                leaving = np.full(len(VALUES), rate / len(VALUES))
            else:
                leaving = np.sum([flow[arc.name] for arc in arcs], axis=0)
                load += arcs[0].cost * float(leaving.sum())
                if name in self.above:
                    leaving = leaving * (self.above[name] < VALUES)
            leaving = leaving * kept.get(name, 1.0)
            for arc in network.out_of[name]:
                flow[arc.name] = leaving * kept.get(arc.name, 1.0)
            if not network.out_of[name]:
                delivered[name] = leaving
        return Outcome(load, delivered)

    @cached_property
    def full(self) -> dict[str, Vector]:
        """Rows a second at each output without drops, by value, at a rate of one."""
        return self.run(1.0).delivered

    @cached_property
    def graphs(self) -> dict[str, ValueQos]:
        """What each output's values are worth: a histogram with a cell a value, as the output sees them."""
        return {name: self._graph(name) for name in self.low_utility}

    def _graph(self, output: str) -> ValueQos:
        ends = [-0.5, *(VALUES + 0.5)]
        utilities = np.where(self.bend >= VALUES, self.low_utility[output], 1.0)
        cells = [
            ValueInterval(low, high, float(utility))
            for low, high, utility in zip(ends, ends[1:], utilities, strict=False)
        ]
        return ValueQos("value", cells, self.full[output].tolist())

    @cached_property
    def by_origin(self) -> Network:
        """The network with what filters let through of each input's rows, and the loss tolerance of each output."""
        passed: dict[str, dict[str, float]] = {one.name: {one.name: -1.0} for one in self.network.inputs}
        for name in self.network.order:
            if self.network.into[name]:
                before = [passed[arc.source] for arc in self.network.into[name]]
                own = {origin: above for one in before for origin, above in one.items()}
                limit = self.above.get(name, -1.0)
                passed[name] = {origin: max(above, limit) for origin, above in own.items()}

        def selectivity(box: Box, origin: str) -> float:
            before = next(passed[source][origin] for source in box.sources if origin in passed[source])
            return int(np.sum(passed[box.name][origin] < VALUES)) / max(int(np.sum(before < VALUES)), 1)

        outputs = [replace(one, loss_tolerance=self.graphs[one.name].loss_tolerance()) for one in self.network.outputs]
        return by_origin(Network(self.network.inputs, self.network.boxes, outputs), selectivity)

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
