"""Schedulers, queues and instances on virtual time: the readable simulation that every grouping runs in.

Row r arrives at scheduler r mod s, which puts it into the queue of one of k instances. Each instance executes its rows
one after the other. Messages of an instance reach the schedulers after a fixed delay. At the same moment messages
precede completions, and completions precede arrivals; those of a lower instance come first.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial

import numpy as np

from penstock.core.grouping.machines import Done, Instance, Received, Scheduler
from penstock.core.row.machines import Arrived
from penstock.core.settings import number
from penstock.errors import PenstockError
from penstock.sim.kernel import Kernel
from penstock.sim.workload import Floats, Stream


def simulate(  # noqa: C901 - three small events that share one state
    stream: Stream,
    schedulers: Sequence[Scheduler],
    instances: Sequence[Instance],
    *,
    speeds: Floats | None = None,
    delay_s: float = 0.0,
) -> Floats:
    """When every row is done. `speeds` are factors on cost, by equal stretch of the stream and instance."""
    number("delay_s", delay_s, 0.0)
    k, rows = len(instances), stream.rows
    factors = np.ones((1, k)) if speeds is None else speeds
    if factors.ndim != 2 or factors.shape[1] != k:  # noqa: PLR2004 - stretches and instances
        raise PenstockError.setting("speeds", factors.shape, f"an array of shape (stretches, {k})")
    kernel = Kernel()
    finish_s = np.full(rows, np.nan)
    waiting: list[deque[tuple[int, object | None]]] = [deque() for _ in instances]
    busy = [False] * k
    keys, costs, arrivals = stream.keys.tolist(), stream.costs_s.tolist(), stream.arrivals_s.tolist()

    def arrive(row: int) -> None:
        if row + 1 < rows:
            kernel.at(arrivals[row + 1], partial(arrive, row + 1), priority=2 * k)
        event = Arrived(kernel.now_s, keys[row], row, cost_s=costs[row])
        assigned = schedulers[row % len(schedulers)].assign(event)
        waiting[assigned.instance].append((row, assigned.request))
        if not busy[assigned.instance]:
            start(assigned.instance)

    def start(instance: int) -> None:
        row, request = waiting[instance].popleft()
        busy[instance] = True
        cost_s = costs[row] * float(factors[row * len(factors) // rows, instance])
        done = partial(finish, row, instance, cost_s, request)
        kernel.at(kernel.now_s + cost_s, done, priority=k + instance)

    def finish(row: int, instance: int, cost_s: float, request: object | None) -> None:
        finish_s[row] = kernel.now_s
        left = len(waiting[instance])
        event = Done(keys[row], arrivals[row], kernel.now_s, cost_s, left, request)
        for send in instances[instance].executed(event):
            for scheduler in schedulers if send.scheduler is None else [schedulers[send.scheduler]]:
                received = Received(kernel.now_s + delay_s, instance, send.message)
                kernel.at(received.now_s, partial(scheduler.receive, received), priority=instance)
        busy[instance] = False
        if waiting[instance]:
            start(instance)

    if rows:
        kernel.at(arrivals[0], partial(arrive, 0), priority=2 * k)
        kernel.run()
    return finish_s
