"""One shedder, one queue, one operator on virtual time: the readable simulation that every policy runs in.

Rows arrive at the shedder at given times, wait in one first-in-first-out queue and are executed one after the other.
Messages of the operator reach the shedder after a fixed delay. At the same moment messages precede completions,
and completions precede arrivals.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from penstock.core.row.machines import Arrived, Drop, Executed, Operator, Shedder
from penstock.errors import PenstockError
from penstock.sim.kernel import Kernel
from penstock.sim.workload import Stream

_MESSAGE, _COMPLETION, _ARRIVAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of every row."""

    queuing_s: NDArray[np.float64]  #: time between arrival and start; NaN for a dropped row
    weights: NDArray[np.float64]  #: weight of a kept row; 0 for a dropped one
    shed: dict[str, int]  #: dropped rows by reason

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which rows were admitted."""
        return ~np.isnan(self.queuing_s)


def simulate(  # noqa: C901 - three small events that share one state
    stream: Stream,
    shedder: Shedder,
    operator: Operator,
    *,
    delay_s: float = 0.0,
    must_keep: NDArray[np.bool_] | None = None,
) -> Outcome:
    """Run the whole stream through shedder and operator; `delay_s` is the delay of a message."""
    if not delay_s >= 0.0:
        raise PenstockError.setting("delay_s", delay_s, "a number of seconds from 0 up")
    if must_keep is not None and len(must_keep) != stream.rows:
        raise PenstockError(f"must_keep has {len(must_keep)} rows, the stream {stream.rows}: give one value a row")
    kernel = Kernel()
    waiting = deque[tuple[int, object | None]]()
    busy = False
    queuing_s = np.full(stream.rows, np.nan)
    weights = np.zeros(stream.rows)
    shed: dict[str, int] = {}
    keys, costs, arrivals = stream.keys.tolist(), stream.costs_s.tolist(), stream.arrivals_s.tolist()

    def arrive(row: int) -> None:
        if row + 1 < stream.rows:
            kernel.at(arrivals[row + 1], partial(arrive, row + 1), priority=_ARRIVAL)
        keep = must_keep is not None and bool(must_keep[row])
        verdict = shedder.judge(Arrived(kernel.now_s, keys[row], row, must_keep=keep, cost_s=costs[row]))
        if isinstance(verdict, Drop):
            shed[verdict.reason] = shed.get(verdict.reason, 0) + 1
            return
        weights[row] = verdict.weight
        waiting.append((row, verdict.request))
        if not busy:
            start()

    def start() -> None:
        nonlocal busy
        row, request = waiting.popleft()
        busy = True
        queuing_s[row] = kernel.now_s - arrivals[row]
        kernel.at(kernel.now_s + costs[row], partial(finish, row, kernel.now_s, request), priority=_COMPLETION)

    def finish(row: int, start_s: float, request: object | None) -> None:
        nonlocal busy
        event = Executed(keys[row], arrivals[row], start_s, kernel.now_s, costs[row], request)
        for send in operator.executed(event):
            kernel.at(kernel.now_s + delay_s, partial(shedder.receive, send.message), priority=_MESSAGE)
        busy = False
        if waiting:
            start()

    if stream.rows:
        kernel.at(arrivals[0], partial(arrive, 0), priority=_ARRIVAL)
        kernel.run()
    return Outcome(queuing_s, weights, shed)
