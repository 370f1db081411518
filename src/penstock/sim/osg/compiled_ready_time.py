"""The fast path of Penstock's own grouping: the machines of `penstock.core.grouping.ready_time` in one compiled loop.

The rules of `penstock.sim.osg.compiled` hold here too.
"""

import math
from typing import NamedTuple

import numpy as np

from penstock.core.compiled import compiled
from penstock.core.grouping import ready_time
from penstock.core.row import cost_sketch
from penstock.sim import compiled_costs as model
from penstock.sim.compiled_costs import Columns, Floats, Ints, accelerator


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
