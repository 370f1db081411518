"""Runs of many schedules, each repeatable by its seed."""

from __future__ import annotations

import logging
import os
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from penstock.sim.chaos.faults import BrokenPromise, Chance
from penstock.sim.chaos.own_batches import Site, Stages
from penstock.sim.chaos.query import Kinds
from penstock.sim.chaos.watched import Watched
from penstock.sim.parallel import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.sim.chaos.world import World

#: Moves of a schedule. A few schedules are long, to see whether anything grows.
MOVES, LONG, LONG_SHARE = 24, 300, 0.01
#: What the schedules of forty seeds in a row run. Those of a Fair and of a site take eight times as long as others.
WHAT = ("guard",) * 28 + ("network",) * 10 + ("Fair", "site")
_AS_THEY_ARE = Kinds()
_WORLDS: dict[str, Callable[[Chance, Kinds], World]] = {
    "guard": partial(Watched, fair=False),
    "Fair": partial(Watched, fair=True),
    "network": Stages,
    "site": Site,
}


def what(seed: int) -> str:
    """What the schedule of a seed runs: a guard, a network, the queries of a Fair, or a site."""
    return WHAT[seed % len(WHAT)]


def run(seed: int, kinds: Kinds = _AS_THEY_ARE) -> Counter[str]:
    """Run the schedule of a seed; counts of what happened.

    Raises:
        BrokenPromise: If a promise was broken.
    """
    chance, logging_before = Chance(seed), logging.root.manager.disable
    logging.disable()  # Thousands of faults would be logged.
    try:
        world = _WORLDS[what(seed)](chance, kinds)
        for _ in range(LONG if chance.happens(LONG_SHARE, "long schedule") else MOVES):
            world.move()
        world.end()
    finally:
        logging.disable(logging_before)
    chance.counts[f"schedule of a {what(seed)}"] += 1
    chance.counts["batch run"] += world.runs
    return chance.counts


@dataclass
class Found:
    """What many schedules have found: counts of what happened, and the promises broken, by seed."""

    counts: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)


def command(seed: int | str) -> str:
    """The command that repeats the schedule of a seed."""
    return f"penstock bench chaos --schedules 1 --seed {seed}"


def tried(seed: int) -> Counter[str] | str:
    """The counts of the schedule of a seed, or the promise that it broke."""
    try:
        return run(seed)
    except BrokenPromise as error:
        return str(error)


def run_all(schedules: int, seed: int = 0, jobs: int = 0, done: Callable[[int], None] = lambda _: None) -> Found:
    """Run the schedules from a seed on, on this many processes; 0 means one per core."""
    seeds, found = range(seed, seed + schedules), Found()
    with Workers(jobs or os.cpu_count() or 1) as workers:
        for one, result in zip(seeds, workers.run(tried, seeds, done), strict=True):
            if isinstance(result, str):
                found.broken[one] = result
            else:
                found.counts.update(result)
    return found
