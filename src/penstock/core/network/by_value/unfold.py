r"""A network unfolded by the cells of its rows' values.

Where judging begins, each cell gets its own arc, which carries its share of the rows. Every box below is copied for
each cell that reaches it. A filter passes all of a cell or nothing, so each copy is exact. An output gets a copy for
each cell too, with utility in proportion to the rows delivered:

$$U_o = \frac{\sum_k u_{ok} f'_{ok}}{\sum_k u_{ok} f_{ok}}$$

with $f_{ok}$ rows of cell $k$, each worth $u_{ok}$, of which $f'_{ok}$ are delivered. A drop by value on the network is
then a random drop on the copy. The road map of the copy is that of drops by value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.core.network.by_value.cells import Hull, Judged
from penstock.core.network.by_value.judging_places import Group, JudgingPlaces
from penstock.core.network.drops import Place
from penstock.core.network.expressions import Peeled, narrowed
from penstock.core.network.lineage import Columns
from penstock.core.network.model import Arc, Box, Network, Output
from penstock.core.network.qos import LossTolerance

_WORTHLESS = LossTolerance([(100, 0.0), (0, 0.0)])
#: The share of a cell without observed rows: it is dropped in order, and has no effect.
_UNSEEN = 1e-9
#: Rows that reach a branch by more paths than this are not dropped by value there.
_MOST_WAYS = 32


#: Rows a second by the spots that they have passed.
Ways = Mapping[tuple[int, ...], float]


class Label(NamedTuple):
    """Rows of one cell; None instead means rows that are not judged."""

    group: Group
    cell: int


@dataclass(frozen=True, slots=True)
class Spot:
    """A place of the network, for the rows of one cell."""

    place: str  #: its name in the network
    arc: str  #: its name in the copy: an arc, or an input
    label: Label | None  #: the cell; None if rows are dropped regardless of their value
    view: Peeled | None  #: the subject at this place in terms of where judging began; None if it begins here
    ways: Ways  #: the paths of this cell's rows: the spots that they pass, by number, and how many rows pass
    rows: float  #: rows a second of this cell without drops
    origins: frozenset[str]  #: the inputs that they come from


@dataclass(frozen=True, slots=True)
class Unfolded:
    """The copy of a network."""

    network: Network  #: inputs, a box for each cell that comes to it, an output for each cell that is delivered
    spots: tuple[Spot, ...]  #: where rows can be dropped
    #: For each output its copies, with the rows a second that they get without drops.
    outputs: dict[str, dict[str, float]]
    places: tuple[Place, ...]  #: the spots' arcs and inputs, as places of the copy


@dataclass(frozen=True, slots=True)
class _Lane:
    """Rows with one label that leave a node, or come to the next one."""

    node: str
    label: Label | None
    rows: float
    ways: Ways = field(default_factory=dict)


@dataclass
class Unfolding:
    """Makes the copy of a network, with the cells of the rows where judging begins."""

    network: Network
    judging: JudgingPlaces
    judged: Mapping[str, Judged]
    hulls: Mapping[str, Hull]
    rates: Mapping[str, float]
    lanes: dict[str, list[_Lane]] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    names: dict[Group, str] = field(default_factory=dict)

    def done(self) -> Unfolded:
        """The copy."""
        boxes = {box.name: box for box in self.network.boxes}
        ends = {one.name: one for one in self.network.outputs}
        copies = {}
        for one in self.network.inputs:
            whole = _Lane(one.name, None, self.rates[one.name])
            if one.name in self.judging.subjects:
                self.lanes[one.name] = self._cells(one.name, whole, frozenset([one.name]))
            else:
                self._spot(one.name, one.name, whole, frozenset([one.name]))
                self.lanes[one.name] = [whole]
        for name in self.network.order:
            if name in boxes:
                self.lanes[name] = self._box(boxes[name])
            elif name in ends:
                copies[name] = self._output(ends[name])
        made = Network(self.network.inputs, self.boxes, self.outputs)
        arcs = {arc.name: arc for arc in made.arcs}
        places = tuple(
            Place(spot.arc, arcs[spot.arc].source, arcs[spot.arc])
            if spot.arc in arcs
            else Place(spot.arc, spot.arc, None)
            for spot in self.spots
        )
        return Unfolded(made, tuple(self.spots), copies, places)

    def _spot(self, place: str, arc: str, lane: _Lane, origins: frozenset[str], view: Peeled | None = None) -> int:
        self.spots.append(Spot(place, arc, lane.label, view, lane.ways, lane.rows, origins))
        return len(self.spots) - 1

    def _cells(self, place: str, lane: _Lane, origins: frozenset[str]) -> list[_Lane]:
        """Rows that are judged from here on."""
        cells, found = self.judged[place].cells, []
        total = sum(cell.share for cell in cells)
        for number, cell in enumerate(cells):
            share = max(cell.share / total, _UNSEEN)
            name, label = f"{place}|{number}", Label(Group(place, Columns()), number)
            self.boxes.append(Box(name, "map", (lane.node,), 0.0, share))
            own = _Lane(name, label, lane.rows * share, {(): 1.0})
            spot = self._spot(place, f"{lane.node}->{name}", own, origins)
            found.append(replace(own, ways={(spot,): 1.0}))
        return found

    def _along(self, arc: Arc) -> list[_Lane]:
        """Rows that come along an arc; where they can be dropped on it, they pass an empty box."""
        found = []
        for lane in self.lanes[arc.source]:
            label = lane.label
            origins = self.judging.origins[arc.source].get(label.group if label else None, frozenset())
            if label is None and arc.name in self.judging.subjects:
                found += self._cells(arc.name, lane, origins)
                continue
            view = None if label is None or not lane.ways else self.judging.views.get((arc.name, label.group))
            if view is None and (label is not None or arc.name not in self.judging.by_chance):
                found.append(lane)
                continue
            name = self._copy(arc.name, label)
            self.boxes.append(Box(name, "map", (lane.node,), 0.0))
            spot = self._spot(arc.name, f"{lane.node}->{name}", lane, origins, view)
            found.append(replace(lane, node=name, ways={(*way, spot): rows for way, rows in lane.ways.items()}))
        return found

    def _copy(self, name: str, label: Label | None) -> str:
        if label is None:
            return f"{name}|" if "->" in name else name
        group = self.names.setdefault(label.group, f"{label.group.start}~{len(self.names)}")
        return f"{name}|{group}|{label.cell}"

    def _box(self, box: Box) -> list[_Lane]:
        arcs = self.network.into[box.name]
        judged = [arc for arc in arcs if box.op == "join" and self.judging.judged_side(arc)]
        coming = dict[Label | None, list[tuple[_Lane, float]]]()
        rest = list[tuple[_Lane, float]]()
        for arc in arcs:
            lanes = self._along(arc)
            for lane, share in zip(lanes, self._passing(box, arc, lanes), strict=True):
                if judged and arc not in judged:
                    rest.append((lane, share))
                else:
                    coming.setdefault(self._onward(lane.label, arc), []).append((lane, share))
        name = f"{box.name}|own" if rest else box.name
        found = [self._put(box, self._copy(name, label), label, parts) for label, parts in coming.items()]
        if rest:
            found = self._spread(box, found, rest)
        return self._alive(found, coming)

    def _onward(self, label: Label | None, arc: Arc) -> Label | None:
        if label is None:
            return None
        group = self.judging.onward(label.group, arc)
        return Label(group, label.cell) if group is not None else None

    def _put(self, box: Box, name: str, label: Label | None, parts: list[tuple[_Lane, float]]) -> _Lane:
        """A copy of a box for rows with one label."""
        sources = tuple(lane.node for lane, _ in parts)
        shares = {lane.node: share for lane, share in parts}
        self.boxes.append(Box(name, "map" if len(parts) == 1 else "union", sources, box.cost, shares))
        ways = dict[tuple[int, ...], float]()
        for lane, share in parts:
            for way, passed in lane.ways.items():
                ways[way] = ways.get(way, 0.0) + passed * share
        if len(ways) > _MOST_WAYS or not all(lane.ways for lane, _ in parts):
            ways = {}
        return _Lane(name, label, sum(lane.rows * share for lane, share in parts), ways)

    def _alive(self, lanes: list[_Lane], coming: Mapping[Label | None, list[tuple[_Lane, float]]]) -> list[_Lane]:
        """Lanes with rows; the others end here."""
        found = []
        for lane in lanes:
            if any(share > 0.0 for _, share in coming[lane.label]):
                found.append(lane)
            else:
                self.outputs.append(Output(f"{lane.node}|", lane.node, _WORTHLESS))
        return found

    def _spread(self, box: Box, lanes: list[_Lane], rest: list[tuple[_Lane, float]]) -> list[_Lane]:
        """Rows of the side of a join that has no value: their results are spread over the other side's cells."""
        other = self._put(box, f"{box.name}|~", None, rest)
        if not lanes:
            self.outputs.append(Output(f"{other.node}|", other.node, _WORTHLESS))
        total = sum(lane.rows for lane in lanes)
        found = []
        for lane in lanes:
            share = lane.rows / total if total > 0.0 else 1.0 / len(lanes)
            theirs, both = self._copy(f"{box.name}|~", lane.label), self._copy(box.name, lane.label)
            self.boxes.append(Box(theirs, "map", (other.node,), 0.0, share))
            self.boxes.append(Box(both, "union", (lane.node, theirs), 0.0))
            found.append(replace(lane, node=both, rows=lane.rows + share * other.rows))
        return found

    def _passing(self, box: Box, arc: Arc, lanes: list[_Lane]) -> list[float]:
        """The share of each lane's rows that a box passes on."""
        if box.op != "filter":
            return [arc.selectivity] * len(lanes)
        found, by_group = [arc.selectivity] * len(lanes), dict[Group, list[int]]()
        for number, lane in enumerate(lanes):
            if lane.label is not None:
                by_group.setdefault(lane.label.group, []).append(number)
        for group, numbers in by_group.items():
            where = self.judging.tracer.where(box.name, group.columns)
            if where is None:
                continue
            subject, cells = self.judged[group.start].subject, self.judged[group.start].cells
            values, exact = narrowed(where, subject)
            inside = {
                number: self.hulls[group.start].fraction(cells[label.cell].values, values)
                for number in numbers
                if (label := lanes[number].label) is not None
            }
            rest = 1.0
            if not exact:
                rows = sum(lanes[number].rows for number in numbers)
                mean = sum(lanes[number].rows * inside[number] for number in numbers) / rows if rows > 0.0 else 1.0
                rest = min(arc.selectivity / mean, 1.0) if mean > 0.0 else 1.0
            for number in numbers:
                found[number] = rest * inside[number]
        return found

    def _output(self, output: Output) -> dict[str, float]:
        """Copies of an output, with the rows that each gets."""
        lanes = self._along(self.network.into[output.name][0])
        if not lanes:
            return {}
        if output.value is None:
            node = lanes[0].node
            if len(lanes) > 1:
                node = f"{output.name}|"
                self.boxes.append(Box(node, "union", tuple(lane.node for lane in lanes), 0.0))
            self.outputs.append(replace(output, source=node))
            return {output.name: sum(lane.rows for lane in lanes)}
        worth = [self._worth(output, lane.label) for lane in lanes]
        total = sum(lane.rows * each for lane, each in zip(lanes, worth, strict=True))
        found = {}
        for lane, each in zip(lanes, worth, strict=True):
            name = self._copy(output.name, lane.label)
            weight = min(lane.rows * each / total, 1.0) if total > 0.0 else 0.0
            self.outputs.append(Output(name, lane.node, LossTolerance([(100, weight), (0, 0.0)])))
            found[name] = lane.rows
        return found

    def _worth(self, output: Output, label: Label | None) -> float:
        """The utility of a row for an output."""
        grades = output.value.graded() if output.value is not None else []
        view = None if label is None else self.judging.tracer.value(output.name, label.group.columns)
        if label is None or view is None:
            return sum(utility * share for _, utility, share in grades)
        start = label.group.start
        cell = self.judged[start].cells[label.cell].values
        return sum(utility * self.hulls[start].fraction(cell, view.back(values)) for values, utility, _ in grades)
