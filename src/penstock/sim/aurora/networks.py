"""Random query networks: those of the Aurora paper, sections 5.2 and 6.4, and irregular ones."""

import numpy as np

from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import LossTolerance
from penstock.sim.aurora.value_network import ValueNetwork

#: Work on a row, by kind of operator.
FILTER_COST, UNION_COST = 10.0, 5.0
#: Constants of filters are drawn below this value: most outputs then see values of both intervals.
HIGHEST_CONSTANT = 50
#: A utility is one of 0.1, 0.2 ... 1.0.
LEVELS = 10
#: Queries without sharing, as in the paper; and those that share an operator.
_QUERIES, _INPUTS, _FILTERS, _SHARING = 5, 18, 34, 20
#: Irregular queries: boxes behind the union, the share of maps among them, and the fewest boxes a query can have.
_TAIL, _MAPS, _LEAST_QUERY = 6, 0.2, 4
#: Replaced by the graph that follows from the values; a network needs one.
_SOME = LossTolerance([(100, 1.0), (0, 0.0)])


def low_utilities(rng: np.random.Generator, outputs: int, skew: float) -> dict[str, float]:
    """The utility of values of the first interval at each output: k/10 with a probability of k to the -skew."""
    levels = np.arange(1, LEVELS + 1)
    chances = levels**-skew
    drawn = rng.choice(levels, outputs, p=chances / chances.sum()) / LEVELS
    return {f"O{number}": float(utility) for number, utility in enumerate(drawn)}


def trees(rng: np.random.Generator, skew: float = 0.0) -> ValueNetwork:
    """Queries without sharing: each a tree of unions over two inputs or more, with filters anywhere in it.

    >>> made = trees(np.random.default_rng(0))
    >>> len(made.network.inputs), len(made.network.boxes), len(made.above)
    (18, 47, 34)
    """
    sizes = rng.multinomial(_INPUTS - 2 * _QUERIES, [1.0 / _QUERIES] * _QUERIES) + 2
    streams_in_all = _INPUTS + _INPUTS - _QUERIES
    filters = np.bincount(rng.integers(streams_in_all, size=_FILTERS), minlength=streams_in_all).tolist()
    inputs, boxes, above, outputs = list[Input](), list[Box](), dict[str, float](), list[Output]()

    def filtered(source: str) -> str:
        """The stream behind the filters that were drawn for it."""
        for _ in range(filters.pop()):
            name = f"f{len(above)}"
            boxes.append(Box(name, "filter", (source,), FILTER_COST))
            above[name] = float(rng.integers(HIGHEST_CONSTANT))
            source = name
        return source

    for query, size in enumerate(sizes.tolist()):
        streams = []
        for _ in range(size):
            inputs.append(Input(f"I{len(inputs)}", 1.0))
            streams.append(filtered(inputs[-1].name))
        while len(streams) > 1:
            left, right = sorted(rng.choice(len(streams), 2, replace=False).tolist())
            boxes.append(Box(f"u{len(boxes)}", "union", (streams.pop(right), streams.pop(left)), UNION_COST))
            streams.append(filtered(boxes[-1].name))
        outputs.append(Output(f"O{query}", streams[0], _SOME))
    return ValueNetwork(Network(inputs, boxes, outputs), above, low_utilities(rng, _QUERIES, skew))


def shared(rng: np.random.Generator, skew: float = 0.0) -> ValueNetwork:
    """Identical queries on one input and one common operator, each with its own filter behind it."""
    boxes = [Box("common", "filter", ("I0",), FILTER_COST)]
    boxes += [Box(f"own{query}", "filter", ("common",), FILTER_COST) for query in range(_SHARING)]
    outputs = [Output(f"O{query}", f"own{query}", _SOME) for query in range(_SHARING)]
    above = {"common": 0.0} | {f"own{query}": 10.0 for query in range(_SHARING)}
    network = Network([Input("I0", 1.0)], boxes, outputs)
    return ValueNetwork(network, above, low_utilities(rng, _SHARING, skew), bend=75.0)


def irregular(rng: np.random.Generator, *, boxes: int = 100, sharing: float = 0.0) -> Network:
    """Queries whose costs, selectivities, rates and graphs of utility all differ.

    Each is a union of three filtered inputs with filters and maps behind it. With sharing, that share of the branches
    takes its rows from a filter of another query instead of its own input.

    >>> made = irregular(np.random.default_rng(0), boxes=1000, sharing=0.3)
    >>> len(made.boxes), len(made.outputs), len(made.inputs)
    (1000, 111, 228)
    """
    inputs, made, outputs, heads = list[Input](), list[Box](), list[Output](), list[str]()

    def cost() -> float:
        return float(rng.uniform(1.0, 10.0))

    while len(made) < boxes:
        sources = list[str]()
        for _ in range(3):
            others = [head for head in heads if head not in sources]
            if others and rng.random() < sharing:
                sources.append(others[int(rng.integers(len(others)))])
                continue
            name = str(len(inputs))
            inputs.append(Input(f"I{name}", float(rng.uniform(1.0, 10.0))))
            made.append(Box(f"head{name}", "filter", (f"I{name}",), cost(), float(rng.uniform(0.3, 1.0))))
            sources.append(f"head{name}")
        heads += [source for source in sources if source not in heads]
        last = f"all{len(outputs)}"
        made.append(Box(last, "union", tuple(sources), cost()))
        for _ in range(boxes - len(made) if boxes - len(made) < _TAIL + _LEAST_QUERY else _TAIL):
            name = f"tail{len(made)}"
            if rng.random() < _MAPS:
                made.append(Box(name, "map", (last,), cost()))
            else:
                made.append(Box(name, "filter", (last,), cost(), float(rng.uniform(0.5, 1.0))))
            last = name
        bend = float(rng.uniform(20.0, 80.0))
        utility = 1.0 - (1.0 - bend / 100.0) * float(rng.uniform(0.1, 1.0))
        outputs.append(Output(f"O{len(outputs)}", last, LossTolerance([(100, 1.0), (bend, utility), (0, 0.0)])))
    return Network(inputs, made, outputs)
