r"""Drops in a query network: where they may stand, what rows they cost and what work they save.

Candidates are the inputs and the arcs behind a split (Tatbul et al. 2003, 4.3.1): anywhere else a drop does better
further upstream. `Shedding` holds the flow on every arc and moves it down, a bit at one place at a time. A branch that
carries less than its box puts out has a drop on it. Taking rows away upstream takes none from such a branch as long as
it needs fewer than are left: that is how a drop inserted above others makes them smaller (4.3.3).

At every place the next row taken away costs and saves

$$\text{loss} = \sum_{o} \frac{-U_o'(x_o)}{F_o}\, w_o, \qquad \text{gain} = L$$

with $w_o$ rows less at output $o$, of $F_o$ without drops, and $L$ the work saved, both counted only along arcs that the
row would have gone on.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.network import Arc, Network

#: A flow this share of a place's own apart is the same.
_SAME = 1e-9


class Marginal(NamedTuple):
    """What one row at a place means: utility, and work."""

    utility: float
    work: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where a drop may stand: at an input, or on a branch behind a split."""

    name: str
    node: str
    arc: Arc | None  #: None: at the input, before all of its arcs


def places(network: Network) -> list[Place]:
    """The candidates: inputs, and branches behind splits.

    An arc out of a box with one consumer is none: the drop does better before the box.
    """
    found = [Place(one.name, one.name, None) for one in network.inputs]
    for name in network.order:
        arcs = network.out_of[name]
        if len(arcs) > 1:
            found.extend(Place(arc.name, name, arc) for arc in arcs)
    return found


