"""The time to build and read road maps of large random networks, against a linear program at every change."""

import time
from collections.abc import Callable

import numpy as np

from penstock.bench.spread import spread
from penstock.core.network import exact, roadmap
from penstock.core.network.map_upkeep import Keeper
from penstock.core.network.roadmap import Solver
from penstock.sim.aurora.networks import irregular
from penstock.sim.figure import Row

#: Loads at which maps are read, and programs solved, in a repeat.
_LOOKS, _PROGRAMS = 200, 5
SHARING = (0.0, 0.3)


def bench_roadmap(boxes: int, repeats: int, seed: int, done: Callable[[int], None] = lambda _: None) -> Row:
    """Build, read and ask in turn, so that machine noise affects all equally."""
    rng = np.random.default_rng(seed)
    networks = {sharing: irregular(rng, boxes=boxes, sharing=sharing) for sharing in SHARING}
    cases: list[tuple[float, Solver]] = [(sharing, solver) for sharing in SHARING for solver in ("greedy", "exact")]
    times: dict[tuple[float, Solver], dict[str, list[float]]] = {
        case: {"build_s": [], "look_up_us": [], "ask_us": [], "program_ms": []} for case in cases
    }
    sizes = dict[tuple[float, Solver], int]()
    for _ in range(repeats):
        for sharing, solver in cases:
            network, own = networks[sharing], times[sharing, solver]
            rates, load = network.rates, network.load()
            started = time.perf_counter()
            made = roadmap.build(network, solver=solver)
            own["build_s"].append(time.perf_counter() - started)
            sizes[sharing, solver] = len(made)
            cursor = 0
            for excess in rng.uniform(0.0, load, _LOOKS).tolist():
                started = time.perf_counter()
                cursor = made.find(excess, rates, cursor)
                own["look_up_us"].append(1e6 * (time.perf_counter() - started))
            keeper = Keeper(lambda *_, kept=made: kept, network)
            for _ in range(_LOOKS):
                started = time.perf_counter()
                keeper.drift(network, rates)
                own["ask_us"].append(1e6 * (time.perf_counter() - started))
            for excess in rng.uniform(0.1, 0.9, _PROGRAMS).tolist():
                started = time.perf_counter()
                exact.best(network, (1.0 - excess) * load)
                own["program_ms"].append(1e3 * (time.perf_counter() - started))
        done(1)
    rows = []
    for (sharing, solver), own in times.items():
        row: Row = {
            "sharing": sharing,
            "solver": solver,
            "inputs": len(networks[sharing].inputs),
            "outputs": len(networks[sharing].outputs),
            "entries": sizes[sharing, solver],
            **{name: spread(values) for name, values in own.items()},
        }
        row["program_over_look_up"] = 1e3 * row["program_ms"]["median"] / row["look_up_us"]["median"]
        rows.append(row)
    parameters = {"boxes": boxes, "repeats": repeats, "seed": seed, "look_ups": _LOOKS, "programs": _PROGRAMS}
    (default,) = [row for row in rows if (row["sharing"], row["solver"]) == (SHARING[-1], "exact")]
    return {
        "bench": "roadmap",
        "parameters": parameters,
        # The default for a network with some sharing.
        **{name: default[name] for name in ("build_s", "look_up_us", "ask_us", "program_over_look_up")},
        "rows": rows,
    }
