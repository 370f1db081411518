r"""Query networks: inputs, boxes and outputs, joined by arcs that rows flow along.

A box takes rows from its sources, spends `cost` on each and returns `selectivity` rows for each. Its output goes to
every consumer, so queries share work. The load coefficient of an arc is the work that one row
on it causes downstream (Tatbul et al. 2003, eq. 1, with fan-out):

$$L_a = c_b + s_b \sum_{a' \text{ out of } b} L_{a'}, \qquad L_{\text{to an output}} = 0, \qquad
\text{load} = \sum_i r_i L_i$$

where an input's $L_i$ is the sum over its arcs. A union or join counts the rows of all its sources. The paper adds a
share of the rows that wait on arcs; on Spark a micro-batch leaves none there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from penstock.core.network.qos import DelayQos, LossTolerance, ValueQos
from penstock.core.settings import number, one_of
from penstock.errors import PenstockError

Op = Literal["filter", "union", "join", "map", "aggregate"]

#: How many sources a box of each kind has: at least, at most.
SOURCES: dict[Op, tuple[int, int]] = {
    "filter": (1, 1),
    "map": (1, 1),
    "aggregate": (1, 1),
    "union": (2, 1000),
    "join": (2, 2),
}


@dataclass(frozen=True, slots=True)
class Input:
    """A source of rows with a rate; its columns, if given, assign the columns of a join to a side."""

    name: str
    rate: float
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """An operator: `cost` a row, `selectivity` rows out for each row in, optionally by source.

    Its function is needed only to run it, and to push conditions on values upstream.
    """

    name: str  #: its name
    op: Op  #: its kind
    sources: tuple[str, ...]  #: where its rows come from
    cost: float  #: work on a row
    selectivity: float | Mapping[str, float] = 1.0  #: rows out for each row in
    where: str | None = None  #: of a filter: the condition in SQL
    #: Of a map: columns that are added or replaced, the others stay; of an aggregate: its results. In SQL.
    select: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()  #: of an aggregate: the columns that make a group
    on: tuple[str, ...] = ()  #: of a join: the columns that must be equal
    #: Of an aggregate: the length of its windows; of a join: how far apart in time two rows may be.
    window_s: float | None = None
    python: str | None = None  #: of a map: a function of a row, as `module:function`
    returns: str | None = None  #: of such a map: the columns of the result, as a schema in SQL

    def selectivity_of(self, source: str) -> float:
        """Rows out for each row from a source."""
        return self.selectivity[source] if isinstance(self.selectivity, Mapping) else self.selectivity


@dataclass(frozen=True, slots=True)
class Output:
    """A destination of a query's rows, with their utility."""

    name: str
    source: str
    loss_tolerance: LossTolerance
    value: ValueQos | None = None
    latency: DelayQos | None = None


@dataclass(frozen=True, slots=True)
class Arc:
    """Rows from one node to another, with the consumer's cost and selectivity for them."""

    name: str
    source: str
    target: str
    cost: float
    selectivity: float


