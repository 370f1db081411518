r"""The road map of drops by value: rows with the least utility for their work are dropped first.

The network is unfolded by cells of values, and the greedy algorithm of the random road map runs on the copy. Utility is
proportional to the delivered rows of a cell, so a cell's loss per unit of work is constant until it is dropped. Cells
are dropped one after the other, those that reach no output first. A place whose outputs do not judge rows by one and
the same expression drops at random.

>>> from penstock.core.network.model import Box, Input, Output
>>> from penstock.core.network.qos import LossTolerance, ValueInterval, ValueQos
>>> graph = ValueQos("value", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
>>> network = Network(
...     [Input("I", 10)],
...     [
...         Box("high", "filter", ("I",), 5, 0.5, where="x > 10"),
...         Box("scale", "map", ("high",), 5, select={"value": "x * 2"}),
...     ],
...     [Output("O", "scale", LossTolerance([(100, 1.0), (0, 0.0)]), graph)],
... )
>>> subjects(network), [f"{cell.values} {cell.share:g}" for cell in estimated(network)["I"].cells]
({'I': 'x'}, ['(-inf, 10] 0.5', '(10, 25] 0.2', '(25, inf) 0.3'])
>>> roadmap = build(network)  # work of 75 a second
>>> free, more = (roadmap.entry(roadmap.find(excess, {"I": 10})) for excess in (25, 35))
>>> free.predicates["I"].sql(), free.utility, more.predicates["I"].sql(), round(more.delivered["O"])
('x > 10', 1.0, 'x > 17.5', 80)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.network.by_value.cell_shares import Judge
from penstock.core.network.by_value.cells import Cell, Hull, Judged, Predicate
from penstock.core.network.by_value.judging_places import JudgingPlaces
from penstock.core.network.by_value.unfold import Label, Spot, Unfolded, Unfolding
from penstock.core.network.expressions import columns
from penstock.core.network.intervals import IntervalSet, union
from penstock.core.network.lineage import Tracer
from penstock.core.network.model import Network
from penstock.core.network.roadmap import Entry, RoadMap, check_step, descent
from penstock.errors import PenstockError

__all__ = ["Cell", "Judged", "Predicate", "SemanticRoadMap", "bounds", "build", "estimated", "subjects"]

#: A keep share this close to 1 is 1.
_ALL = 1.0 - 1e-9


def subjects(network: Network) -> dict[str, str]:
    """Where rows begin to be judged by value, and the expression by which they are."""
    return dict(JudgingPlaces.of(network).subjects)


def bounds(network: Network, place: str) -> tuple[IntervalSet, ...]:
    """The sets of the subject's values to distinguish at a place that `subjects` names, from low to high."""
    tracer = Tracer(network)
    subject = tracer.subject(place)
    if subject is None:
        accepted = ", ".join(subjects(network)) or "none: no two outputs agree"
        raise PenstockError.setting("place", place, f"one where rows are judged by value: {accepted}")
    return Judge(network, tracer, place, subject).atoms


def judged_columns(network: Network, box: str) -> frozenset[str]:
    """The columns of what leaves a box by which outputs below it judge rows by value."""
    tracer = Tracer(network)
    told = [tracer.subject(arc.name) for arc in network.out_of[box]]
    return frozenset().union(*(columns(subject) for subject in told if subject is not None))


def estimated(network: Network) -> dict[str, Judged]:
    """Cells where judging begins, from the outputs' histograms and the filters' selectivities.

    Shares fit filters and histograms as well as possible. Without these, values are spread evenly.
    """
    judging = JudgingPlaces.of(network)
    return {
        place: Judge(network, judging.tracer, place, subject).estimated() for place, subject in judging.subjects.items()
    }


def build(
    network: Network,
    rates: Mapping[str, float] | None = None,
    judged: Mapping[str, Judged] | None = None,
    *,
    step: float = 0.02,
    drop_cost: float = 0.0,
) -> "SemanticRoadMap":
    """The road map of a network with drops by value; arguments are those of `network.roadmap.build`.

    `judged` has cells of the rows at the places that `subjects` names; what is not given is estimated.
    """
    check_step(network, step, drop_cost)
    judging = JudgingPlaces.of(network)
    judges = {place: Judge(network, judging.tracer, place, subject) for place, subject in judging.subjects.items()}
    given = dict(judged or {})
    cells = {place: judge.checked(given.pop(place, None)) for place, judge in judges.items()}
    if given:
        accepted = ", ".join(judges) or "none"
        raise PenstockError.setting("judged", sorted(given), f"places where rows are judged by value: {accepted}")
    hulls = {place: judge.hull for place, judge in judges.items()}
    flows = dict(network.rates if rates is None else rates)
    copy = Unfolding(network, judging, cells, hulls, flows).done()
    rows = dict[str, float]()
    for spot in copy.spots:
        rows[spot.place] = rows.get(spot.place, 0.0) + spot.rows
    steps = [min(step * rows[spot.place] / spot.rows, 1.0) if spot.rows > 0.0 else 1.0 for spot in copy.spots]
    found = descent(copy.network, flows, copy.places, steps)
    return SemanticRoadMap.of(network, copy, found, _Cuts(copy.spots, cells, hulls, judging.named, coming(network)))


