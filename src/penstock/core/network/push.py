r"""Semantic drops pushed upstream (Carney et al. 2002: backward and forward interval propagation).

An output keeps rows whose value lies in a set. Upstream of a filter or a union that is the same condition, narrowed by
what the filter lets through. Upstream of a map it is a condition on what the value is made of: as long as there is an
inverse the set is moved backward, from there on the expression is computed forward, at the drop.
"""

from dataclasses import dataclass

from penstock.core.network.conditions import narrowed
from penstock.core.network.intervals import IntervalSet, union
from penstock.core.network.lineage import Path, Tracer
from penstock.core.network.model import Network
from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Pushed:
    """Rows are kept for which an expression lies in a set."""

    subject: str
    values: IntervalSet

    def sql(self) -> str:
        """The condition."""
        return self.values.sql(self.subject)


def push(network: Network, output: str, kept: IntervalSet) -> dict[str, Pushed]:
    """What to keep at each arc and input upstream of an output, so that of its rows it gets those in a set.

    Arcs are left out where the value is not known yet, or where it is made in different ways.

    >>> from penstock.core.network.model import Box, Input, Output
    >>> from penstock.core.network.qos import LossTolerance, ValueInterval, ValueQos
    >>> graph = ValueQos("value", [ValueInterval(0, 50, 0.2), ValueInterval(50, 100, 1.0)], histogram=[0.4, 0.6])
    >>> network = Network(
    ...     [Input("I", 10)],
    ...     [
    ...         Box("size", "map", ("I",), 1, select={"value": "abs(x - y) * 10"}),
    ...         Box("high", "filter", ("size",), 1, 0.5, where="value > 10"),
    ...         Box("scale", "map", ("high",), 1, select={"value": "value * 2 + 1"}),
    ...     ],
    ...     [Output("O", "scale", LossTolerance([(100, 1.0), (0, 0.0)]), graph)],
    ... )
    >>> for arc, pushed in push(network, "O", graph.kept(80)).items():
    ...     print(arc, pushed.sql())
    I ABS(x - y) >= 1.2
    I->size ABS(x - y) >= 1.2
    size->high value >= 12
    high->scale value >= 12
    scale->O value >= 25
    """
    if output not in {one.name for one in network.outputs if one.value}:
        accepted = ", ".join(one.name for one in network.outputs if one.value) or "one with a value graph"
        raise PenstockError.setting("output", output, f"an output with a value graph: {accepted}")
    tracer = Tracer(network)
    found = {}
    for place in (*(one.name for one in network.inputs), *(arc.name for arc in network.arcs)):
        paths = [path for path in tracer.paths(place) if path.output == output]
        if paths and (pushed := _pushed(tracer, paths, kept)) is not None:
            found[place] = pushed
    return found


def _pushed(tracer: Tracer, paths: list[Path], kept: IntervalSet) -> Pushed | None:
    found = dict[str, list[IntervalSet]]()
    for path in paths:
        value = tracer.value(path.output, path.columns)
        if value is None:
            return None
        values = value.back(kept)
        for _, where in path.filters:
            values &= IntervalSet.everything() if where is None else narrowed(where, value.core).values
        found.setdefault(value.core, []).append(values)
    if len(found) > 1:
        return None
    subject, sets = found.popitem()
    return Pushed(subject, union(sets))
