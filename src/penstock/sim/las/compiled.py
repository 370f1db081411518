"""The fast path: the same machines as in `penstock.core`, one compiled loop each.

A figure of a paper needs hundreds of millions of verdicts. These loops give, row for row, the verdicts that
`queueing.simulate` gets from the readable machines (a test compares them), a few hundred times faster. They are
short because one operator serves rows in order: an admitted row starts when it arrives or when the row before it
ends. Every constant is an argument, because compiled code on disk would not notice a changed one.

Each loop returns the queuing latency of every row, NaN for a dropped one.
"""

import math

import numpy as np

from penstock.core.compiled import compiled
from penstock.sim.compiled_costs import Columns, Floats, Ints, accelerator, changed, sketched


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
                    sent_frequency[matrices] = frequency
                    sent_work[matrices] = work
                    sent_mean[matrices] = total_cost / count
                    matrices += 1
                    frequency[:] = 0.0
                    work[:] = 0.0
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
