r"""Dealing the rows of a micro-batch to partitions by expected cost.

A task has all its rows before it returns the first, so the problem is offline. The most expensive rows come first, each
to the partition that would complete it first. This is Graham's rule. For equal partitions it ends within $4/3 - 1/(3k)$
of the shortest makespan, against $2 - 1/k$ for rows in any order:

$$j = \mathrm{arg}\min_j \; C_j + \hat w_{b,j}, \qquad C_j \leftarrow C_j + \hat w_{b,j}$$

All rows of a bucket have the same estimate. So they are dealt bucket by bucket. Partition $j$ takes the next row at
$C_j + m\,\hat w_{b,j}$, $m = 1, 2, \dots$, and a water level gives the $n_b$ smallest of these without a search row by
row.

Keys that share a bucket are dealt one after the other, in turn. So each of them is spread evenly, even if the estimate
is wrong for it.

Nothing depends on the order of rows, so a rerun task deals alike.
"""

import math
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

#: A row that costs less than this share of the mean is dealt by number.
_NEGLIGIBLE = 1e-3
#: The precision of a level; the remaining rows are dealt one by one.
_CLOSE = 1e-9


def deal(
    strata: NDArray[np.int64], hashes: NDArray[np.int64], costs: NDArray[np.float64], partitions: int, start: int = 0
) -> NDArray[np.int32]:
    """The partition of each row.

    >>> strata, hashes = np.array([5, 9, 9, 9, 9]), np.array([1, 2, 3, 4, 5])
    >>> costs = np.ones(1024)
    >>> costs[5] = 4.0
    >>> deal(strata, hashes, costs, 2).tolist()
    [0, 1, 1, 1, 1]
    >>> deal(strata, hashes, np.ones(1), 2).tolist()  # all alike: round-robin
    [0, 1, 0, 1, 0]

    Args:
        strata: The hash of a row's key. Its low bits are the row's bucket.
        hashes: A hash that distinguishes rows of one stratum.
        costs: Cost of a row by bucket, or by partition and bucket; a power of two of buckets.
        partitions: How many there are.
        start: The preferred partition among equals. If each of several tasks has another one, their remainders do not
            all go to one partition.
    """
    dealt = np.zeros(len(strata), np.int32)
    if partitions == 1 or not len(strata):
        return dealt
    costs = np.atleast_2d(costs)
    buckets = strata & (costs.shape[1] - 1)
    order = np.lexsort((hashes, strata, buckets))
    rows = np.bincount(buckets, minlength=costs.shape[1])
    ends = np.cumsum(rows)
    dearest_first = np.argsort(-costs.mean(axis=0), kind="stable")
    turns = np.roll(np.arange(partitions), -start)
    loads = [0.0] * partitions  # from here on partitions are numbered in their order of preference
    taken = [0.0] * partitions
    negligible = _NEGLIGIBLE * float(costs.mean(axis=0) @ rows) / len(strata)
    for bucket in dearest_first[rows[dearest_first] > 0].tolist():
        own = costs[:, bucket][turns if len(costs) > 1 else [0] * partitions].tolist()
        if max(own) <= negligible:  # Almost free rows are dealt by number.
            counts = pour(taken, [1.0] * partitions, int(rows[bucket]))
        else:
            counts = pour(loads, [max(cost, negligible) for cost in own], int(rows[bucket]))
        taken = [before + count for before, count in zip(taken, counts, strict=True)]
        loads = [load + count * cost for load, count, cost in zip(loads, counts, own, strict=True)]
        dealt[order[ends[bucket] - rows[bucket] : ends[bucket]]] = turns[_in_turn(counts)]
    return dealt


def pour(loads: list[float], costs: list[float], rows: int) -> list[int]:
    """The number of rows that each partition takes of equal rows, if each row goes where it is done first.

    >>> pour([0.0, 5.0], [1.0, 1.0], 9)
    [7, 2]
    >>> pour([0.0, 0.0], [1.0, 2.0], 6)
    [4, 2]
    """
    counts = [0] * len(loads)
    level = _level(loads, costs, rows)
    for place, (load, cost) in enumerate(zip(loads, costs, strict=True)):
        if load < level:
            counts[place] = math.floor((level - load) / cost * (1.0 - _CLOSE))
    left = rows - sum(counts)
    if left:
        done = zip(range(len(loads)), loads, counts, costs, strict=True)
        heap = [(load + (count + 1) * cost, place) for place, load, count, cost in done]
        heapify(heap)
        for _ in range(left):
            time, place = heap[0]
            counts[place] += 1
            heapreplace(heap, (time + costs[place], place))
    return counts


def _level(loads: list[float], costs: list[float], rows: int) -> float:
    """The time at which rows could all be done if a row could be split."""
    rate = work = 0.0
    level = math.inf
    for load, cost in sorted(zip(loads, costs, strict=True)):
        if load >= level:
            break
        rate += 1.0 / cost
        work += load / cost
        level = (rows + work) / rate
    return level


def _in_turn(counts: list[int]) -> NDArray[np.intp]:
    """Each place as often as its count, spread evenly.

    >>> _in_turn([2, 4]).tolist()
    [1, 0, 1, 1, 0, 1]
    """
    places = np.repeat(np.arange(len(counts)), counts)
    each = np.array(counts)
    numbers = np.arange(len(places)) - np.repeat(np.cumsum(each) - each, each)
    return places[np.argsort((numbers + 0.5) / each[places], kind="stable")]
