"""The fast path: the same machines as in `penstock.core`, one compiled loop each.

A figure of a paper needs hundreds of millions of verdicts. These loops give, row for row, the verdicts that
`queueing.simulate` gets from the readable machines (a test compares them), a few hundred times faster. They are
short because one operator serves rows in order: an admitted row starts when it arrives or when the row before it
ends. Every constant is an argument, because compiled code on disk would not notice a changed one.

Each loop returns the queuing latency of every row, NaN for a dropped one.
"""

import math
from typing import NamedTuple

import numpy as np

from penstock.core.compiled import compiled
from penstock.core.row import cost_model, cost_sketch, latency_budget, load_aware, price
from penstock.sim import compiled_costs as model
from penstock.sim.compiled_costs import Columns, Floats, Ints, accelerator, changed, hand_over, sketched


@compiled
def base_line(arrivals: Floats, costs_s: Floats, coins: Floats, drop_share: float, calm_rows: int) -> Floats:
    """Base Line: drop if the row's coin, from [0, 1), is below the share."""
    rows = len(arrivals)
    queuing = np.full(rows, np.nan)
    end = 0.0
    for row in range(rows):
        if row >= calm_rows and coins[row] < drop_share:
            continue
        start = max(arrivals[row], end)
        queuing[row] = start - arrivals[row]
        end = start + costs_s[row]
    return queuing


@compiled
def predictive(arrivals: Floats, costs_s: Floats, added_s: Floats, target_s: float, calm_rows: int) -> Floats:
    """LAS's strategy with the running average, adding a given cost for each row (Straw-Man, Full Knowledge)."""
    rows = len(arrivals)
    queuing = np.full(rows, np.nan)
    end = free = total = 0.0
    passed = 0
    for row in range(rows):
        now = arrivals[row]
        free = max(free, now)
        predicted = free - now
        if row >= calm_rows:
            if (total + predicted) / (passed + 1) > target_s:
                continue
            total += predicted
            passed += 1
        free += added_s[row]
        start = max(now, end)
        queuing[row] = start - now
        end = start + costs_s[row]
    return queuing


@accelerator
def las(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one loop on purpose: this is the fast path
    keys: Ints,
    costs_s: Floats,
    arrivals: Floats,
    columns: Columns,
    width: int,
    window_rows: int,
    tolerance: float,
    first_check: bool,  # noqa: FBT001 - compiled functions take no keywords
    factor: float,
    target_s: float,
    delay_s: float,
    stop_after_nop: bool,  # noqa: FBT001 - as above
) -> tuple[Floats, int]:
    """LAS as published, with the running average; also the number of rows admitted in NOP."""
    rows = len(keys)
    depth = columns.shape[0]
    queuing = np.full(rows, np.nan)
    # Admitted rows, in order: number, end, and the request they carry.
    sent = np.empty(rows, np.int64)
    finish = np.empty(rows)
    request = np.full(rows, np.nan)
    admitted = done = 0
    end = 0.0
    # The operator's machine.
    stabilizing = False
    frequency = np.zeros((depth, width))
    work = np.zeros((depth, width))
    snapshot = np.zeros((depth, width))
    count = total_cost = 0.0
    # Messages in transit.
    delta_at = np.empty(rows)
    delta = np.empty(rows)
    deltas = deltas_in = 0
    room = rows // window_rows + 1
    matrices_at = np.empty(room)
    sent_frequency = np.empty((room, depth, width))
    sent_work = np.empty((room, depth, width))
    sent_mean = np.empty(room)
    matrices = matrices_in = 0
    # The shedder's machine.
    send = False
    nop_rows = passed = 0
    free = total = 0.0
    for row in range(rows):
        now = arrivals[row]
        while done < admitted and finish[done] <= now:
            executed = sent[done]
            if not math.isnan(request[done]):
                delta_at[deltas] = finish[done] + delay_s
                delta[deltas] = finish[done] - request[done]
                deltas += 1
            if (done + 1) % window_rows == 0:
                error = changed(snapshot, frequency, work)
                if stabilizing and (first_check or error <= tolerance):
                    matrices_at[matrices] = finish[done] + delay_s
                    hand_over(frequency, sent_frequency[matrices])
                    hand_over(work, sent_work[matrices])
                    sent_mean[matrices] = total_cost / count
                    matrices += 1
                    count = total_cost = 0.0
                    stabilizing = False
                else:
                    stabilizing = True
            for i in range(depth):
                frequency[i, columns[i, keys[executed]]] += 1.0
                work[i, columns[i, keys[executed]]] += costs_s[executed]
            count += 1.0
            total_cost += costs_s[executed]
            done += 1
        while deltas_in < deltas and delta_at[deltas_in] <= now:
            free += delta[deltas_in]
            deltas_in += 1
        while matrices_in < matrices and matrices_at[matrices_in] <= now:
            matrices_in += 1
            send = True
        if matrices_in == 0:
            nop_rows += 1
        else:
            if stop_after_nop:
                break
            free = max(free, now)
            predicted = free - now
            if (total + predicted) / (passed + 1) > target_s:
                continue
            total += predicted
            passed += 1
            last = matrices_in - 1
            free += sketched(sent_frequency[last], sent_work[last], columns, keys[row], sent_mean[last]) * factor
            if send:
                request[admitted] = free
                send = False
        start = max(now, end)
        queuing[row] = start - now
        end = start + costs_s[row]
        sent[admitted] = row
        finish[admitted] = end
        admitted += 1
    return queuing, nop_rows