class Shedding:
    """The flows of a network under drops; `take` makes a drop larger, `give` smaller.

    >>> from penstock.core.network import Box, Input, Output
    >>> from penstock.core.qos import LossTolerance
    >>> network = Network(
    ...     [Input("I", 10)],
    ...     [Box("shared", "filter", ("I",), 2, 0.5), Box("left", "map", ("shared",), 4)],
    ...     [Output("A", "left", LossTolerance([(100, 1.0), (0, 0.0)])),
    ...      Output("B", "shared", LossTolerance([(100, 1.0), (0, 0.0)]))],
    ... )
    >>> state = Shedding(network)
    >>> [place.name for place in places(network)]
    ['I', 'shared->left', 'shared->B']
    >>> state.down(places(network)[0])  # half a row less at each of two outputs
    Marginal(utility=0.2, work=4.0)
    """

    def __init__(self, network: Network, rates: dict[str, float] | None = None) -> None:
        """Start with no drops."""
        self.network = network
        self.full = network.flows(rates)
        self.flow = dict(self.full)
        self.rates = dict(network.rates if rates is None else rates)
        #: Rows that leave each node, before drops on its arcs.
        self.leaving = {name: self.flow[arcs[0].name] for name, arcs in network.out_of.items() if arcs}
        self._graphs = {one.name: one.loss_tolerance for one in network.outputs}
        self._arc_to = {one.name: network.into[one.name][0].name for one in network.outputs}
        self._place = {name: number for number, name in enumerate(network.order)}
        #: What a row less, and a row more, at a node or on an arc does to utility; and the work it causes.
        self._down, self._up, self._work = ({name: 0.0 for name in (*network.out_of, *self.flow)} for _ in range(3))
        for name in reversed(network.order):
            self._refresh(name)

    def percent(self, output: str) -> float:
        """How much of its rows an output gets."""
        arc = self._arc_to[output]
        return self._graphs[output].cursor(100.0 * self.flow[arc] / self.full[arc]) if self.full[arc] > 0.0 else 100.0

    def utility(self, output: str) -> float:
        """What that is worth."""
        return self._graphs[output].utility(self.percent(output))

    def keep(self, place: Place) -> float:
        """The share of rows that the drop at a place lets through."""
        before = self._before(place)
        return self.flowing(place) / before if before > 0.0 else 1.0

    def flowing(self, place: Place) -> float:
        """Rows that pass a place."""
        return self.leaving[place.node] if place.arc is None else self.flow[place.arc.name]

    def dropped(self, place: Place) -> float:
        """Rows that the drop at a place takes."""
        missing = self._before(place) - self.flowing(place)
        return missing if missing > _SAME * self._before(place) else 0.0

    def down(self, place: Place) -> Marginal:
        """What the next row taken away there costs in utility and saves in work."""
        name = place.node if place.arc is None else place.arc.name
        return Marginal(self._down[name], self._work[name])

    def take(self, place: Place, rows: float) -> "Moved":
        """Take rows away at a place, as many as leave the marginals as they are, or as there are."""
        fall = self._felt(place)
        return self._move(place, fall, -min(rows, self.flowing(place), self._until_bend(fall, up=False)))

    def give(self, place: Place, rows: float, price: float) -> "Moved | None":
        """Give rows back at a place, as many as leave the marginals as they are, or as its drop takes.

        They go on along the arcs on which they are worth their work at this price, a utility for each unit of work.
        None if they are worth it nowhere.
        """
        nets: dict[str, float] = {}
        if not self.dropped(place) or self._net(place, price, nets) <= 0.0:
            return None
        rise = self._felt(place, nets)
        if not rise.outputs:
            return None
        return self._move(place, rise, min(rows, self.dropped(place), self._until_bend(rise, up=True)))

    def _net(self, place: Place, price: float, nets: dict[str, float]) -> float:
        """What a row more is worth beyond its work at a price, along the arcs that pay; kept by arc in `nets`."""

        def of_arc(arc: Arc) -> float:
            if arc.name not in nets:
                if self.network.out_of[arc.target]:
                    nets[arc.name] = arc.selectivity * of_node(arc.target) - price * arc.cost
                else:
                    nets[arc.name] = self._up[arc.target]
            return nets[arc.name]

        def of_node(name: str) -> float:
            return sum(max(of_arc(arc), 0.0) for arc in self.network.out_of[name] if self._tight(arc))

        return of_node(place.node) if place.arc is None else of_arc(place.arc)

    def refresh(self, nodes: "tuple[str, ...]") -> set[str]:
        """Compute marginals anew at nodes and all that lies upstream of them; returns where they changed."""
        todo, changed = set(nodes), set[str]()
        for name in sorted(upstream(self.network, todo), key=lambda one: -self._place[one]):
            if name in todo and self._refresh(name):
                changed.add(name)
                todo.update(arc.source for arc in self.network.into[name])
        return changed

    def _before(self, place: Place) -> float:
        return self.rates[place.node] if place.arc is None else self.leaving[place.node]

    def _move(self, place: Place, felt: "Felt", rows: float) -> "Moved":
        for node, part in felt.nodes.items():
            self.leaving[node] = _moved(self.leaving[node], rows * part)
        for arc, part in felt.arcs.items():
            self.flow[arc] = _moved(self.flow[arc], rows * part)
        return Moved(abs(rows), (place.node, *felt.nodes, *felt.outputs), self._new_marginals(place, felt, rows))

    def _refresh(self, name: str) -> bool:
        """Compute a node's marginals; whether they or those of its arcs are new."""
        arcs = self.network.out_of[name]
        if not arcs:
            before = self._down[name], self._up[name]
            self._down[name], self._up[name] = self._slopes(name)
            return before != (self._down[name], self._up[name])
        found = [0.0, 0.0, 0.0]
        new = False
        for arc in arcs:
            share = arc.selectivity if self.network.out_of[arc.target] else 1.0
            own = (
                share * self._down[arc.target],
                share * self._up[arc.target],
                arc.cost + arc.selectivity * self._work[arc.target],
            )
            new |= self._set(arc.name, own)
            if self._tight(arc):
                found = [one + more for one, more in zip(found, own, strict=True)]
        return self._set(name, (found[0], found[1], found[2])) or new

    def _set(self, name: str, marginals: tuple[float, float, float]) -> bool:
        before = self._down[name], self._up[name], self._work[name]
        self._down[name], self._up[name], self._work[name] = marginals
        return before != marginals

    def _slopes(self, output: str) -> tuple[float, float]:
        percent, full, graph = self.percent(output), self.full[self._arc_to[output]], self._graphs[output]
        if full <= 0.0:
            return 0.0, 0.0
        down = graph.loss_per_percent(percent) if percent > 0.0 else 0.0
        return 100.0 * down / full, 100.0 * graph.gain_per_percent(percent) / full

    def _tight(self, arc: Arc) -> bool:
        """Whether the arc carries all that its node puts out."""
        return self.flow[arc.name] >= self.leaving[arc.source] - _SAME * self.full[arc.name]

    def _felt(self, place: Place, nets: dict[str, float] | None = None) -> "Felt":
        """How much less or more flows everywhere for each row at a place; more goes only where it pays."""
        found = Felt({}, {}, [])
        todo: dict[str, float] = {}

        def along(arc: Arc, part: float) -> None:
            found.arcs[arc.name] = part
            todo[arc.target] = todo.get(arc.target, 0.0) + part * arc.selectivity

        if place.arc is None:
            todo[place.node] = 1.0
        else:
            along(place.arc, 1.0)
        while todo:
            name = min(todo, key=self._place.__getitem__)
            part = todo.pop(name)
            if not self.network.out_of[name]:
                found.outputs.append(name)
                continue
            found.nodes[name] = part
            for arc in self.network.out_of[name]:
                if self._tight(arc) and (nets is None or nets[arc.name] > 0.0):
                    along(arc, part)
        return found

    def _until_bend(self, felt: "Felt", *, up: bool) -> float:
        """Rows until a graph bends, or, on the way down, a branch gets tight."""
        least = math.inf
        for output in felt.outputs:
            arc, percent, graph = self._arc_to[output], self.percent(output), self._graphs[output]
            room = graph.break_above(percent) - percent if up else percent - graph.next_break(percent)
            if felt.arcs[arc] > 0.0:
                least = min(least, room / 100.0 * self.full[arc] / felt.arcs[arc])
        if not up:
            for node, part in felt.nodes.items():
                for arc in self.network.out_of[node]:
                    if arc.name not in felt.arcs and part > 0.0:
                        least = min(least, (self.leaving[node] - self.flow[arc.name]) / part)
        return max(least, 0.0)

    def _new_marginals(self, place: Place, felt: "Felt", rows: float) -> tuple[str, ...]:
        """Nodes whose marginals are new: a graph bends, or a branch got tight or loose."""
        found = [one for one in felt.outputs if self._slopes(one) != (self._down[one], self._up[one])]
        for node in felt.nodes:
            if any(arc.name not in felt.arcs and self._tight(arc) for arc in self.network.out_of[node]):
                found.append(node)
            elif rows > 0.0 and len(self.network.out_of[node]) > 1:
                found.append(node)
        return (*found, place.node) if place.arc is not None else tuple(found)


@dataclass(frozen=True, slots=True)
class Felt:
    """What a row at a place means for nodes and arcs downstream, and the outputs that it comes to."""

    nodes: dict[str, float]
    arcs: dict[str, float]
    outputs: list[str]


class Moved(NamedTuple):
    """Rows taken or given, the nodes that felt it, and those whose marginals are new."""

    rows: float
    nodes: tuple[str, ...]
    events: tuple[str, ...]


def upstream(network: Network, nodes: Iterable[str]) -> set[str]:
    """The nodes, and all from which rows come to them."""
    found = set(nodes)
    todo = list(found)
    while todo:
        for arc in network.into[todo.pop()]:
            if arc.source not in found:
                found.add(arc.source)
                todo.append(arc.source)
    return found


def _moved(flow: float, rows: float) -> float:
    """The flow then; next to nothing is nothing."""
    return flow + rows if flow + rows > _SAME * flow else 0.0
