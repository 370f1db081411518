"""A network split by the origin of rows: a box may return more of one input's rows than of another's.

Each box is copied for each input whose rows reach it. So costs and selectivities are known by origin, and a drop behind
a union may remove the rows of one origin alone. Outputs collect the rows of the copies.
"""

from collections.abc import Callable
from dataclasses import replace

from penstock.core.network.model import Box, Network

#: Rows out of a box for each row of an origin that comes into it.
Selectivity = Callable[[Box, str], float]

_SEPARATOR = "|"


def by_origin(network: Network, selectivity: Selectivity | None = None) -> Network:
    """The network with one copy of each box for each origin; `selectivity` gives that by origin.

    >>> from penstock.core.network.model import Input, Output
    >>> from penstock.core.network.qos import LossTolerance
    >>> whole = LossTolerance([(100, 1.0), (0, 0.0)])
    >>> network = Network(
    ...     [Input("A", 1), Input("B", 1)],
    ...     [Box("both", "union", ("A", "B"), 2), Box("high", "filter", ("both",), 4, 0.5)],
    ...     [Output("O", "high", whole)],
    ... )
    >>> apart = by_origin(network, lambda box, origin: {"A": 0.9, "B": 0.1}[origin] if box.op == "filter" else 1.0)
    >>> sorted(box.name for box in apart.boxes)
    ['O|', 'both|A', 'both|B', 'high|A', 'high|B']
    >>> apart.load(), network.load()
    (12.0, 12.0)
    """
    origins: dict[str, list[str]] = {one.name: [one.name] for one in network.inputs}
    for name in network.order:
        if name not in origins:
            found = [origin for arc in network.into[name] for origin in origins[arc.source]]
            origins[name] = list(dict.fromkeys(found))
    inputs = {one.name for one in network.inputs}

    def copy_of(name: str, origin: str) -> str:
        return name if name in inputs else f"{name}{_SEPARATOR}{origin}"

    boxes = []
    for box in network.boxes:
        for origin in origins[box.name]:
            sources = tuple(copy_of(source, origin) for source in box.sources if origin in origins[source])
            share = box.selectivity_of(box.sources[0]) if selectivity is None else selectivity(box, origin)
            op = box.op if len(sources) == len(box.sources) else "map"
            boxes.append(replace(box, name=copy_of(box.name, origin), op=op, sources=sources, selectivity=share))
    outputs = []
    for output in network.outputs:
        sources = tuple(copy_of(output.source, origin) for origin in origins[output.source])
        if len(sources) > 1:
            boxes.append(Box(f"{output.name}{_SEPARATOR}", "union", sources, 0.0))
            sources = (f"{output.name}{_SEPARATOR}",)
        outputs.append(replace(output, source=sources[0]))
    return Network(network.inputs, boxes, outputs)
