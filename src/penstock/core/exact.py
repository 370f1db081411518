r"""The best drops of all, as a linear program.

Which places a drop stands at follows from the flows $f_a$ on arcs alone, so no place has to be chosen: an arc carries
at most what its node puts out, a box puts out $\sum_a s_a f_a$, and work is $\sum_a c_a f_a$. Utilities are concave and
piecewise linear, so they are sums of pieces that fill in order. With $k$ pieces of length $\ell$ and slope $u$,

$$\max \sum_o \sum_k u_{ok} z_{ok} \quad\text{subject to}\quad \sum_a c_a f_a \le B,
\quad f_a \le \sum_{a'} s_{a'} f_{a'},
\quad f_o \ge \tfrac{F_o}{100} \sum_k z_{ok}, \quad 0 \le z_{ok} \le \ell_{ok}$$

`max_min` first makes the worst output as good as it can be, then the sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from penstock.core.drops import places
from penstock.core.network import Network
from penstock.errors import PenstockError

Objective = Literal["sum", "max_min"]


@dataclass(frozen=True)
class Optimum:
    """The best flows within a budget of work.

    Attributes:
        keep: The share of rows that each place lets through; places without a drop are left out.
        delivered: Percent of its rows that each output gets.
        utilities: What that is worth, by output.
    """

    keep: dict[str, float]
    delivered: dict[str, float]
    utilities: dict[str, float]

    @property
    def utility(self) -> float:
        """Utilities of all outputs, summed."""
        return sum(self.utilities.values())


def best(
    network: Network, budget: float, rates: Mapping[str, float] | None = None, objective: Objective = "sum"
) -> Optimum:
    """The drops that lose the least utility with work of at most `budget` a second.

    >>> from penstock.core.network import Box, Input, Output
    >>> from penstock.core.qos import LossTolerance
    >>> network = Network(
    ...     [Input("I", 10)],
    ...     [Box("dear", "map", ("I",), 9), Box("cheap", "map", ("I",), 1)],
    ...     [Output("A", "dear", LossTolerance([(100, 1.0), (0, 0.0)])),
    ...      Output("B", "cheap", LossTolerance([(100, 1.0), (0, 0.0)]))],
    ... )
    >>> best(network, budget=55).delivered
    {'A': 50.0, 'B': 100.0}
    """
    if objective not in ("sum", "max_min"):
        raise PenstockError.setting("objective", objective, "one of sum, max_min")
    program = _Program(network, dict(network.rates if rates is None else rates), budget)
    worst = program.worst() if objective == "max_min" else 0.0
    return program.optimum(worst)


class _Program:
    """Variables: the flow on each arc, what is let in at each input, the pieces of each graph, the worst utility."""

    def __init__(self, network: Network, rates: Mapping[str, float], budget: float) -> None:
        self._network, self._rates = network, rates
        self._full = network.flows(rates)
        self._column = {arc.name: number for number, arc in enumerate(network.arcs)}
        for one in network.inputs:
            self._column[one.name] = len(self._column)
        self._pieces: dict[str, list[tuple[int, float]]] = {}
        self._bounds: list[tuple[float, float | None]] = [(0.0, None)] * len(network.arcs)
        self._bounds += [(0.0, rates[one.name]) for one in network.inputs]
        for output in network.outputs:
            points = tuple(reversed(tuple(output.loss_tolerance.points)))
            self._pieces[output.name] = []
            for (low, bad), (high, good) in pairwise(points):
                self._pieces[output.name].append((len(self._bounds), (good - bad) / (high - low)))
                self._bounds.append((0.0, high - low))
        self._worst = len(self._bounds)
        self._bounds.append((0.0, None))
        self._terms: list[tuple[int, int, float]] = []
        self._limits: list[float] = []
        for arc in network.arcs:
            self._not_more({arc.name: 1.0}, arc.source)
        for output in network.outputs:
            arc = network.into[output.name][0]
            row = self._row(0.0)
            self._terms += [(row, column, self._full[arc.name] / 100.0) for column, _ in self._pieces[output.name]]
            self._terms.append((row, self._column[arc.name], -1.0))
        row = self._row(budget)
        self._terms += [(row, self._column[arc.name], arc.cost) for arc in network.arcs if arc.cost]

    def _row(self, limit: float) -> int:
        self._limits.append(limit)
        return len(self._limits) - 1

    def _not_more(self, terms: dict[str, float], node: str) -> None:
        row = self._row(0.0)
        self._terms += [(row, self._column[name], factor) for name, factor in terms.items()]
        sources = self._network.into[node]
        if sources:
            self._terms += [(row, self._column[arc.name], -arc.selectivity) for arc in sources]
        else:
            self._terms.append((row, self._column[node], -1.0))

    def worst(self) -> float:
        """The utility that every output can have at once."""
        rows = list[tuple[int, int, float]]()
        for number, (name, pieces) in enumerate(self._pieces.items()):
            rows += [(number, column, -slope) for column, slope in pieces]
            rows.append((number, self._worst, 1.0))
            _ = name
        least = [output.loss_tolerance.utility(0.0) for output in self._network.outputs]
        goal = np.zeros(len(self._bounds))
        goal[self._worst] = -1.0
        return float(self._solve(goal, rows, least)[self._worst])

    def optimum(self, worst: float) -> Optimum:
        """The largest sum in which no output is worse off than that."""
        goal = np.zeros(len(self._bounds))
        rows, limits = list[tuple[int, int, float]](), list[float]()
        for number, output in enumerate(self._network.outputs):
            for column, slope in self._pieces[output.name]:
                goal[column] = -slope
                rows.append((number, column, -slope))
            limits.append(output.loss_tolerance.utility(0.0) - worst * (1.0 - 1e-9))
        found = self._solve(goal, rows, limits)
        flow = {name: max(float(found[column]), 0.0) for name, column in self._column.items()}
        return self._read(flow)

    def _solve(
        self, goal: NDArray[np.float64], rows: list[tuple[int, int, float]], limits: list[float]
    ) -> NDArray[np.float64]:
        terms = self._terms + [(len(self._limits) + row, column, factor) for row, column, factor in rows]
        row, column, factor = (np.array(part) for part in zip(*terms, strict=True))
        shape = (len(self._limits) + len(limits), len(self._bounds))
        matrix = coo_array((factor.astype(float), (row, column)), shape=shape).tocsr()
        found = linprog(goal, A_ub=matrix, b_ub=[*self._limits, *limits], bounds=self._bounds, method="highs")
        if found.x is None:
            raise PenstockError(f"the linear program has no solution: {found.message}")
        return np.asarray(found.x, np.float64)

    def _read(self, flow: dict[str, float]) -> Optimum:
        network = self._network
        # What is let in and goes nowhere is not let in: the program does not mind.
        leaving = {one.name: max(flow[arc.name] for arc in network.out_of[one.name]) for one in network.inputs}
        for name in network.order:
            if name not in leaving:
                leaving[name] = sum(arc.selectivity * flow[arc.name] for arc in network.into[name])
        keep = {}
        for place in places(network):
            before = self._rates[place.node] if place.arc is None else leaving[place.node]
            after = leaving[place.node] if place.arc is None else flow[place.arc.name]
            share = min(after / before, 1.0) if before > 0.0 else 1.0
            if share < 1.0 - 1e-9:
                keep[place.name] = share
        delivered = {}
        for output in network.outputs:
            arc = network.into[output.name][0].name
            full = self._full[arc]
            delivered[output.name] = round(min(100.0 * flow[arc] / full, 100.0), 9) if full > 0.0 else 100.0
        utilities = {one.name: one.loss_tolerance.utility(delivered[one.name]) for one in network.outputs}
        return Optimum(keep, delivered, utilities)
