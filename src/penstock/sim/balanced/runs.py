"""The scenarios of the four papers, each with the paper's algorithm and with `Balanced`, by the paper's own measure.

A scenario leaves out most of what `Balanced` knows. LAS has one query whose rows are worth the same. Aurora has costs
that follow from a value's way through the network, THEMIS has rows that cost the same, OSG has no overload at all. What
is left of the policy is then a simpler rule. It must do at least as well as the rule that the paper was written for.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.density import Classes, allot
from penstock.core.fairness.input_buffer import Buffer, Known, whole_tuples
from penstock.core.fairness.jain import fairness
from penstock.core.fairness.shedder import BalanceSicShedder
from penstock.core.fairness.sic import STW_S
from penstock.core.network.qos import LossTolerance
from penstock.sim.aurora import runs as aurora_runs
from penstock.sim.aurora.networks import trees
from penstock.sim.aurora.value_network import VALUES, ValueNetwork
from penstock.sim.las import runs as las_runs
from penstock.sim.osg import runs as osg_runs
from penstock.sim.workload import Floats, Ints

#: Excess loads of Aurora's figures, as shares of capacity.
AURORA_EXCESS = (0.22, 0.525, 1.0333, 2.05, 3.0667)
#: Of THEMIS's demand, what a node can do; its queries and shedding interval.
THEMIS_CAPACITY = (0.1, 0.3, 0.5)
THEMIS_QUERIES, INTERVAL_S, THEMIS_S = 40, 0.25, 40.0
#: OSG: capacity as a share of what comes.
OSG_PROVISIONING = (1.0, 0.8)
OSG_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measure of one scenario: what the paper's algorithm and `Balanced` reach, and which is better."""

    scenario: str
    metric: str
    theirs: float
    ours: float
    lower_is_better: bool = True


def las(run: int, seed: int) -> list[Outcome]:
    """LAS's default point. For one query whose rows are worth the same, row by row, it is `prefer="cheap"`."""
    results = las_runs.synthetic_run(las_runs.Setting(), run, seed).results(("las", "penstock_prefer_cheap"))
    theirs, ours = results["las"].after_nop, results["penstock_prefer_cheap"].after_nop
    target_s = las_runs.Setting().target_s
    where = "LAS: one operator, 25 % too slow"
    return [
        Outcome(where, "mean queuing latency over the target", theirs.queuing_s / target_s, ours.queuing_s / target_s),
        Outcome(where, "rows dropped", theirs.dropped_ratio, ours.dropped_ratio),
    ]


def aurora(run: int, seed: int) -> list[Outcome]:
    """Aurora's random networks, by the tuples and by the values that are delivered."""
    network = trees(np.random.default_rng([seed, run]))
    theirs = aurora_runs.measured(network, AURORA_EXCESS, ("random_ls", "semantic_ls"), run)
    paths = Paths.of(network)
    found = []
    for excess in AURORA_EXCESS:
        where = f"Aurora: load {excess:+.0%}"
        tuples, values = (paths.kept(network, excess, by) for by in ("tuples", "values"))
        best = min(theirs[excess, name].tuples for name in ("random_ls", "semantic_ls"))
        found.append(Outcome(where, "% tuple utility lost", best, _lost(network, excess, tuples)[0]))
        semantic = theirs[excess, "semantic_ls"].values
        found.append(Outcome(where, "% value utility lost", semantic, _lost(network, excess, values)[1]))
    return found


def _lost(network: ValueNetwork, excess: float, keep: dict[str, Floats]) -> tuple[float, float]:
    rate, outputs = 1.0 + excess, len(network.network.outputs)
    outcome = network.run(rate, dict(keep))
    tuples, values = network.tuple_utility(outcome, rate), network.value_utility(outcome, rate)
    return 100.0 * (1.0 - tuples / outputs), 100.0 * (1.0 - values / outputs)


