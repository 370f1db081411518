r"""What the outputs and filters below a place say about the values of its rows.

Each path from the place to an output constrains the shares of certain sets. A filter with selectivity $s$ stops $1 - s$
of its rows, and the rest follow the output's histogram. A least squares fit combines all paths; without constraints,
values are spread evenly.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from penstock.core.network.by_value.cells import Cell, Hull, Judged, atoms
from penstock.core.network.expressions import Peeled, narrowed
from penstock.core.network.intervals import Interval, IntervalSet
from penstock.core.network.lineage import Columns, Path, Tracer
from penstock.core.network.model import Network
from penstock.core.network.qos import ValueQos
from penstock.errors import PenstockError

#: The weight of the prior against the constraints, and of the constraints against the sum of shares.
_GUESS, _WHOLE = 1e-5, 1e2


class Judge:
    """The sets of a subject's values that matter below a place where all outputs have that subject."""

    def __init__(self, network: Network, tracer: Tracer, place: str, subject: str) -> None:
        self.place, self.subject = place, subject
        self._selectivity = {arc.target: arc.selectivity for arc in network.arcs}
        graphs = {one.name: one.value for one in network.outputs if one.value is not None}
        self._ways: list[tuple[Path, Peeled, ValueQos]] = []
        for path in tracer.paths(place):
            view = tracer.value(path.output, path.columns)
            if view is not None:
                self._ways.append((path, view, graphs[path.output]))
        ends = [view.back(IntervalSet.of(Interval(*graph.ends))).parts[0] for _, view, graph in self._ways]
        #: The range of the values, as far as the graphs show it.
        self.hull = Hull(min(part.low for part in ends), max(part.high for part in ends))
        told = [grade for _, view, graph in self._ways for grade in self._grades(view, graph)]
        stops = [values for path, _, _ in self._ways for _, values in self._filters(path)]
        #: The values that pass the filters right above the place.
        self.passed = self._passed(network, tracer)
        #: The sets of values to distinguish, from low to high.
        self.atoms = atoms([self.passed, *stops, *(values for values, _ in told)])

    def checked(self, given: Judged | None) -> Judged:
        """The given cells; estimated ones if none of them has rows."""
        if given is None or not sum(cell.share for cell in given.cells) > 0.0:
            return self.estimated()
        if given.subject != self.subject:
            raise PenstockError.setting(f"judged at {self.place}", given.subject, f"cells of {self.subject}")
        return given

    def estimated(self) -> Judged:
        """Cells with shares that fit what is known."""
        rows, known = [self._inside(~self.passed)], [0.0]
        for path, view, graph in self._ways:
            for values, share in self._shares(path, view, graph):
                rows.append(self._inside(values))
                known.append(share)
        even = np.array([self.hull.length(atom) for atom in self.atoms])
        even = even / even.sum() if even.sum() > 0.0 else np.full(len(even), 1.0 / len(even))
        count = len(even)
        matrix = np.vstack([*rows, _GUESS * np.eye(count), _WHOLE * np.ones((1, count))])
        found, _ = nnls(matrix, np.concatenate([known, _GUESS * even, [_WHOLE]]))
        found = found.round(9)  # the prior counts less here
        cells = zip(self.atoms, (found / found.sum()).tolist(), strict=True)
        return Judged(self.subject, tuple(Cell(atom, share) for atom, share in cells))

    def _passed(self, network: Network, tracer: Tracer) -> IntervalSet:
        boxes = {box.name: box for box in network.boxes}
        name = next((arc.source for arc in network.arcs if arc.name == self.place), "")
        found = IntervalSet.everything()
        while name in boxes and boxes[name].op == "filter":
            where = tracer.where(name, Columns())
            found &= IntervalSet.everything() if where is None else narrowed(where, self.subject).values
            name = boxes[name].sources[0]
        return found

    def _grades(self, view: Peeled, graph: ValueQos) -> list[tuple[IntervalSet, float]]:
        return [(view.back(values), share) for values, _, share in graph.graded()]

    def _filters(self, path: Path) -> list[tuple[str, IntervalSet]]:
        """Filters on the path with conditions on the subject."""
        asked = [(name, narrowed(where, self.subject).values) for name, where in path.filters if where is not None]
        return [(name, values) for name, values in asked if values != IntervalSet.everything()]

    def _shares(self, path: Path, view: Peeled, graph: ValueQos) -> list[tuple[IntervalSet, float]]:
        """Sets of values and their shares of the place's rows, by one path."""
        inside, left, found = IntervalSet.everything(), 1.0, []
        for name, values in self._filters(path):
            stopped, passed = inside - values, inside & values
            if stopped.parts and passed.parts:
                share = min(self._selectivity[name], 1.0)
                found.append((stopped, left * (1.0 - share)))
                inside, left = passed, left * share
        grades = [(values & inside, share) for values, share in self._grades(view, graph)]
        grades = [(values, share) for values, share in grades if values.parts]
        total = sum(share for _, share in grades)
        return found + [(values, left * share / total) for values, share in grades if total > 0.0]

    def _inside(self, values: IntervalSet) -> NDArray[np.float64]:
        return np.array([float(not (atom - values).parts) for atom in self.atoms])
