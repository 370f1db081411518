"""A network in stages: the boxes behind the inputs, and a further stage behind each stateful box."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.core.network.model import Input, Network

#: The least cost of a box: a free box would never be worth a drop.
LEAST_COST_S = 1e-8


class StagedNetwork:
    """A network as it was given, and its stages, each of which runs as a query.

    Attributes:
        given: The network.
        first: The boxes of the stage that reads the inputs.
        further: The boxes of every other stage, by the box that begins it.
        upstream: The places above each node: inputs and arcs.
    """

    def __init__(self, network: Network, further: Sequence[tuple[str, frozenset[str]]]) -> None:
        self.given, self.further = network, dict(further)
        self.first = frozenset(box.name for box in network.boxes).difference(*self.further.values())
        self.upstream: dict[str, frozenset[str]] = {}
        for name in network.order:
            above = [self.upstream[arc.source] | {arc.name} for arc in network.into[name]]
            self.upstream[name] = frozenset().union(*above) if above else frozenset([name])

    def measured(
        self,
        stage: frozenset[str],
        rates: Mapping[str, float],
        costs_s: Mapping[str, float],
        selectivities: Mapping[str, float],
    ) -> Network:
        """The network with these figures, in which only the boxes of one stage cost anything.

        A selectivity that was not measured is the given one.
        """
        boxes = [
            replace(
                box,
                cost=costs_s[box.name] if box.name in stage else LEAST_COST_S,
                selectivity=selectivities.get(box.name, box.selectivity),
            )
            for box in self.given.boxes
        ]
        return Network([Input(one.name, rates[one.name]) for one in self.given.inputs], boxes, self.given.outputs)