@dataclass(frozen=True)
class Paths:
    """The work and output of a row of each input and value in a network of trees, where each input feeds one output."""

    query: Ints  #: the output of each input, by number
    work: Floats  #: work that a row of each input and value causes
    arrives: NDArray[np.bool_]  #: whether it comes to the output

    @classmethod
    def of(cls, network: ValueNetwork) -> "Paths":
        """Follow every input down to its output."""
        shape = network.network
        numbers = {one.name: number for number, one in enumerate(shape.outputs)}
        query = np.zeros(len(shape.inputs), np.int64)
        work, passes = (np.zeros((len(shape.inputs), len(VALUES))) for _ in range(2))
        passes += 1.0
        for row, one in enumerate(shape.inputs):
            name = one.name
            while name not in numbers:
                (arc,) = shape.out_of[name]
                name = arc.target
                work[row] += arc.cost * passes[row]
                if name in network.above:
                    passes[row] *= network.above[name] < VALUES
            query[row] = numbers[name]
        return cls(query, work, passes > 0.0)

    def kept(self, network: ValueNetwork, excess: float, by: str) -> dict[str, Floats]:
        """The share of each input's rows to keep, by value: alpha 0, because Aurora counts the sum of utilities."""
        shape = network.network
        capacity = float(self.work.sum()) / len(VALUES)
        rate = (1.0 + excess) / len(VALUES)
        names = [one.name for one in shape.outputs]
        worth = np.where(self.arrives, 1.0, 0.0)
        if by == "values":
            low = np.array([network.low_utility[name] for name in names])[self.query]
            worth *= np.where(network.bend >= VALUES, low[:, np.newaxis], 1.0)
        cells = Cells(np.repeat(self.query, len(VALUES)), rate, self.work.ravel(), worth.ravel())
        graphs = [network.graphs[name].loss_tolerance() for name in names] if by == "tuples" else None
        keep = cells.kept(capacity, graphs).reshape(self.work.shape)
        whole = {}
        for row, one in enumerate(shape.inputs):
            shares = np.ones(self.work.shape)
            shares[row] = keep[row]
            whole[one.name] = shares
        return whole


@dataclass(frozen=True)
class Cells:
    """Rows of one input and value each."""

    query: Ints  #: the output that they belong to
    rate: float  #: rows a second of each
    work: Floats  #: work of a row
    worth: Floats  #: what a row is worth if it is kept

    def kept(self, budget: float, graphs: list[LossTolerance] | None) -> Floats:
        """The best shares by the sum of utilities; with graphs, a query's utility bends with the rows it gets.

        Where a graph bends, the class that crosses the bend is cut in two, each worth what the graph says.
        """
        if graphs is None:
            rows = np.full(len(self.work), self.rate)
            classes = Classes(rows=rows, costs_s=self.work, utilities=self.worth, query=self.query)
            return allot(classes, budget, alpha=0.0, min_keep=0.0).keep
        order = np.lexsort((-self.worth / self.work, self.query))
        cell, share, utility = list[int](), list[float](), list[float]()
        for number, graph in enumerate(graphs):
            own = order[self.query[order] == number]
            ends = 100.0 * np.cumsum(self.worth[own]) / self.worth[own].sum()
            begins = np.concatenate([[0.0], ends[:-1]])
            bends = sorted(percent for percent, _ in graph.points)
            for one, begin, end in zip(own.tolist(), begins.tolist(), ends.tolist(), strict=True):
                cuts = [begin, *(bend for bend in bends if begin < bend < end), end]
                for low, high in pairwise(cuts):
                    cell.append(one)
                    share.append((high - low) / (end - begin) if end > begin else 1.0)
                    gain = graph.utility(high) - graph.utility(low) if high > low else 0.0
                    utility.append(gain / (self.rate * share[-1]))
        cells, shares = np.array(cell), np.array(share)
        pieces = Classes(
            rows=self.rate * shares, costs_s=self.work[cells], utilities=np.array(utility), query=self.query[cells]
        )
        keep = allot(pieces, budget, alpha=0.0, min_keep=0.0).keep
        whole: Floats = np.bincount(cells, keep * shares, minlength=len(self.work)).astype(np.float64)
        return whole


def themis(run: int, seed: int) -> list[Outcome]:
    """A node of THEMIS: queries of one to three sources with skewed rates; SIC over a sliding window."""
    found = []
    for capacity in THEMIS_CAPACITY:
        theirs, ours = (_themis(run, seed, capacity, policy) for policy in ("balance_sic", "balanced"))
        where = f"THEMIS: a node with {capacity:.0%} of the capacity"
        found += [
            Outcome(where, "Jain's index, mean over time", theirs[0], ours[0], lower_is_better=False),
            Outcome(where, "SIC of the poorest, mean over time", theirs[1], ours[1], lower_is_better=False),
        ]
    return found


