"""Networks in micro-batches under a changing load, with the planner that runs them on Spark."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.core.network.model import Input, Network
from penstock.core.network.planner import Kind
from penstock.sim.aurora.networks import irregular
from penstock.sim.network_run import Batch, Machine, NetworkRun

KINDS: tuple[Kind, ...] = ("random", "input_uniform")
#: Loads in turn, as multiples of capacity; batches of each, and how many of them the planner may take to follow.
LOADS, BATCHES, FOLLOWS = (0.5, 1.5, 3.0, 1.25, 0.5), 20, 6
BOXES, SHARING, ROWS_PER_S = 20, 0.3, 1000.0
MACHINE = Machine()


class Turn(NamedTuple):
    """What a kind of drops made of one load, once it had followed."""

    number: int  #: of the load, in turn
    kind: Kind
    length: float  #: the mean length of batches, in triggers
    loss: float  #: utility lost, in percent
    drops: int  #: places at which the last batch dropped rows


def turns(run: int, seed: int) -> list[Turn]:
    """All loads on the network of a run, with each kind of drops."""
    network = _scaled(irregular(np.random.default_rng([seed, run]), boxes=BOXES, sharing=SHARING))
    found = []
    for kind in KINDS:
        running = NetworkRun.calibrated(network, kind, MACHINE, seed=run)
        for number, load in enumerate(LOADS):
            running.run({name: load * rate for name, rate in network.rates.items()}, BATCHES)
            found.append(_turn(number, kind, network, running.done[FOLLOWS - BATCHES :]))
    return found


def _scaled(network: Network) -> Network:
    """The network at the rate that batches can just process."""
    times = ROWS_PER_S / sum(network.rates.values())
    capacity = MACHINE.pace * (1.0 - MACHINE.overhead_s / MACHINE.trigger_s)
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
    length = sum(one.duration_s for one in done) / len(done) / MACHINE.trigger_s
    drops = 0 if done[-1].plan is None else len(done[-1].plan.drops)
    return Turn(number, kind, length, 100.0 * (1.0 - utility / len(network.outputs)), drops)
