"""A federation in a few lines: nodes, queries with parts on several of them, results late by some intervals."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.core.fairness.jain import Fairness, fairness
from penstock.core.fairness.max_min import Floats, Ints
from penstock.core.fairness.shedder import Buffer, Known, Shedder

INTERVAL_S, STW_S = 0.25, 10.0
TUPLES = 40


@dataclass(frozen=True)
class Federation:
    """Parts of queries on nodes; every part offers the same tuples, some nodes have more parts than others."""

    owner: Ints
    node: Ints
    fragments: Ints
    capacities: Floats
    work: Floats

    @classmethod
    def random(
        cls, seed: int, nodes: int, queries: int, capacity: float, *, unequal_work: bool = False
    ) -> "Federation":
        rng = np.random.default_rng(seed)
        crowd = np.arange(1, nodes + 1) ** -0.5
        fragments = rng.integers(1, 5, queries)
        hosts = [rng.choice(nodes, count, replace=False, p=crowd / crowd.sum()) for count in fragments]
        owner = np.repeat(np.arange(queries), fragments)
        work = rng.choice([0.5, 1.0, 2.0], queries)[owner] if unequal_work else np.ones(owner.size)
        room = np.full(nodes, capacity * TUPLES * work.sum() / nodes)
        return cls(owner, np.concatenate(hosts), fragments, room, work)

    def run(
        self,
        shedder: Callable[[int, Ints], Shedder],
        *,
        seconds: float = 80.0,
        measured_s: float = 20.0,
        late: int = 8,
        seed: int = 0,
    ) -> Fairness:
        """Results come `late` intervals after the tuples, and messages one interval after that."""
        rng = np.random.default_rng(seed)
        parts = [np.flatnonzero(self.node == node) for node in range(self.capacities.size)]
        shedders = [shedder(node, own) for node, own in enumerate(parts)]
        each = INTERVAL_S / STW_S / TUPLES / self.fragments[self.owner]
        ticks, window = round(seconds / INTERVAL_S), round(STW_S / INTERVAL_S)
        results = np.zeros((ticks, self.fragments.size))
        instants = []
        for tick in range(ticks):
            now_s = (tick + 1) * INTERVAL_S
            # Sources tick unevenly: of every part as many tuples on average, but now none and now twice as many.
            tuples = TUPLES * rng.integers(0, 3, self.owner.size)
            heard = tick - late
            sums = results[max(heard - window, 0) : max(heard, 0)].sum(axis=0)
            if 0 < heard < window:
                sums *= window / heard
            for own, one, capacity in zip(parts, shedders, self.capacities, strict=True):
                buffer = Buffer.of(np.arange(own.size), tuples[own], each[own], self.work[own])
                told = sums[self.owner[own]] if heard > 0 else np.full(own.size, np.nan)
                kept = one.select(buffer, capacity, Known.of(told, now_s - INTERVAL_S), now_s).kept
                assert kept @ buffer.work <= capacity * (1 + 1e-9)
                results[tick] += np.bincount(self.owner[own], kept * each[own], minlength=self.fragments.size)
            if seconds - now_s < measured_s:
                instants.append(results[tick + 1 - window : tick + 1].sum(axis=0))
        return fairness(instants)