class Tuning(NamedTuple):
    """The constants of `penstock.core.row.load_aware` and its parts."""

    sync_every: int = load_aware.SYNC_EVERY
    silence_targets: float = load_aware.SILENCE_TARGETS
    unanswered_requests: int = load_aware.UNANSWERED_REQUESTS
    reply_memory: float = load_aware.REPLY_MEMORY
    margin: float = latency_budget.MARGIN
    depth_rows: float = latency_budget.DEPTH_ROWS
    debt_rows: float = latency_budget.DEBT_ROWS
    patience: float = latency_budget.PATIENCE
    patience_rows: float = latency_budget.PATIENCE_ROWS
    heavy_places: int = cost_model.HEAVY_PLACES
    sketch_columns: int = cost_model.SKETCH_COLUMNS
    forget_every: int = cost_model.FORGET_EVERY
    remember: float = cost_model.REMEMBER
    forgotten: float = cost_sketch.FORGOTTEN
    drift_gain: float = cost_model.DRIFT_GAIN
    drift_limit: float = cost_model.DRIFT_LIMIT
    set_point: float = price.SET_POINT
    gain: float = price.GAIN
    bend: float = price.BEND
    limit: float = price.LIMIT
    floor: float = price.FLOOR


@accelerator
def load_aware_loop(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one loop on purpose: this is the fast path
    keys: Ints,
    costs_s: Floats,
    arrivals: Floats,
    columns: Columns,
    coins: Floats,
    target_s: float,
    prefer_cheap: bool,  # noqa: FBT001 - compiled functions take no keywords
    delay_s: float,
    tuning: Tuning,
) -> Floats:
    """Penstock's own shedder: `LoadAwareShedder` and `LoadAwareOperator`."""
    rows = len(keys)
    depth, items = columns.shape
    queuing = np.full(rows, np.nan)
    # Admitted rows, in order: number, end, and the request with its sums, if any.
    sent = np.empty(rows, np.int64)
    finish = np.empty(rows)
    request_of = np.full(rows, -1, np.int64)
    request_at = np.empty(rows)
    request_work = np.empty(rows)
    request_queued = np.empty(rows)
    admitted = done = 0
    end = 0.0
    # The operator's machine.
    waited = 0.0
    reported = 0
    # Replies in transit: their executed rows, and the two errors.
    reply_at = np.empty(rows)
    reply_finish = np.empty(rows)
    reply_first = np.empty(rows, np.int64)
    reply_last = np.empty(rows, np.int64)
    reply_clock = np.empty(rows)
    reply_queued = np.empty(rows)
    replies = replies_in = 0
    # CostModel.
    costs = model.no_costs(1, items, tuning.heavy_places, depth, tuning.sketch_columns)
    drift = 1.0
    learned = 0
    # LatencyBudget.
    aim = target_s * tuning.margin
    brim = aim * tuning.depth_rows
    bottom = -aim * tuning.debt_rows
    patience = target_s * tuning.patience
    patience_debt = aim * tuning.patience_rows
    slack = brim
    # Price.
    level = tuning.limit
    # The shedder's own sums, and the requests it waits for.
    memory = np.empty(rows, np.int64)
    requests = remembered = unanswered = 0
    judged_at = forwarded_at = requested_at = 0.0
    blind_requests = -1
    reporting = True
    way_open = False
    finished = reply_way = 0.0
    silence = target_s * tuning.silence_targets
    estimated = queued = clock_error = queued_error = 0.0
    for row in range(rows):
        now = arrivals[row]
        while done < admitted and finish[done] <= now:
            waited += queuing[sent[done]]
            if request_of[done] >= 0:
                reply_at[replies] = finish[done] + delay_s
                reply_finish[replies] = finish[done]
                reply_first[replies] = reported
                reply_last[replies] = done
                reply_clock[replies] = finish[done] - request_work[replies]
                reply_queued[replies] = waited - request_queued[replies]
                replies += 1
                reported = done + 1
            done += 1
        while replies_in < replies and reply_at[replies_in] <= now:
            expected = actual = 0.0
            for k in range(reply_first[replies_in], reply_last[replies_in] + 1):
                expected += drift * model.expected_cost(costs, 0, columns, keys[sent[k]])
                actual += costs_s[sent[k]]
            if expected > 0.0:
                ratio = min(max(actual / expected, 1.0 / tuning.drift_limit), tuning.drift_limit)
                drift *= ratio**tuning.drift_gain
            for k in range(reply_first[replies_in], reply_last[replies_in] + 1):
                model.learn_cost(costs, 0, columns, keys[sent[k]], costs_s[sent[k]] / drift)
                learned += 1
                if learned % tuning.forget_every == 0:
                    model.forget_costs(costs, 0, drift, tuning.remember, tuning.forgotten)
                    drift = 1.0
            clock_error = reply_clock[replies_in]
            if blind_requests < 0:
                blind_requests = requests
            if replies_in >= blind_requests:
                slack = min(max(slack - (reply_queued[replies_in] - queued_error), bottom), brim)
            queued_error = reply_queued[replies_in]
            finished = reply_finish[replies_in]
            way_open = True
            reporting = True
            replies_in += 1
            while unanswered < remembered and memory[unanswered] < replies_in:
                unanswered += 1
        if way_open:
            reply_way = max(judged_at - finished, reply_way * tuning.reply_memory)
            way_open = False
        judged_at = now
        if unanswered < remembered and now - request_at[memory[unanswered]] > silence:
            reporting = False
        least = 0.0
        if unanswered < remembered and reporting and abs(now - forwarded_at) <= target_s:
            least = max(estimated - request_work[memory[unanswered]] - reply_way, 0.0)
        predicted = estimated + clock_error - now
        if predicted < least:
            clock_error = now + least - estimated
            predicted = least
        cost = drift * model.expected_cost(costs, 0, columns, keys[row])
        if prefer_cheap:
            step = tuning.gain * (tuning.set_point - predicted / target_s)
            level = min(max(level * math.exp(step), 1.0 / tuning.limit), tuning.limit)
            mean = model.mean_cost(costs, 0) * drift
            relative = cost / mean if mean > 0.0 else 0.0
            too_dear = predicted > 0.0 and relative > level * math.exp(tuning.bend * (1.0 - predicted / target_s))
            if too_dear and coins[row] >= tuning.floor:
                continue
        allowed = patience * patience_debt / (patience_debt + max(-slack, 0.0))
        if predicted > aim + slack and predicted > allowed and abs(now - forwarded_at) <= silence:
            continue
        forwarded_at = now
        slack = min(max(slack + (aim - predicted), bottom), brim)
        estimated += cost
        queued += predicted
        start = max(now, end)
        queuing[row] = start - now
        end = start + costs_s[row]
        sent[admitted] = row
        finish[admitted] = end
        admitted += 1
        if admitted <= tuning.sync_every or admitted % tuning.sync_every == 0 or abs(now - requested_at) > target_s:
            requested_at = now
            request_of[admitted - 1] = requests
            request_at[requests] = now
            request_work[requests] = estimated
            request_queued[requests] = queued
            if remembered - unanswered < tuning.unanswered_requests:
                memory[remembered] = requests
                remembered += 1
            requests += 1
    return queuing
