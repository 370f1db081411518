"""Networks that tests of the road map share."""

from dataclasses import replace

import numpy as np

from penstock.core.network.model import Box, Input, Network, Output
from penstock.core.network.qos import LossTolerance, ValueInterval, ValueQos

LINE = LossTolerance([(100, 1.0), (0, 0.0)])


def figure_4() -> Network:
    """The example of the paper, as far as it can be made out."""
    return Network(
        [Input("I1", 10), Input("I2", 20)],
        [
            Box("b1", "filter", ("I1",), 10, 0.5),
            Box("b2", "filter", ("b1",), 10, 0.6),
            Box("b3", "map", ("b2",), 5),
            Box("b4", "filter", ("b1",), 10, 0.8),
            Box("b5", "filter", ("I2",), 10, 0.7),
            Box("b6", "union", ("b4", "b5"), 10, 0.5),
            Box("b7", "map", ("b6",), 5),
        ],
        [
            Output("O1", "b3", LossTolerance([(100, 1.0), (60, 0.88), (0, 0.0)])),
            Output("O2", "b7", LossTolerance([(100, 1.0), (30, 0.6), (0, 0.0)])),
        ],
    )


def in_ms() -> Network:
    """The same, with costs in seconds that a task could take."""
    given = figure_4()
    return Network(given.inputs, [replace(box, cost=box.cost * 1e-4) for box in given.boxes], given.outputs)


def example_with_values() -> Network:
    """One input, two queries that share a filter, and values from 0 to 100 of which the higher ones count."""
    graph = ValueQos("value", [ValueInterval(0, 75, 0.2), ValueInterval(75, 100, 1.0)], histogram=[0.75, 0.25])
    return Network(
        [Input("I", 1000)],
        [
            Box("shared", "filter", ("I",), 0.001, 0.9, where="value > 10"),
            Box("dear", "map", ("shared",), 0.002),
            Box("cheap", "map", ("shared",), 0.0005),
        ],
        [Output("A", "dear", graph.loss_tolerance(), graph), Output("B", "cheap", graph.loss_tolerance(), graph)],
    )


def irregular(queries: int, seed: int, sharing: float = 0.0) -> Network:
    """Unions of three filtered inputs with filters behind them; some filters feed more than one query."""
    rng = np.random.default_rng(seed)
    inputs, boxes, outputs = list[Input](), list[Box](), list[Output]()

    def cost() -> float:
        return float(rng.uniform(1.0, 10.0))

    for query in range(queries):
        sources = list[str]()
        for branch in range(3):
            heads = [box.name for box in boxes if box.name.startswith("head") and box.name not in sources]
            if heads and rng.random() < sharing:
                sources.append(heads[int(rng.integers(len(heads)))])
                continue
            name = f"{query}.{branch}"
            inputs.append(Input(f"I{name}", float(rng.uniform(1.0, 10.0))))
            boxes.append(Box(f"head{name}", "filter", (f"I{name}",), cost(), float(rng.uniform(0.3, 1.0))))
            sources.append(f"head{name}")
        last = f"union{query}"
        boxes.append(Box(last, "union", tuple(sources), cost()))
        for step in range(6):
            name = f"tail{query}.{step}"
            boxes.append(Box(name, "filter", (last,), cost(), float(rng.uniform(0.5, 1.0))))
            last = name
        bend = float(rng.uniform(20.0, 80.0))
        utility = 1.0 - (1.0 - bend / 100.0) * float(rng.uniform(0.1, 1.0))
        outputs.append(Output(f"O{query}", last, LossTolerance([(100, 1.0), (bend, utility), (0, 0.0)])))
    return Network(inputs, boxes, outputs)


def of_all_sizes(seed: int, *, narrow: bool) -> Network:
    """Rates, costs and selectivities of all orders of magnitude, and splits; `narrow` graphs bend at tiny shares."""
    rng = np.random.default_rng(seed)
    inputs = [Input(f"I{number}", float(10.0 ** rng.uniform(-9.0, 9.0))) for number in range(rng.integers(1, 4))]
    names, boxes = [one.name for one in inputs], list[Box]()
    for number in range(rng.integers(2, 7)):
        union = len(names) > 1 and rng.random() < 0.2
        sources = tuple(rng.choice(names, 2 if union else 1, replace=False).tolist())
        cost, selectivity = float(10.0 ** rng.uniform(-9.0, 9.0)), float(10.0 ** rng.uniform(-9.0, 0.0))
        boxes.append(Box(f"b{number}", "union" if union else "filter", sources, cost, selectivity))
        names.append(f"b{number}")

    def graph() -> LossTolerance:
        percent = float(10.0 ** rng.uniform(-6.0, 1.9) if narrow else rng.uniform(5.0, 95.0))
        return LossTolerance([(100.0, 1.0), (percent, float(rng.uniform(percent / 100.0, 1.0))), (0.0, 0.0)])

    used = {source for box in boxes for source in box.sources}
    outputs = [Output(f"O{name}", name, graph()) for name in names if name not in used or rng.random() < 0.3]
    return Network(inputs, boxes, outputs)
