r"""Drops in a query network: where they may stand, what rows they cost and what work they save.

Candidates are the inputs and the arcs behind a split (Tatbul et al. 2003, 4.3.1): anywhere else a drop does better
further upstream. `Shedding` holds the flow on every arc and moves it down, a bit at one place at a time. A branch that
carries less than its box puts out has a drop on it. Taking rows away upstream takes none from such a branch as long as
it needs fewer than are left: that is how a drop inserted above others makes them smaller (4.3.3).

At every place the next row taken away costs and saves

$$\text{loss} = \sum_{o} \frac{-U_o'(x_o)}{F_o}\, w_o, \qquad \text{gain} = L$$

with $w_o$ rows less at output $o$, of $F_o$ without drops, and $L$ the work saved, both counted only along arcs that
the row would have gone on.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.network import Arc, Network

#: A flow this share of a place's own apart is the same.
_SAME = 1e-9


class Marginal(NamedTuple):
    """What the next row taken away costs in utility, and what work it saves."""

    loss: float
    gain: float

    @property
    def ratio(self) -> float:
        """Loss for each unit of work; a row that saves nothing is never worth it."""
        return self.loss / self.gain if self.gain > 0.0 else math.inf


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


def pushed_upstream(network: Network, name: str) -> list[Place]:
    """The places that a drop before a node comes to when it is pushed upstream, through unions to all their sources."""
    if not network.into[name]:
        return [Place(name, name, None)]
    found: list[Place] = []
    for arc in network.into[name]:
        if len(network.out_of[arc.source]) > 1:
            found.append(Place(arc.name, arc.source, arc))
        else:
            found.extend(pushed_upstream(network, arc.source))
    return found


class Shedding:
    """The flows of a network under drops, which only ever grow.

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
    >>> {place.name: state.marginal(place) for place in places(network)}["I"]  # half a row less at each of two outputs
    Marginal(loss=0.2, gain=4.0)
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
        self._loss, self._gain = dict.fromkeys(network.out_of, 0.0), dict.fromkeys(network.out_of, 0.0)
        self._arc_loss, self._arc_gain = dict.fromkeys(self.flow, 0.0), dict.fromkeys(self.flow, 0.0)
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
        before = self.rates[place.node] if place.arc is None else self.leaving[place.node]
        after = self.leaving[place.node] if place.arc is None else self.flow[place.arc.name]
        return after / before if before > 0.0 else 1.0

    def flowing(self, place: Place) -> float:
        """Rows that pass a place."""
        return self.leaving[place.node] if place.arc is None else self.flow[place.arc.name]

    def marginal(self, place: Place) -> Marginal:
        """What the next row taken away there costs and saves."""
        if place.arc is None:
            return Marginal(self._loss[place.node], self._gain[place.node])
        return Marginal(self._arc_loss[place.arc.name], self._arc_gain[place.arc.name])

    def take(self, place: Place, rows: float) -> "Taken":
        """Take rows away at a place, as many as leave the marginals as they are, or as there are."""
        fall = self._fall(place)
        rows = min(rows, self.flowing(place), self._reach(fall))
        for node, less in fall.nodes.items():
            if node in self.leaving:
                self.leaving[node] = _less(self.leaving[node], rows * less)
        for arc, less in fall.arcs.items():
            self.flow[arc] = _less(self.flow[arc], rows * less)
        return Taken(rows, (place.node, *fall.nodes), self._events(fall))

    def refresh(self, nodes: "list[str] | tuple[str, ...]") -> set[str]:
        """Compute marginals anew at nodes and all that lies upstream of them; returns where they changed."""
        todo, changed = set(nodes), set[str]()
        for name in sorted(self._upstream(todo), key=lambda one: -self._place[one]):
            if name in todo and self._refresh(name):
                changed.add(name)
                todo.update(arc.source for arc in self.network.into[name])
        return changed

    def _upstream(self, nodes: set[str]) -> set[str]:
        found, todo = set(nodes), list(nodes)
        while todo:
            for arc in self.network.into[todo.pop()]:
                if arc.source not in found:
                    found.add(arc.source)
                    todo.append(arc.source)
        return found

    def _refresh(self, name: str) -> bool:
        before = self._loss[name], self._gain[name]
        arcs = self.network.out_of[name]
        if not arcs:
            full = self.full[self._arc_to[name]]
            percent = self.percent(name)
            slope = self._graphs[name].loss_per_percent(percent) if percent > 0.0 else 0.0
            self._loss[name] = 100.0 * slope / full if full > 0.0 else 0.0
            return before[0] != self._loss[name]
        loss = gain = 0.0
        different = False
        for arc in arcs:
            one_loss = self._loss[arc.target] * (arc.selectivity if self.network.out_of[arc.target] else 1.0)
            one_gain = arc.cost + arc.selectivity * self._gain[arc.target]
            different |= self._arc_loss[arc.name] != one_loss or self._arc_gain[arc.name] != one_gain
            self._arc_loss[arc.name], self._arc_gain[arc.name] = one_loss, one_gain
            if self._tight(arc):
                loss, gain = loss + one_loss, gain + one_gain
        self._loss[name], self._gain[name] = loss, gain
        return different or before != (loss, gain)

    def _tight(self, arc: Arc) -> bool:
        """Whether the arc carries all that its node puts out."""
        return self.flow[arc.name] >= self.leaving[arc.source] - _SAME * max(self.full[arc.name], 1e-300)

    def _fall(self, place: Place) -> "Fall":
        """How much less flows everywhere for each row taken away."""
        nodes: dict[str, float] = {}
        arcs: dict[str, float] = {}
        todo: dict[str, float] = {}
        if place.arc is None:
            nodes[place.node] = 1.0
            starts = [(arc, 1.0) for arc in self.network.out_of[place.node] if self._tight(arc)]
        else:
            starts = [(place.arc, 1.0)]
        for arc, less in starts:
            arcs[arc.name] = less
            todo[arc.target] = todo.get(arc.target, 0.0) + less * arc.selectivity
        while todo:
            name = min(todo, key=self._place.__getitem__)
            less = todo.pop(name)
            if not self.network.out_of[name]:
                nodes.setdefault(name, 0.0)
                continue
            nodes[name] = less
            for arc in self.network.out_of[name]:
                if self._tight(arc):
                    arcs[arc.name] = less
                    todo[arc.target] = todo.get(arc.target, 0.0) + less * arc.selectivity
        return Fall(nodes, arcs)

    def _reach(self, fall: "Fall") -> float:
        """Rows until a graph bends, a branch gets tight, or a flow is gone."""
        least = math.inf
        for node, less in fall.nodes.items():
            arcs = self.network.out_of[node]
            if not arcs:
                arc = self._arc_to[node]
                if fall.arcs.get(arc) and self.full[arc] > 0.0:
                    room = self.percent(node) - self._graphs[node].next_break(self.percent(node))
                    least = min(least, room / 100.0 * self.full[arc] / fall.arcs[arc])
                continue
            if less > 0.0:
                for one in arcs:
                    if one.name not in fall.arcs:
                        least = min(least, (self.leaving[node] - self.flow[one.name]) / less)
        return max(least, 0.0)

    def _events(self, fall: "Fall") -> tuple[str, ...]:
        """Nodes whose marginals are new: a graph bends, a branch is tight now, or a flow is gone."""
        found = []
        for node in fall.nodes:
            arcs = self.network.out_of[node]
            if not arcs:
                percent = self.percent(node)
                graph = self._graphs[node]
                full = self.full[self._arc_to[node]]
                slope = 100.0 * graph.loss_per_percent(percent) / full if percent > 0.0 and full > 0.0 else 0.0
                if slope != self._loss[node]:
                    found.append(node)
            elif any(arc.name not in fall.arcs and self._tight(arc) for arc in arcs):
                found.append(node)
        return tuple(found)


def _less(flow: float, rows: float) -> float:
    """What is left; next to nothing is nothing."""
    return flow - rows if flow - rows > _SAME * flow else 0.0


@dataclass(frozen=True, slots=True)
class Fall:
    """What a row less at a place takes from nodes and arcs downstream."""

    nodes: dict[str, float]
    arcs: dict[str, float]


class Taken(NamedTuple):
    """Rows taken away, the nodes that felt it, and those whose marginals are new."""

    rows: float
    nodes: tuple[str, ...]
    events: tuple[str, ...]
