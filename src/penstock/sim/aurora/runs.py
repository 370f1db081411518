"""Single runs behind the Aurora figures: one random network, every algorithm, the loss of each in percent.

Capacity is the work of the network at a rate of one; an excess load of 0.22 is then a rate of 1.22. Only the network
and the order of Input-Random are random: the effect of drops is computed exactly.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.core.network import roadmap
from penstock.core.network.admission_control import costliest_first, evenly, one_by_one
from penstock.core.network.drops import Skeleton
from penstock.core.network.exact import best
from penstock.core.network.map_upkeep import Keeper
from penstock.core.network.model import Input, Network
from penstock.core.network.planner import Kind
from penstock.core.network.roadmap import RoadMap
from penstock.sim.aurora.networks import irregular
from penstock.sim.aurora.value_network import ValueNetwork, Vector
from penstock.sim.network_run import Batch, Machine, NetworkRun

ALGORITHMS = ("random_ls", "semantic_ls", "input_random", "input_cost_top", "input_uniform", "input_cost_uniform")
#: Input-Random is the mean of this many orders, as in the paper.
_ORDERS = 4

Keep = Mapping[str, Vector | float]


class Loss(NamedTuple):
    """Utility lost in percent, by how many rows were delivered and by which values; and the load, of capacity."""

    tuples: float
    values: float
    load: float


#: By excess load and algorithm.
Losses = dict[tuple[float, str], Loss]


def measured(network: ValueNetwork, excesses: tuple[float, ...], algorithms: tuple[str, ...], seed: int) -> Losses:
    """The loss of each algorithm at each excess load."""
    plans = _Plans(network, np.random.default_rng(seed), algorithms)
    found = {}
    for excess in excesses:
        for algorithm in algorithms:
            losses = [plans.loss(excess, keep) for keep in plans.keeps(algorithm, excess)]
            found[excess, algorithm] = Loss(*(sum(part) / len(losses) for part in zip(*losses, strict=True)))
    return found


class _Plans:
    """Keep shares of each algorithm."""

    def __init__(self, network: ValueNetwork, rng: np.random.Generator, algorithms: tuple[str, ...]) -> None:
        self._network, self._rng = network, rng
        self._names = [one.name for one in network.network.inputs]
        self._loads = [network.by_origin.coefficients[name] for name in self._names]
        # As in the paper; figure plus has the other maps.
        self._random = roadmap.build(network.by_origin, solver="greedy")
        self._semantic = network.semantic_map() if "semantic_ls" in algorithms else None

    def loss(self, excess: float, keep: Keep) -> Loss:
        rate, outputs = 1.0 + excess, len(self._network.network.outputs)
        outcome = self._network.run(rate, keep)
        tuples, values = self._network.tuple_utility(outcome, rate), self._network.value_utility(outcome, rate)
        load = outcome.load / sum(self._loads)
        return Loss(100.0 * (1.0 - tuples / outputs), 100.0 * (1.0 - values / outputs), load)

    def keeps(self, algorithm: str, excess: float) -> list[Keep]:
        loads = [load * (1.0 + excess) for load in self._loads]
        rates, work = dict.fromkeys(self._names, 1.0 + excess), excess * sum(self._loads)
        if algorithm == "random_ls":
            return [self._told(self._random.entry(self._random.find(work, rates)).keep)]
        if algorithm == "semantic_ls" and self._semantic is not None:
            return [self._network.kept(self._semantic.entry(self._semantic.find(work, rates)))]
        shares = {
            "input_random": lambda: [
                one_by_one(loads, work, self._rng.permutation(len(loads)).tolist()) for _ in range(_ORDERS)
            ],
            "input_cost_top": lambda: [costliest_first(loads, work)],
            "input_uniform": lambda: [evenly(loads, work)],
            "input_cost_uniform": lambda: [evenly(loads, work, loads)],
        }[algorithm]()
        return [dict(zip(self._names, one.tolist(), strict=True)) for one in shares]

    def _told(self, keep: Mapping[str, float]) -> Keep:
        """Drops on the network split by origin, as drops on the network itself that distinguish rows by origin."""
        found: dict[str, Vector | float] = {}
        for place, share in keep.items():
            source, _, target = (part.partition("|") for part in place.partition("->"))
            if not target[0]:
                found[place] = share
                continue
            shares = np.asarray(found.setdefault(f"{source[0]}->{target[0]}", np.ones((len(self._names), 1))))
            shares[self._names.index(source[2] or source[0])] = share
        return found


# Figure plus: irregular networks, and the losses of road maps on them.

#: As built, and after rates have drifted.
POLICIES = ("greedy_group", "greedy", "penstock", "exact", "max_min")
DRIFTED = ("fresh", "stale", "rebuilt")
#: Steps of a walk before and after a jump: how far each goes, as the deviation of the logarithm of a rate.
_WALK = (0.01, 0.01, 0.01, 0.5, 0.005, 0.005, 0.005)


class Fare(NamedTuple):
    """Results of a policy: utility lost in percent of all, and the utility of the worst query."""

    loss: float
    worst: float


@dataclass(frozen=True)
class PlusRun:
    """One irregular network."""

    fares: dict[tuple[float, str], Fare]  #: by excess load and policy
    build_ms: dict[str, float]  #: build time of each policy's map; for `exact`, of one program
    behind: float  #: the maximum loss of the kept map against a fresh one, over the walk
    built: int  #: how often the kept map was built


def plus_run(run: int, seed: int, *, boxes: int, sharing: float, excesses: tuple[float, ...]) -> PlusRun:
    """All policies on the network of a run, then its rates drift."""
    rng = np.random.default_rng([seed, run])
    network = irregular(rng, boxes=boxes, sharing=sharing)
    rates = network.rates
    fares = dict[tuple[float, str], Fare]()
    build_ms = dict[str, float]()

    def timed(policy: str, make: Callable[[], RoadMap]) -> RoadMap:
        started = time.perf_counter()
        made = make()
        build_ms[policy] = 1e3 * (time.perf_counter() - started)
        return made

    maps = {
        "greedy_group": timed("greedy_group", lambda: roadmap.build(network, solver="greedy", placement="group")),
        "greedy": timed("greedy", lambda: roadmap.build(network, solver="greedy")),
        "penstock": timed("penstock", lambda: roadmap.build(network)),
        "max_min": timed("max_min", lambda: roadmap.build(network, objective="max_min")),
    }
    for excess in excesses:
        for policy, made in maps.items():
            fares[excess, policy] = _fare(network, rates, _keep(made, network, rates, excess))
        started = time.perf_counter()
        fares[excess, "exact"] = _of(best(network, network.load(rates) / (1.0 + excess), rates, "sum").utilities)
        build_ms["exact"] = 1e3 * (time.perf_counter() - started)
    keeper = Keeper(roadmap.build, network)
    behind = 0.0
    for spread in _WALK:
        rates = {name: rate * float(np.exp(rng.normal(0.0, spread))) for name, rate in rates.items()}
        kept = keeper.map(network, rates)
        fresh = timed("fresh", lambda at=rates: roadmap.build(network, at))  # type: ignore[misc]
        for excess in excesses:
            for policy, made in (("fresh", fresh), ("rebuilt", kept), ("stale", maps["penstock"])):
                fares[excess, policy] = _fare(network, rates, _keep(made, network, rates, excess))
            behind = max(behind, fares[excess, "rebuilt"].loss - fares[excess, "fresh"].loss)
    build_ms["rebuilt"], build_ms["stale"] = build_ms["fresh"], 0.0
    return PlusRun(fares, build_ms, behind, keeper.built)


def _keep(made: RoadMap, network: Network, rates: Mapping[str, float], excess: float) -> Mapping[str, float]:
    """Keep shares of a map at this excess load."""
    load = network.load(rates)
    return made.entry(made.find(load * excess / (1.0 + excess), rates)).keep


def _fare(network: Network, rates: Mapping[str, float], keep: Mapping[str, float]) -> Fare:
    _, delivered = Skeleton(network, rates).under(keep)
    return _of({one.name: one.loss_tolerance.utility(delivered[one.name]) for one in network.outputs})


def _of(utilities: Mapping[str, float]) -> Fare:
    return Fare(100.0 * (1.0 - sum(utilities.values()) / len(utilities)), min(utilities.values()))


# Figure batches: networks in micro-batches under a changing load, with the planner that runs them on Spark.

BATCH_KINDS: tuple[Kind, ...] = ("random", "input_uniform")
#: Loads in turn, as multiples of capacity; batches of each, and how many of them the planner may take to follow.
BATCH_LOADS, BATCHES, _FOLLOWS = (0.5, 1.5, 3.0, 1.25, 0.5), 20, 6
BATCH_BOXES, BATCH_SHARING, _ROWS_PER_S = 20, 0.3, 1000.0
_MACHINE = Machine()


class Turn(NamedTuple):
    """What a kind of drops made of one load, once it had followed."""

    number: int  #: of the load, in turn
    kind: Kind
    length: float  #: the mean length of batches, in triggers
    loss: float  #: utility lost, in percent
    drops: int  #: places at which the last batch dropped rows


def turns(run: int, seed: int) -> list[Turn]:
    """All loads on the network of a run, with each kind of drops."""
    network = _scaled(irregular(np.random.default_rng([seed, run]), boxes=BATCH_BOXES, sharing=BATCH_SHARING))
    found = []
    for kind in BATCH_KINDS:
        running = NetworkRun(network, kind, _MACHINE, seed=run)
        for number, load in enumerate(BATCH_LOADS):
            running.run({name: load * rate for name, rate in network.rates.items()}, BATCHES)
            found.append(_turn(number, kind, network, running.done[_FOLLOWS - BATCHES :]))
    return found


def _scaled(network: Network) -> Network:
    """The network at the rate that batches can just process."""
    times = _ROWS_PER_S / sum(network.rates.values())
    capacity = _MACHINE.pace * (1.0 - _MACHINE.overhead_s / _MACHINE.trigger_s)
    cost = capacity / (times * network.load())
    return Network(
        [Input(one.name, one.rate * times) for one in network.inputs],
        [replace(box, cost=box.cost * cost) for box in network.boxes],
        network.outputs,
    )


def _turn(number: int, kind: Kind, network: Network, done: list[Batch]) -> Turn:
    rows = {name: float(sum(one.rows[name] for one in done)) for name in network.rates}
    whole, utility = network.flows(rows), 0.0
    for output in network.outputs:
        arc = network.into[output.name][0].name
        delivered = sum(one.arcs[arc] for one in done) / whole[arc] if whole[arc] else 1.0
        utility += output.loss_tolerance.utility(min(100.0 * delivered, 100.0))
    length = sum(one.duration_s for one in done) / len(done) / _MACHINE.trigger_s
    drops = 0 if done[-1].plan is None else len(done[-1].plan.drops)
    return Turn(number, kind, length, 100.0 * (1.0 - utility / len(network.outputs)), drops)
