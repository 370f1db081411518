"""The fast path of the paper's groupings: the machines of `penstock.core.grouping`, one compiled loop each.

As in `penstock.sim.las.compiled`, the results equal those of the readable machines row for row (a test compares them),
and every constant is an argument. An instance executes rows in the order of assignment, so its queue is a linked list.
`after` leads from each row to the next one of the same instance. A report reaches the scheduler `delay_s` after its row
is done. At the same moment messages precede arrivals, and lower instances come first.

Each loop returns the completion time of every row.
"""

import numpy as np

from penstock.core.compiled import compiled
from penstock.sim.compiled_costs import Columns, Floats, Ints, accelerator, changed, hand_over, sketched


@compiled
def round_robin(arrivals: Floats, costs_s: Floats, speeds: Floats, schedulers: int) -> Floats:
    """Row i of a scheduler goes to instance i mod k."""
    rows = len(arrivals)
    stretches, instances = speeds.shape
    finish = np.empty(rows)
    end = np.zeros(instances)
    for row in range(rows):
        chosen = (row // schedulers) % instances
        end[chosen] = max(arrivals[row], end[chosen]) + costs_s[row] * speeds[row * stretches // rows, chosen]
        finish[row] = end[chosen]
    return finish


@compiled
def full_knowledge(
    arrivals: Floats,
    costs_s: Floats,
    speeds: Floats,
    schedulers: int,
    clamp: bool,  # noqa: FBT001 - compiled functions take no keywords
) -> Floats:
    """Each scheduler sums the exact costs of its own rows and selects the instance with the least."""
    rows = len(arrivals)
    stretches, instances = speeds.shape
    finish = np.empty(rows)
    end = np.zeros(instances)
    cumulated = np.zeros((schedulers, instances))
    for row in range(rows):
        now = arrivals[row]
        scheduler = row % schedulers
        if clamp:
            for instance in range(instances):
                cumulated[scheduler, instance] = max(cumulated[scheduler, instance], now)
        chosen = 0
        for instance in range(1, instances):
            if cumulated[scheduler, instance] < cumulated[scheduler, chosen]:
                chosen = instance
        cost = costs_s[row] * speeds[row * stretches // rows, chosen]
        cumulated[scheduler, chosen] += cost
        end[chosen] = max(now, end[chosen]) + cost
        finish[row] = end[chosen]
    return finish


@compiled
def jsq(arrivals: Floats, costs_s: Floats, speeds: Floats, schedulers: int, delay_s: float) -> Floats:
    """Join the shortest queue by count: rows sent and not yet reported as done; among equals the first."""
    rows = len(arrivals)
    stretches, instances = speeds.shape
    finish = np.empty(rows)
    after = np.full(rows, -1, np.int64)
    last = np.full(instances, -1, np.int64)
    reported = np.full(instances, -1, np.int64)
    end = np.zeros(instances)
    outstanding = np.zeros((schedulers, instances), np.int64)
    for row in range(rows):
        now = arrivals[row]
        scheduler = row % schedulers
        for instance in range(instances):
            at = reported[instance]
            while at >= 0 and finish[at] + delay_s <= now:
                outstanding[at % schedulers, instance] -= 1
                at = after[at]
            reported[instance] = at
        chosen = 0
        for instance in range(1, instances):
            if outstanding[scheduler, instance] < outstanding[scheduler, chosen]:
                chosen = instance
        outstanding[scheduler, chosen] += 1
        end[chosen] = max(now, end[chosen]) + costs_s[row] * speeds[row * stretches // rows, chosen]
        finish[row] = end[chosen]
        if last[chosen] >= 0:
            after[last[chosen]] = row
        last[chosen] = row
        if reported[chosen] < 0:
            reported[chosen] = row
    return finish


_ROUND_ROBIN, _SEND_ALL, _WAIT_ALL, _RUN = 0, 1, 2, 3


@accelerator
def osg(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one loop on purpose: this is the fast path
    keys: Ints,
    arrivals: Floats,
    costs_s: Floats,
    speeds: Floats,
    columns: Columns,
    width: int,
    window_rows: int,
    tolerance: float,
    first_check: bool,  # noqa: FBT001 - compiled functions take no keywords
    clamp: bool,  # noqa: FBT001 - as above
    schedulers: int,
    delay_s: float,
) -> tuple[Floats, Ints, int]:
    """`OsgScheduler` and `OsgInstance`; also the rows before which one entered RUN, and messages until the last row."""
    rows = len(keys)
    stretches, instances = speeds.shape
    depth = columns.shape[0]
    # Every row: end, cost, next row, request and report.
    finish = np.empty(rows)
    busy_s = np.empty(rows)
    after = np.full(rows, -1, np.int64)
    request_epoch = np.full(rows, -1, np.int64)
    request = np.empty(rows)
    reply = np.empty(rows)
    matrices_at = np.full(rows, -1, np.int64)
    # The instances: queues, and the machine of Figure 2.
    end = np.zeros(instances)
    last = np.full(instances, -1, np.int64)
    running = np.full(instances, -1, np.int64)
    reported = np.full(instances, -1, np.int64)
    executed = np.zeros(instances, np.int64)
    stabilizing = np.zeros(instances, np.bool_)
    frequency = np.zeros((instances, depth, width))
    work = np.zeros((instances, depth, width))
    snapshot = np.zeros((instances, depth, width))
    count = np.zeros(instances)
    total = np.zeros(instances)
    # Matrices sent, in order.
    room = rows // window_rows + 1
    sent_frequency = np.empty((room, depth, width))
    sent_work = np.empty((room, depth, width))
    sent_mean = np.empty(room)
    sent = 0
    # The schedulers: the machine of Figure 3.
    state = np.full(schedulers, _ROUND_ROBIN, np.int64)
    submitted = np.zeros(schedulers, np.int64)
    epoch = np.zeros(schedulers, np.int64)
    asked = np.zeros(schedulers, np.int64)
    answered = np.zeros(schedulers, np.int64)
    replied = np.zeros((schedulers, instances), np.bool_)
    delta = np.zeros((schedulers, instances))
    held = np.full((schedulers, instances), -1, np.int64)
    known = np.zeros(schedulers, np.int64)
    estimated = np.zeros((schedulers, instances))
    run_at = np.empty(rows + 1, np.int64)
    runs = messages = 0
    for row in range(rows):
        now = arrivals[row]
        for instance in range(instances):
            at = running[instance]
            while at >= 0 and finish[at] <= now:
                executed[instance] += 1
                for i in range(depth):
                    frequency[instance, i, columns[i, keys[at]]] += 1.0
                    work[instance, i, columns[i, keys[at]]] += busy_s[at]
                count[instance] += 1.0
                total[instance] += busy_s[at]
                if request_epoch[at] >= 0:
                    reply[at] = finish[at] - request[at]
                    messages += 1
                if executed[instance] % window_rows == 0:
                    error = changed(snapshot[instance], frequency[instance], work[instance])
                    if stabilizing[instance] and (first_check or error <= tolerance):
                        hand_over(frequency[instance], sent_frequency[sent])
                        hand_over(work[instance], sent_work[sent])
                        sent_mean[sent] = total[instance] / count[instance]
                        matrices_at[at] = sent
                        sent += 1
                        messages += schedulers
                        count[instance] = 0.0
                        total[instance] = 0.0
                        stabilizing[instance] = False
                    else:
                        stabilizing[instance] = True
                at = after[at]
            running[instance] = at
        while True:
            # The next message in transit, by time and then by instance; rows without a message are skipped.
            first = -1
            for instance in range(instances):
                at = reported[instance]
                while at >= 0 and finish[at] + delay_s <= now and request_epoch[at] < 0 and matrices_at[at] < 0:
                    at = after[at]
                reported[instance] = at
                if at >= 0 and finish[at] + delay_s <= now and (first < 0 or finish[at] < finish[reported[first]]):
                    first = instance
            if first < 0:
                break
            at = reported[first]
            if request_epoch[at] >= 0:
                scheduler = at % schedulers
                if (
                    request_epoch[at] == epoch[scheduler]
                    and state[scheduler] >= _SEND_ALL
                    and not replied[scheduler, first]
                ):
                    replied[scheduler, first] = True
                    delta[scheduler, first] = reply[at]
                    answered[scheduler] += 1
                    if state[scheduler] == _WAIT_ALL and answered[scheduler] == instances:
                        for instance in range(instances):
                            estimated[scheduler, instance] += delta[scheduler, instance]
                        state[scheduler] = _RUN
                        run_at[runs] = row
                        runs += 1
                request_epoch[at] = -1
            if matrices_at[at] >= 0:
                for scheduler in range(schedulers):
                    if held[scheduler, first] < 0:
                        known[scheduler] += 1
                    held[scheduler, first] = matrices_at[at]
                    if known[scheduler] == instances:
                        state[scheduler] = _SEND_ALL
                        epoch[scheduler] += 1
                        asked[scheduler] = 0
                        answered[scheduler] = 0
                        replied[scheduler] = False
            reported[first] = after[at]
        scheduler = row % schedulers
        if clamp and state[scheduler] != _ROUND_ROBIN:
            for instance in range(instances):
                estimated[scheduler, instance] = max(estimated[scheduler, instance], now)
        if state[scheduler] <= _SEND_ALL:
            chosen = submitted[scheduler] % instances
        else:
            chosen = 0
            for instance in range(1, instances):
                if estimated[scheduler, instance] < estimated[scheduler, chosen]:
                    chosen = instance
        submitted[scheduler] += 1
        if state[scheduler] != _ROUND_ROBIN:
            pair = held[scheduler, chosen]
            estimated[scheduler, chosen] += sketched(
                sent_frequency[pair], sent_work[pair], columns, keys[row], sent_mean[pair]
            )
        if state[scheduler] == _SEND_ALL:
            request_epoch[row] = epoch[scheduler]
            request[row] = estimated[scheduler, chosen]
            asked[scheduler] += 1
            if asked[scheduler] == instances:
                state[scheduler] = _WAIT_ALL
        busy_s[row] = costs_s[row] * speeds[row * stretches // rows, chosen]
        end[chosen] = max(now, end[chosen]) + busy_s[row]
        finish[row] = end[chosen]
        if last[chosen] >= 0:
            after[last[chosen]] = row
        last[chosen] = row
        if running[chosen] < 0:
            running[chosen] = row
        if reported[chosen] < 0:
            reported[chosen] = row
    return finish, run_at[:runs], messages