@dataclass(frozen=True)
class Network:
    """Inputs, boxes and outputs, validated together.

    The example of the paper's Figure 4, as far as it is legible:

    >>> whole = LossTolerance([(100, 1.0), (0, 0.0)])
    >>> network = Network(
    ...     inputs=[Input("I1", 10), Input("I2", 20)],
    ...     boxes=[
    ...         Box("b1", "filter", ("I1",), cost=10, selectivity=0.5), Box("b2", "filter", ("b1",), 10, 0.6),
    ...         Box("b3", "map", ("b2",), 5), Box("b4", "filter", ("b1",), 10, 0.8),
    ...         Box("b5", "filter", ("I2",), 10, 0.7), Box("b6", "union", ("b4", "b5"), 10, 0.5),
    ...         Box("b7", "map", ("b6",), 5),
    ...     ],
    ...     outputs=[Output("O1", "b3", whole), Output("O2", "b7", whole)],
    ... )
    >>> network.coefficients["I1"], network.coefficients["I2"], network.load()
    (26.5, 18.75, 640.0)
    """

    inputs: Sequence[Input]  #: where rows come from
    boxes: Sequence[Box]  #: operators, in any order
    outputs: Sequence[Output]  #: destinations of rows
    arcs: tuple[Arc, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Refuse names given twice, arcs that lead nowhere, cycles, and statistics that are missing or impossible."""
        for name, times in Counter(self._names).items():
            if times > 1:
                raise PenstockError.setting("name", name, "each name once, among inputs, boxes and outputs")
        for one in self.inputs:
            number(f"rate of {one.name}", one.rate, 0.0)
        for box in self.boxes:
            self._check(box)
        for output in self.outputs:
            self._check_source(output.name, output.source)
        object.__setattr__(self, "arcs", tuple(self._arcs()))
        if not self.outputs:
            raise PenstockError("outputs are missing: a network needs one at least")
        for name in self._producers:
            if not self.out_of[name]:
                raise PenstockError.setting("from", name, "it as a source somewhere: nothing takes its rows")
        _ = self.order

    def _check(self, box: Box) -> None:
        least, most = SOURCES[one_of(f"op of {box.name}", box.op, SOURCES)]
        if not least <= len(box.sources) <= most:
            wanted = f"{least}" if least == most else f"{least} or more"
            raise PenstockError.setting(f"from of {box.name}", list(box.sources), f"{wanted} for a {box.op}")
        for source in box.sources:
            self._check_source(box.name, source)
        number(f"cost of {box.name}", box.cost, 0.0)
        if isinstance(box.selectivity, Mapping) and set(box.selectivity) != set(box.sources):
            raise PenstockError.setting(
                f"selectivity of {box.name}", dict(box.selectivity), f"one for each of {', '.join(box.sources)}"
            )
        for source in box.sources:
            number(f"selectivity of {box.name}", box.selectivity_of(source), 0.0)

    def _check_source(self, name: str, source: str) -> None:
        if source not in self._producers:
            accepted = f"an input or a box: {', '.join(self._producers)}"
            raise PenstockError.setting(f"from of {name}", source, accepted)

    @cached_property
    def _producers(self) -> dict[str, None]:
        return dict.fromkeys([*(one.name for one in self.inputs), *(box.name for box in self.boxes)])

    @property
    def _names(self) -> list[str]:
        inputs, boxes = [one.name for one in self.inputs], [box.name for box in self.boxes]
        return inputs + boxes + [output.name for output in self.outputs]

    def _arcs(self) -> list[Arc]:
        found: list[Arc] = []
        for box in self.boxes:
            for place, source in enumerate(box.sources):
                again = f"#{box.sources[:place].count(source) + 1}" if source in box.sources[:place] else ""
                found.append(
                    Arc(f"{source}->{box.name}{again}", source, box.name, box.cost, box.selectivity_of(source))
                )
        found.extend(Arc(f"{one.source}->{one.name}", one.source, one.name, 0.0, 0.0) for one in self.outputs)
        return found

    @cached_property
    def out_of(self) -> dict[str, tuple[Arc, ...]]:
        """The arcs out of each node."""
        found: dict[str, list[Arc]] = {name: [] for name in self._names}
        for arc in self.arcs:
            found[arc.source].append(arc)
        return {name: tuple(arcs) for name, arcs in found.items()}

    @cached_property
    def into(self) -> dict[str, tuple[Arc, ...]]:
        """The arcs into each node."""
        found: dict[str, list[Arc]] = {name: [] for name in self._names}
        for arc in self.arcs:
            found[arc.target].append(arc)
        return {name: tuple(arcs) for name, arcs in found.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All nodes, each behind its sources."""
        waits = {name: len(arcs) for name, arcs in self.into.items()}
        ready = [name for name, arcs in waits.items() if not arcs]
        for name in ready:
            for arc in self.out_of[name]:
                waits[arc.target] -= 1
                if not waits[arc.target]:
                    ready.append(arc.target)
        if len(ready) < len(waits):
            circle = ", ".join(name for name, arcs in waits.items() if arcs)
            raise PenstockError(f"the network has a cycle through {circle}: rows must flow from inputs to outputs")
        return tuple(ready)

    @cached_property
    def coefficients(self) -> dict[str, float]:
        """The load coefficient of each arc, and of each input."""
        found: dict[str, float] = {}
        at_node = dict.fromkeys(self.out_of, 0.0)
        for name in reversed(self.order):
            for arc in self.out_of[name]:
                found[arc.name] = arc.cost + arc.selectivity * at_node[arc.target]
            at_node[name] = sum(found[arc.name] for arc in self.out_of[name])
        return {one.name: at_node[one.name] for one in self.inputs} | found

    @property
    def rates(self) -> dict[str, float]:
        """Rows a second of each input."""
        return {one.name: one.rate for one in self.inputs}

    def flows(self, rates: Mapping[str, float] | None = None) -> dict[str, float]:
        """Rows a second on each arc, nothing shed."""
        at_node: dict[str, float] = dict(self.rates if rates is None else rates)
        found: dict[str, float] = {}
        for name in self.order:
            if name not in at_node:
                at_node[name] = sum(arc.selectivity * found[arc.name] for arc in self.into[name])
            for arc in self.out_of[name]:
                found[arc.name] = at_node[name]
        return found

    def load(self, rates: Mapping[str, float] | None = None) -> float:
        """Work a second at these rates of the inputs; at those of the network if not given."""
        rates = self.rates if rates is None else rates
        return sum(rate * self.coefficients[name] for name, rate in rates.items())
