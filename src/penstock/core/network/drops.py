r"""Drops in a query network: their possible places, the rows they cost and the work they save.

Candidates are the inputs and the arcs behind a split (Tatbul et al. 2003, 4.3.1): a drop elsewhere is better placed
further upstream. So a network reduces to its `Skeleton`. It says how many of the rows that pass a place reach each
split and output next, and the work they cause on the way.

`Shedding` holds the rows that pass every place and reduces them. A branch that carries less than its box returns has a
drop. Removing rows upstream removes none from such a branch while it needs fewer than remain: so a drop inserted above
others makes them smaller (4.3.3). The next row removed at a place costs and saves

$$\text{loss} = \sum_{o} \frac{-U_o'(x_o)}{F_o}\, w_o, \qquad \text{gain} = L$$

with $w_o$ rows less at output $o$, of $F_o$ without drops, and $L$ the work saved. Both are counted only along arcs
that the row would have passed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.network.model import Arc, Network

#: A flow this share of a place's own apart is the same.
_SAME = 1e-9


class Marginal(NamedTuple):
    """The utility loss and the saved work of the next removed row."""

    loss: float
    gain: float


@dataclass(frozen=True, slots=True)
class Place:
    """A possible place of a drop: an input, or a branch behind a split."""

    name: str
    node: str
    arc: Arc | None  #: None: at the input, before all of its arcs


def places(network: Network) -> list[Place]:
    """The candidates: inputs, and branches behind splits.

    An arc out of a box with one consumer is not a candidate: a drop is better placed in front of the box.
    """
    found = [Place(one.name, one.name, None) for one in network.inputs]
    for name in network.order:
        arcs = network.out_of[name]
        if len(arcs) > 1:
            found.extend(Place(arc.name, name, arc) for arc in arcs)
    return found


def pushed_upstream(network: Network, name: str) -> list[Place]:
    """The places that a drop before a node reaches when it is pushed upstream, through unions to all their sources."""
    if not network.into[name]:
        return [Place(name, name, None)]
    found: list[Place] = []
    for arc in network.into[name]:
        if len(network.out_of[arc.source]) > 1:
            found.append(Place(arc.name, arc.source, arc))
        else:
            found.extend(pushed_upstream(network, arc.source))
    return found


class Skeleton:
    """A network as drops see it: places, and the splits and outputs that rows come to from there.

    >>> from penstock.core.network.model import Box, Input, Output
    >>> from penstock.core.network.qos import LossTolerance
    >>> network = Network(
    ...     [Input("I", 10)],
    ...     [Box("shared", "filter", ("I",), 2, 0.5), Box("left", "map", ("shared",), 4)],
    ...     [Output("A", "left", LossTolerance([(100, 1.0), (0, 0.0)])),
    ...      Output("B", "shared", LossTolerance([(100, 1.0), (0, 0.0)]))],
    ... )
    >>> bones = Skeleton(network)
    >>> for number, place in enumerate(bones.places):
    ...     print(place.name, bones.work[number], {bones.ends[end]: rows for end, rows in bones.reach[number]})
    I 2.0 {'shared': 0.5}
    shared->left 4.0 {'A': 1.0}
    shared->B 0.0 {'B': 1.0}

    Attributes:
        places: Possible places of drops.
        ends: Splits and outputs, each behind those that feed it.
        work: For each place, the cost of a row that passes it until it reaches an end.
        reach: For each place, the ends that its rows reach next, with the share of rows.
        stands: For each place, the split in front of it; None for an input.
        branches: For each end, its places; none for an output.
    """

    def __init__(self, network: Network, rates: Mapping[str, float] | None = None, also: Sequence[Place] = ()) -> None:
        """Candidate places, and `also` others if need be; rates are those of the network if not given."""
        self.network = network
        self.rates = dict(network.rates if rates is None else rates)
        known = places(network)
        names = {place.name for place in known}
        self.places = (*known, *(place for place in also if place.name not in names))
        nodes = {place.node for place in self.places if place.arc is not None}
        self.ends = tuple(name for name in network.order if len(network.out_of[name]) != 1 or name in nodes)
        number = {name: index for index, name in enumerate(self.ends)}
        outputs = {one.name for one in network.outputs}
        passed: dict[str, tuple[float, dict[int, float]]] = {name: (0.0, {number[name]: 1.0}) for name in self.ends}

        def behind(arc: Arc) -> tuple[float, dict[int, float]]:
            work, ends = passed[arc.target]
            share = 1.0 if arc.target in outputs else arc.selectivity
            return arc.cost + share * work, {end: share * rows for end, rows in ends.items()}

        for name in reversed(network.order):
            if name not in passed:
                passed[name] = behind(network.out_of[name][0])
        of_place = [passed[place.node] if place.arc is None else behind(place.arc) for place in self.places]
        self.work = [work for work, _ in of_place]
        self.reach = [tuple(ends.items()) for _, ends in of_place]
        self.stands = [None if place.arc is None else number[place.node] for place in self.places]
        self.branches: list[list[int]] = [[] for _ in self.ends]
        for index, end in enumerate(self.stands):
            if end is not None:
                self.branches[end].append(index)
        self.number = number

    @cached_property
    def feeders(self) -> list[list[int]]:
        """For each end, the places whose rows come to it."""
        found: list[list[int]] = [[] for _ in self.ends]
        for index, ends in enumerate(self.reach):
            for end, _ in ends:
                found[end].append(index)
        return found

    @cached_property
    def full(self) -> tuple[list[float], list[float]]:
        """Rows that pass each place and come to each end, nothing shed."""
        return self._flow([1.0] * len(self.places))

    def _flow(self, keep: list[float]) -> tuple[list[float], list[float]]:
        at_place, at_end = [0.0] * len(self.places), [0.0] * len(self.ends)

        def pour(index: int, rows: float) -> None:
            at_place[index] = rows * keep[index]
            for end, share in self.reach[index]:
                at_end[end] += share * at_place[index]

        for index, place in enumerate(self.places):
            if place.arc is None:
                pour(index, self.rates[place.node])
        for end, branches in enumerate(self.branches):
            for index in branches:
                pour(index, at_end[end])
        return at_place, at_end

    def coming(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows that come to each end if these pass the places, of one plan or of several."""
        found = np.zeros((*rows.shape[:-1], len(self.ends)))
        for index, ends in enumerate(self.reach):
            for end, share in ends:
                found[..., end] += share * rows[..., index]
        return found

    @property
    def load(self) -> float:
        """Work a second, nothing shed."""
        return self._work_on(self.full[0])

    def under(self, keep: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """Work a second, and percent delivered to each output, if places pass these shares of rows."""
        rows, coming = self._flow([keep.get(place.name, 1.0) for place in self.places])
        return self._work_on(rows), self.delivered(coming)

    def delivered(self, coming: Sequence[float]) -> dict[str, float]:
        """Percent delivered to each output if these rows come to the ends."""
        full, ends = self.full[1], {one.name: self.number[one.name] for one in self.network.outputs}
        return {name: 100.0 * coming[end] / full[end] if full[end] > 0.0 else 100.0 for name, end in ends.items()}

    def _work_on(self, rows: list[float]) -> float:
        return sum(work * one for work, one in zip(self.work, rows, strict=True))


class Shedding:
    """The rows that pass each place under drops that only ever grow.

    Places and ends are numbered as in the skeleton. A group of places sheds in proportion to what passes each.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        self._bones = skeleton
        self._full, self._full_ends = skeleton.full
        #: Rows that pass each place.
        self.rows = list(self._full)
        self._coming = list(self._full_ends)
        graphs = {one.name: one.loss_tolerance for one in skeleton.network.outputs}
        self._graphs = [graphs.get(name) for name in skeleton.ends]
        #: Whether a branch passes all that its split puts out.
        self._tight = [end is not None for end in skeleton.stands]
        self._at_end = [Marginal(0.0, 0.0)] * len(skeleton.ends)
        self._at_place = [Marginal(0.0, 0.0)] * len(skeleton.places)
        for end in reversed(range(len(skeleton.ends))):
            self._refresh_end(end)
            for index in skeleton.feeders[end]:
                self._refresh_place(index)

    def ratio(self, group: Sequence[int]) -> float:
        """Utility lost per unit of saved work if these places shed a little more; infinite if no work is saved."""
        loss = gain = 0.0
        for index in group:
            rows = self.rows[index] if len(group) > 1 else 1.0
            loss, gain = loss + rows * self._at_place[index].loss, gain + rows * self._at_place[index].gain
        return loss / gain if gain > 0.0 else math.inf

    def left(self, group: Sequence[int]) -> float:
        """The share of its rows that a group still passes; almost 0 is 0."""
        full = sum(self._full[index] for index in group)
        share = sum(self.rows[index] for index in group) / full if full > 0.0 else 0.0
        return share if share > _SAME else 0.0

    def take(self, group: Sequence[int]) -> set[int]:
        """Remove rows until a graph bends, a branch gets tight or none are left; returns places with new marginals."""
        less, falls = self._fall(group)
        rows = self._room(less, falls)
        for end, fall in falls.items():
            self._coming[end] = _less(self._coming[end], rows * fall)
        for index, fall in less.items():
            self.rows[index] = _less(self.rows[index], rows * fall)
        splits = {self._bones.stands[index] for index in group}
        touched = [*falls, *(split for split in splits if split is not None and split not in falls)]
        return self._refresh([end for end in touched if self._is_new(end, group)])

    def _fall(self, group: Sequence[int]) -> tuple[dict[int, float], dict[int, float]]:
        """The decrease at each place and each end per row that the group removes."""
        reach, branches, tight = self._bones.reach, self._bones.branches, self._tight
        total = sum(self.rows[index] for index in group)
        less = {index: self.rows[index] / total for index in group}
        falls: dict[int, float] = {}
        todo: list[int] = []

        def pour(index: int, share: float) -> None:
            for end, rows in reach[index]:
                if end not in falls:
                    falls[end] = 0.0
                    heappush(todo, end)
                falls[end] += share * rows

        for index, share in less.items():
            pour(index, share)
        while todo:  # ends are in flow order, so the losses of an end are complete when it is processed
            end = heappop(todo)
            for index in branches[end]:
                if tight[index]:
                    less[index] = less.get(index, 0.0) + falls[end]
                    pour(index, falls[end])
        return less, falls

    def _room(self, less: dict[int, float], falls: dict[int, float]) -> float:
        """Rows until something happens."""
        # A place that passes nothing is no limit; remaining rows there are rounding errors.
        passing = ((self.rows[index], fall) for index, fall in less.items())
        most = min(rows / fall for rows, fall in passing if rows > 0.0 and fall > 0.0)
        for end, fall in falls.items():
            graph, coming = self._graphs[end], self._coming[end]
            if fall <= 0.0:
                continue
            if graph is not None:
                percent = self._percent(end)
                room = (percent - graph.next_break(percent)) / 100.0 * self._full_ends[end]
                if percent > 0.0:
                    most = min(most, room / fall)
                continue
            for index in self._bones.branches[end]:
                closing = fall - less.get(index, 0.0)
                if not self._tight[index] and closing > 0.0:
                    most = min(most, (coming - self.rows[index]) / closing)
        return max(most, 0.0)

    def _is_new(self, end: int, group: Sequence[int]) -> bool:
        """Whether a graph has a new slope or a branch is tight now that was not, or the other way round."""
        if self._graphs[end] is not None:
            return self._slope(end) != self._at_end[end].loss
        new = False
        coming = self._coming[end]
        for index in self._bones.branches[end]:
            tight = self.rows[index] >= coming - _SAME * self._full[index]
            if self._tight[index] and index not in group:
                self.rows[index], tight = coming, True  # it passes all incoming rows, up to rounding
            new |= tight != self._tight[index]
            self._tight[index] = tight
        return new

    def _percent(self, end: int) -> float:
        graph, full = self._graphs[end], self._full_ends[end]
        return graph.cursor(100.0 * self._coming[end] / full) if graph is not None and full > 0.0 else 0.0

    def _slope(self, end: int) -> float:
        """The loss of one row less at an output."""
        graph, percent = self._graphs[end], self._percent(end)
        return 100.0 * graph.loss_per_percent(percent) / self._full_ends[end] if graph and percent > 0.0 else 0.0

    def _refresh(self, ends: list[int]) -> set[int]:
        """Recompute marginals at these ends and upstream; returns the places at which they changed."""
        changed = set[int]()
        todo = [-end for end in ends]
        heapify(todo)
        done = None
        while todo:
            end = -heappop(todo)
            if end == done:
                continue
            done = end
            self._refresh_end(end)
            for index in self._bones.feeders[end]:
                if self._refresh_place(index):
                    changed.add(index)
                    stands = self._bones.stands[index]
                    if stands is not None:
                        heappush(todo, -stands)
        return changed

    def _refresh_end(self, end: int) -> None:
        if self._graphs[end] is not None:
            self._at_end[end] = Marginal(self._slope(end), 0.0)
            return
        tight = [self._at_place[index] for index in self._bones.branches[end] if self._tight[index]]
        self._at_end[end] = Marginal(sum(one.loss for one in tight), sum(one.gain for one in tight))

    def _refresh_place(self, index: int) -> bool:
        loss, gain = 0.0, self._bones.work[index]
        for end, rows in self._bones.reach[index]:
            at_end = self._at_end[end]
            loss, gain = loss + rows * at_end.loss, gain + rows * at_end.gain
        before, self._at_place[index] = self._at_place[index], Marginal(loss, gain)
        return before != self._at_place[index]


def _less(flow: float, rows: float) -> float:
    """The rest; almost 0 is 0."""
    return flow - rows if flow - rows > _SAME * flow else 0.0
