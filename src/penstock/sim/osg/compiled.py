"""The fast path of grouping: the machines of `penstock.core.grouping`, one compiled loop each.

As in `penstock.sim.las.compiled`, the results equal those of the readable machines row for row (a test compares them),
and every constant is an argument. An instance executes rows in the order of assignment, so its queue is a linked list:
`after` leads from each row to the next one of the same instance. A report reaches the scheduler `delay_s` after its row
is done. At the same moment messages precede arrivals, and lower instances come first.

Each loop returns the completion time of every row.
"""

import math
from typing import NamedTuple

import numpy as np

from penstock.core.compiled import compiled
from penstock.core.grouping import ready_time
from penstock.core.row import cost_sketch
from penstock.sim import compiled_costs as model
from penstock.sim.compiled_costs import Columns, Floats, Ints, accelerator, changed, sketched


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
                        sent_frequency[sent] = frequency[instance]
                        sent_work[sent] = work[instance]
                        frequency[instance] = 0.0
                        work[instance] = 0.0
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
                        estimated[scheduler] += delta[scheduler]
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


class Tuning(NamedTuple):
    """The constants of `penstock.core.grouping.ready_time` and its parts."""

    heavy_places: int = ready_time.HEAVY_PLACES
    sketch_columns: int = ready_time.SKETCH_COLUMNS
    forget_every: int = ready_time.FORGET_EVERY
    remember: float = ready_time.REMEMBER
    forgotten: float = cost_sketch.FORGOTTEN
    way_memory: float = ready_time.WAY_MEMORY
    strange_memory: float = ready_time.STRANGE_MEMORY
    remembered_rows: int = ready_time.REMEMBERED_ROWS
    pace_memory: float = ready_time.PACE_MEMORY
    standard_errors: float = ready_time.STANDARD_ERRORS
    widest_pace: float = ready_time.WIDEST_PACE