def _themis(run: int, seed: int, capacity: float, policy: str) -> tuple[float, float]:
    rng = np.random.default_rng([seed, 91, run])
    sources = rng.integers(1, 4, THEMIS_QUERIES)
    owner = np.repeat(np.arange(THEMIS_QUERIES), sources)
    rates = 40.0 * rng.lognormal(0.0, 1.0, len(owner))
    sic = 1.0 / (rates * STW_S * sources[owner])
    window, steps = round(STW_S / INTERVAL_S), round(THEMIS_S / INTERVAL_S)
    gained = np.zeros((steps, THEMIS_QUERIES))
    shedder = BalanceSicShedder(seed)
    for step in range(steps):
        tuples = rng.poisson(rates * INTERVAL_S).astype(np.int64)
        room = capacity * float(rates.sum()) * INTERVAL_S
        # What each query has in the window, less what leaves it now; a single node knows it at once.
        recent = gained[max(step - window + 1, 0) : step].sum(axis=0)
        if policy == "balance_sic":
            told = recent + (gained[step - window] if step >= window else 0.0)
            kept = shedder.select(Buffer.of(owner, tuples, sic), room, Known.of(told), step * INTERVAL_S).kept
        else:
            classes = Classes(
                rows=tuples.astype(np.float64),
                costs_s=np.ones(len(owner)),
                utilities=sic,
                query=owner,
                whole=np.ones(THEMIS_QUERIES),
                held=recent,
            )
            shares = allot(classes, room, alpha=math.inf, min_keep=0.0).keep
            kept = whole_tuples(shares, tuples, np.ones(len(owner)), room)
        gained[step] = np.bincount(owner, kept * sic, minlength=THEMIS_QUERIES)
    in_window = np.cumsum(gained, axis=0)
    told = in_window[2 * window :] - in_window[window:-window]
    fair = fairness(told)
    return fair.jain_instant, fair.poorest_instant


def osg(run: int, seed: int) -> list[Outcome]:
    """OSG's stream on five instances: with nothing to shed it is grouping alone; with too much, shedding before it."""
    found = []
    for provisioning in OSG_PROVISIONING:
        setting = osg_runs.Setting(rows=OSG_ROWS, over_provisioning=provisioning)
        whole = osg_runs.OsgRun.synthetic(setting, run, seed)
        stream = whole.stream
        rng = np.random.default_rng([seed, 92, run])
        coins = rng.random(stream.rows)
        room_s = setting.instances * float(stream.arrivals_s[-1] + stream.arrivals_s[1])
        costs_s, place, rows = np.unique(stream.costs_s, return_inverse=True, return_counts=True)
        work_s = float(stream.costs_s.sum())
        alike = min(room_s / work_s, 1.0)
        shares = allot(Classes(rows=rows.astype(np.float64), costs_s=costs_s), room_s).keep[place]
        theirs, ours = _grouped(whole, coins < alike, "osg"), _grouped(whole, coins < shares, "penstock")
        where = f"OSG: 5 instances, capacity for {provisioning:.0%} of the work"
        found += [
            Outcome(where, "mean completion time, ms", theirs[0], ours[0]),
            Outcome(where, "rows dropped", theirs[1], ours[1]),
        ]
    return found


def _grouped(run: osg_runs.OsgRun, kept: NDArray[np.bool_], how: str) -> tuple[float, float]:
    """Mean completion time of the rows kept, and the share of those that are not."""
    stream = run.stream
    thinned = osg_runs.OsgRun.of_stream(
        run.setting,
        stream.keys[kept],
        1e3 * stream.costs_s[kept],
        items=stream.items,
        gaps_ms=1e3 * np.diff(stream.arrivals_s[kept]),
        seed=run.hash_seed,
    )
    return float(thinned.run(how).completion_ms.mean()), 1.0 - float(kept.mean())


#: The papers' scenarios, by name.
SCENARIOS = {"las": las, "aurora": aurora, "themis": themis, "osg": osg}