def coming(network: Network) -> dict[str, frozenset[str] | None]:
    """The inputs whose rows come to each input and arc; None behind an aggregate, whose rows come from no one input."""
    boxes = {box.name: box for box in network.boxes}
    found: dict[str, frozenset[str] | None] = {}
    at_node: dict[str, frozenset[str] | None] = {}
    for name in network.order:
        above = [at_node[arc.source] for arc in network.into[name]]
        if not above:
            at_node[name] = found[name] = frozenset({name})
        elif name in boxes and (boxes[name].op == "aggregate" or None in above):
            at_node[name] = None
        else:
            at_node[name] = frozenset().union(*(one for one in above if one is not None))
        found |= {arc.name: at_node[name] for arc in network.out_of[name]}
    return found


@dataclass(frozen=True)
class SemanticRoadMap(RoadMap):
    """Plans with drops by value, in ascending order of shed work."""

    copy: Unfolded  #: the network unfolded by cells
    shares: NDArray[np.float64]  #: share of rows that pass each of its spots, one row an entry
    cuts: "_Cuts"  #: the same in values

    @classmethod
    def of(cls, network: Network, copy: Unfolded, found: RoadMap, cuts: "_Cuts") -> "SemanticRoadMap":
        """The road map of the copy, in terms of the network."""
        random = [number for number, spot in enumerate(copy.spots) if spot.label is None]
        column = {name: number for number, name in enumerate(found.outputs)}
        outputs = tuple(one.name for one in network.outputs)
        weights = np.zeros((len(found.outputs), len(outputs)))
        for number, name in enumerate(outputs):
            total = sum(copy.outputs[name].values())
            for part, rows in copy.outputs[name].items():
                weights[column[part], number] = rows / total if total > 0.0 else 0.0
        return cls(
            found.inputs,
            tuple(copy.spots[number].place for number in random),
            outputs,
            found.savings,
            found.keep[:, random],
            found.delivered @ weights,
            found.utility,
            copy,
            found.keep,
            cuts,
        )

    def entry(self, index: int) -> Entry:
        """An entry by its number, with the conditions of drops by value."""
        return replace(super().entry(index), predicates=self.cuts.predicates(self.shares[index]))


@dataclass(frozen=True)
class _Cuts:
    """Translates shares at spots into sets of values."""

    spots: tuple[Spot, ...]
    judged: Mapping[str, Judged]
    hulls: Mapping[str, Hull]
    subjects: Mapping[str, str]
    coming: Mapping[str, frozenset[str] | None]

    def predicates(self, shares: NDArray[np.float64]) -> dict[str, Predicate]:
        """What each place keeps; places that keep everything are left out."""
        cuts = self._cuts(shares)
        kept = dict[str, dict[str, IntervalSet]]()
        dropping = {self.spots[number].place for number in cuts if shares[number] < _ALL}
        for number, spot in enumerate(self.spots):
            if spot.place not in dropping or spot.label is None:
                continue
            by_origin = kept.setdefault(spot.place, {})
            for origin in sorted(spot.origins):
                by_origin.setdefault(origin, IntervalSet.everything())
                if shares[number] < _ALL:
                    by_origin[origin] -= self._dropped(spot, spot.label, cuts[number])
        return {place: self._predicate(place, by_origin) for place, by_origin in kept.items()}

    def _predicate(self, place: str, by_origin: dict[str, IntervalSet]) -> Predicate:
        coming = self.coming[place]
        if coming is None:
            # Behind an aggregate the input of a row is unknown.
            by_origin = dict.fromkeys(by_origin, union(list(by_origin.values())))
        others = frozenset() if coming is None else coming - by_origin.keys()
        return Predicate(self.subjects[place], by_origin, others)

    def _cuts(self, shares: NDArray[np.float64]) -> dict[int, float]:
        """The share of each cell's values, from the lower end on, that a spot drops."""
        found = dict[int, float]()
        for number, spot in enumerate(self.spots):
            if spot.label is not None:
                # Lower values are dropped first everywhere, so values dropped here are above those dropped upstream.
                coming = [(max((found[one] for one in way), default=0.0), rows) for way, rows in spot.ways.items()]
                found[number] = _cut(coming, float(shares[number]))
        return found

    def _dropped(self, spot: Spot, label: Label, cut: float) -> IntervalSet:
        """The values that a spot drops, in terms of its place."""
        start = label.group.start
        cell = self.judged[start].cells[label.cell].values
        values = cell - self.hulls[start].upper(cell, 1.0 - cut)
        return values if spot.view is None else spot.view.there(values)


def _cut(coming: list[tuple[float, float]], share: float) -> float:
    """The cut that leaves a share of the rows, if the rows of each path begin at different cuts.

    >>> _cut([(0.5, 1.0)], 0.5), _cut([(0.0, 1.0), (0.8, 5.0)], 0.5)
    (0.75, 0.8333333333333334)
    """
    wanted = share * sum(rows * (1.0 - begin) for begin, rows in coming)
    # From the top down: a path ends where the cut falls below its beginning.
    rate, left, cut = sum(rows for _, rows in coming), 0.0, 1.0
    for begin, rows in sorted(coming, reverse=True):
        if left + rate * (cut - begin) >= wanted:
            break
        left, cut, rate = left + rate * (cut - begin), begin, rate - rows
    return cut - (wanted - left) / rate if rate > 0.0 else cut
