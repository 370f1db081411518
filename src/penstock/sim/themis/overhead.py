"""What a shedder's decision costs for each batch in the input buffer (THEMIS, section 7.6), against a random one.

Times are of the processor, so that other work on the machine counts little.
"""

import time
from collections.abc import Callable

import numpy as np

from penstock.core.fairness.input_buffer import Buffer, Decision, Known
from penstock.core.fairness.shedder import Shedder
from penstock.sim.themis.cases import Case, shedders_of
from penstock.sim.themis.runs import Clock, Federation, Layout, MakeShedder

TIMED = ("random", "balance_sic", "penstock")
#: Decisions are timed from here on: windows are full.
_WARM_S = 15.0


class _Timed:
    """A shedder with a stopwatch."""

    def __init__(self, inner: Shedder, note: Callable[[float, float, int], None]) -> None:
        self.name = "random"  # so that each shedder gets batch by batch what the random one gets
        self._inner, self._note = inner, note

    def select(self, buffer: Buffer, capacity: float, known: Known, now_s: float) -> Decision:
        started = time.process_time()
        decision = self._inner.select(buffer, capacity, known, now_s)
        self._note(now_s, time.process_time() - started, len(buffer.owner))
        return decision


def batch_us(run: int, *, case: Case, seed: int) -> dict[str, float]:
    """Microseconds a batch of each shedder in a run: the median over intervals, so that a busy machine matters little.

    Runs go side by side, interval by interval, so that all see the machine in the same state.
    """
    deployment = case.deployment(np.random.default_rng([seed, run]))
    layout, clock = Layout(deployment), Clock(case.interval_s)
    spent: dict[str, dict[float, list[tuple[float, int]]]] = {name: {} for name in TIMED}

    def timed(name: str) -> MakeShedder:
        make = shedders_of(name, layout, clock, run)

        def note(now_s: float, taken_s: float, batches: int) -> None:
            spent[name].setdefault(now_s, []).append((taken_s, batches))

        return lambda site: _Timed(make(site), note)

    federations = [Federation(layout, clock, timed(name), np.random.default_rng([seed, run, 1])) for name in TIMED]
    for federation in federations:
        federation.start(case.seconds)
    for step in range(round(case.seconds / case.interval_s)):
        for federation in federations:
            federation.step(step)
    return {
        name: float(np.median([1e6 * sum(taken for taken, _ in one) / sum(n for _, n in one) for one in kept]))
        for name, by_time in spent.items()
        if (kept := [one for now_s, one in by_time.items() if now_s >= _WARM_S])
    }