@accelerator
def ready_time_loop(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one loop on purpose: the fast path
    keys: Ints,
    arrivals: Floats,
    costs_s: Floats,
    speeds: Floats,
    columns: Columns,
    schedulers: int,
    report_rows: int,
    delay_s: float,
    tuning: Tuning,
) -> tuple[Floats, int]:
    """`ReadyTimeScheduler` and `AcknowledgingInstance`; also the number of reports.

    Rows of one scheduler at one instance are a list through `next_own`. Schedulers share nothing, so a scheduler
    processes its reports at its next decision.
    """
    rows = len(keys)
    stretches, instances = speeds.shape
    depth, items = columns.shape
    # Every row: end, cost, next row, expected cost, and the arrival of its report.
    finish = np.empty(rows)
    busy_s = np.empty(rows)
    expected = np.empty(rows)
    takes = np.empty(rows)
    work_to = np.empty(rows)
    after = np.full(rows, -1, np.int64)
    next_own = np.full(rows, -1, np.int64)
    report_at = np.full(rows, math.inf)
    report_ends = np.zeros(rows, np.bool_)
    lead = np.empty(rows)
    less_lead = np.full(rows, -1, np.int64)
    more_lead = np.full(rows, -1, np.int64)
    # The instances: queues, and rows not yet reported.
    end = np.zeros(instances)
    last = np.full(instances, -1, np.int64)
    running = np.full(instances, -1, np.int64)
    unreported = np.zeros((schedulers, instances), np.int64)
    unreported_first = np.full((schedulers, instances), -1, np.int64)
    unreported_last = np.full((schedulers, instances), -1, np.int64)
    reports = 0
    # The schedulers: estimates of each instance ...
    next_report = np.full((schedulers, instances), -1, np.int64)
    own_last = np.full((schedulers, instances), -1, np.int64)
    oldest = np.full((schedulers, instances), -1, np.int64)
    on_their_way = np.zeros((schedulers, instances), np.int64)
    done = np.zeros((schedulers, instances))
    queued = np.zeros((schedulers, instances))
    offset = np.zeros((schedulers, instances))
    most_lead = np.full((schedulers, instances), -1, np.int64)
    least_lead = np.full((schedulers, instances), -1, np.int64)
    used = np.full((schedulers, instances), -1, np.int64)
    factor = np.ones((schedulers, instances))
    pace_expected = np.zeros((schedulers, instances))
    pace_cost = np.zeros((schedulers, instances))
    pace_squares = np.zeros((schedulers, instances))
    way = np.zeros(schedulers)
    strange = np.zeros(schedulers)
    # ... and of costs.
    costs = model.no_costs(schedulers, items, tuning.heavy_places, depth, tuning.sketch_columns)
    learned = np.zeros(schedulers, np.int64)
    for row in range(rows):
        now = arrivals[row]
        for i in range(instances):
            at = running[i]
            while at >= 0 and finish[at] <= now:
                s = at % schedulers
                if unreported[s, i] == 0:
                    unreported_first[s, i] = at
                unreported[s, i] += 1
                unreported_last[s, i] = at
                idle = after[at] < 0 or arrivals[after[at]] >= finish[at]
                if idle or unreported[s, i] >= report_rows:
                    for other in range(schedulers):
                        if unreported[other, i] > 0 and (idle or other == s):
                            told = unreported_first[other, i]
                            while told != unreported_last[other, i]:
                                report_at[told] = finish[at] + delay_s
                                told = next_own[told]
                            report_at[told] = finish[at] + delay_s
                            report_ends[told] = True
                            unreported[other, i] = 0
                            reports += 1
                at = after[at]
            running[i] = at
        s = row % schedulers
        while True:
            first = -1
            for i in range(instances):
                at = next_report[s, i]
                if at >= 0 and report_at[at] <= now and (first < 0 or report_at[at] < report_at[next_report[s, first]]):
                    first = i
            if first < 0:
                break
            at = next_report[s, first]
            arrived = report_at[at]
            knew_nothing = learned[s] == 0
            longest = 0.0
            last_of_report = False
            while not last_of_report:
                last_of_report = report_ends[at]
                if at >= oldest[s, first] and oldest[s, first] >= 0:
                    oldest[s, first] = next_own[at]
                    on_their_way[s, first] -= 1
                    done_now = arrivals[at] + (finish[at] - arrivals[at])
                    waited = max(done_now - busy_s[at] - max(done[s, first], arrivals[at]), 0.0)
                    strange[s] = tuning.strange_memory * strange[s] + (1.0 - tuning.strange_memory) * waited
                    done[s, first] = done_now
                    offset[s, first] = done_now - work_to[at]
                    top = most_lead[s, first]
                    while top >= 0 and top <= at:
                        top = less_lead[top]
                    most_lead[s, first] = top
                    if top < 0:
                        least_lead[s, first] = -1
                    else:
                        more_lead[top] = -1
                    longest = max(longest, arrived - done[s, first])
                    if expected[at] >= 0.0:
                        error = busy_s[at]
                        error -= _ratio(pace_cost[s, first], pace_expected[s, first], tuning.widest_pace) * expected[at]
                        pace_squares[s, first] = pace_squares[s, first] * tuning.pace_memory + error * error
                        pace_expected[s, first] = pace_expected[s, first] * tuning.pace_memory + expected[at]
                        pace_cost[s, first] = pace_cost[s, first] * tuning.pace_memory + busy_s[at]
                        if pace_expected[s, first] > 0.0:
                            beyond = _ratio(pace_cost[s, first], pace_expected[s, first], tuning.widest_pace) - 1.0
                            noise = tuning.standard_errors * math.sqrt(pace_squares[s, first])
                            noise /= pace_expected[s, first]
                            factor[s, first] = 1.0 + math.copysign(max(abs(beyond) - noise, 0.0), beyond)
                    model.learn_cost(costs, s, columns, keys[at], busy_s[at] / factor[s, first])
                    learned[s] += 1
                    if learned[s] % tuning.forget_every == 0:
                        model.forget_costs(costs, s, 1.0, tuning.remember, tuning.forgotten)
                at = next_own[at]
            next_report[s, first] = at
            way[s] = max(longest, way[s] * tuning.way_memory)
            mean = model.mean_cost(costs, s)
            for i in range(instances):
                at = oldest[s, i]
                if at < 0 or expected[at] >= 0.0 or not (i == first or knew_nothing):
                    continue
                queued[s, i] = 0.0
                offset[s, i] = done[s, i]
                most_lead[s, i] = -1
                least_lead[s, i] = -1
                while at >= 0:
                    if expected[at] < 0.0:
                        takes[at] = strange[s] + mean
                    _count(
                        at, s, i, arrivals, takes, work_to, queued, lead, less_lead, more_lead, most_lead, least_lead
                    )
                    at = next_own[at]
        if learned[s] > 0:
            chosen = -1
            least = math.inf
            for i in range(instances):
                ready = offset[s, i]
                if most_lead[s, i] >= 0:
                    ready = max(ready, lead[most_lead[s, i]])
                ready = max(queued[s, i] + ready, now)
                if oldest[s, i] >= 0:
                    ready = max(ready, now - way[s] + (queued[s, i] - work_to[oldest[s, i]]))
                if chosen < 0 or ready < least or (ready == least and used[s, i] < used[s, chosen]):
                    chosen = i
                    least = ready
            expected[row] = model.expected_cost(costs, s, columns, keys[row])
            takes[row] = strange[s] + expected[row] * factor[s, chosen]
        else:
            chosen = (row // schedulers) % instances
            expected[row] = -1.0
            takes[row] = 0.0
        used[s, chosen] = row
        if own_last[s, chosen] >= 0:
            next_own[own_last[s, chosen]] = row
        own_last[s, chosen] = row
        if next_report[s, chosen] < 0:
            next_report[s, chosen] = row
        if oldest[s, chosen] < 0:
            oldest[s, chosen] = row
        on_their_way[s, chosen] += 1
        _count(row, s, chosen, arrivals, takes, work_to, queued, lead, less_lead, more_lead, most_lead, least_lead)
        if on_their_way[s, chosen] > tuning.remembered_rows:
            at = oldest[s, chosen]
            before = arrivals[at] - (work_to[at] - takes[at])
            done[s, chosen] = work_to[at] + max(offset[s, chosen], before)
            offset[s, chosen] = done[s, chosen] - work_to[at]
            top = most_lead[s, chosen]
            if top == at:
                most_lead[s, chosen] = less_lead[top]
                more_lead[less_lead[top]] = -1
            oldest[s, chosen] = next_own[at]
            on_their_way[s, chosen] -= 1
        busy_s[row] = costs_s[row] * speeds[row * stretches // rows, chosen]
        end[chosen] = max(now, end[chosen]) + busy_s[row]
        finish[row] = end[chosen]
        if last[chosen] >= 0:
            after[last[chosen]] = row
        last[chosen] = row
        if running[chosen] < 0:
            running[chosen] = row
    return finish, reports


@compiled
def _count(  # noqa: PLR0913, PLR0917 - compiled functions take no keywords
    row: int,
    s: int,
    i: int,
    arrivals: Floats,
    takes: Floats,
    work_to: Floats,
    queued: Floats,
    lead: Floats,
    less_lead: Ints,
    more_lead: Ints,
    most_lead: Ints,
    least_lead: Ints,
) -> None:
    """`ExpectedQueue._count`; the leads are a list through `less_lead`, back through `more_lead`."""
    lead[row] = arrivals[row] - queued[s, i]
    bottom = least_lead[s, i]
    while bottom >= 0 and lead[bottom] <= lead[row]:
        bottom = more_lead[bottom]
    more_lead[row] = bottom
    less_lead[row] = -1
    if bottom >= 0:
        less_lead[bottom] = row
    else:
        most_lead[s, i] = row
    least_lead[s, i] = row
    queued[s, i] += takes[row]
    work_to[row] = queued[s, i]


@compiled
def _ratio(cost: float, expected: float, widest: float) -> float:
    """`Pace._ratio`."""
    if expected <= 0.0:
        return 1.0
    return min(max(cost / expected, 1.0 / widest), widest)
