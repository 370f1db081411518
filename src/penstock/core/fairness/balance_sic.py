r"""BALANCE-SIC: an overloaded node keeps the tuples that raise the poorest query to the next one.

While capacity is left, the query $q'$ with the least SIC takes tuples, at least one, until it reaches the next higher
SIC $q''$. If all are equal, it takes one. Ties among the poorest are broken at random. It takes its most valuable
tuples first, and a query whose tuples are all kept leaves (THEMIS, section 5, Algorithm 1). Line 14 is read as "the
next different SIC", line 18 as "no more than $c$".

A query's SIC is known from its coordinator, late. So before it selects, a node assumes that everything in its input
buffer is lost, and adds the SIC of kept tuples (section 6):

$$q_{SIC} \leftarrow q^{told}_{SIC} - \sum_{t \in buffer} t_{SIC}$$
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.compiled import compiled
from penstock.core.fairness.max_min import Floats, Ints, Query
from penstock.core.seeded_random import drawn
from penstock.core.settings import int64, number
from penstock.errors import PenstockError

Words: TypeAlias = NDArray[np.uint64]
#: Which tuples of a query go first: the most valuable, or of each batch in proportion to its size (as Figure 3 does).
Pick = Literal["valuable", "proportional"]

#: SIC values closer than this are equal, because of rounding.
SAME_SIC = 1e-12
#: With room for fewer tuples than this, every iteration is made.
LEAP_ROOM = 1000
#: More tuples than any buffer has, and exact as a float.
MOST_TUPLES = 2**50
#: The maximum number of jumps to the levels of queries; each leaves less to iterate.
_MORE_LEAPS = 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Selection(Generic[Query]):
    """What a node keeps."""

    kept: dict[Query, list[int]]  #: by query, the tuples kept of each of its batches, in the order given
    sic: dict[Query, float]  #: by query, its SIC afterwards: the start and the kept tuples

    @property
    def tuples(self) -> int:
        """Tuples kept of all queries together."""
        return sum(sum(kept) for kept in self.kept.values())


def balance_sic(
    capacity: float,
    queries: Mapping[Query, Sequence[tuple[int, float]]],
    *,
    known_sic: Mapping[Query, float] | None = None,
    seed: int = 0,
    update_sic: bool = True,
    project: bool = True,
    pick: Pick = "valuable",
) -> Selection[Query]:
    """Select the tuples to keep, at most `capacity`, of batches (tuples, SIC of each tuple) by query.

    Args:
        capacity: Tuples that can be processed until the next call.
        queries: The input buffer: each query's batches.
        known_sic: The SIC that coordinators sent. A missing query starts from 0, nothing subtracted.
        seed: Decides ties.
        update_sic: Whether `known_sic` is used; without it a node uses only the tuples that it keeps itself.
        project: Whether the buffer's SIC is subtracted from `known_sic` first.
        pick: Which tuples of a query go first.

    >>> fair = balance_sic(9, {"slow": [(10, 0.1)], "fast": [(40, 0.025)]}, seed=1)
    >>> fair.kept, {query: round(sic, 3) for query, sic in fair.sic.items()}
    ({'slow': [2], 'fast': [7]}, {'slow': 0.2, 'fast': 0.175})
    >>> balance_sic(9, {"slow": [(10, 0.1)], "fast": [(40, 0.025)]}, known_sic={"slow": 2.0}).kept
    {'slow': [0], 'fast': [9]}
    """
    told = {
        query: number(f"known_sic of query {query!r}", sic, -np.inf)
        for query, sic in (known_sic or {}).items()
        if update_sic
    }
    flat = [(at, *_batch(query, batch)) for at, query in enumerate(queries) for batch in queries[query]]
    owner = np.array([query for query, _, _ in flat], dtype=np.int64)
    tuples = np.array([size for _, size, _ in flat], dtype=np.int64)
    sic = np.array([value for _, _, value in flat], dtype=np.float64)
    known = np.array([told.get(query, np.nan) for query in queries], dtype=np.float64)
    start = start_levels(known, owner, tuples, sic) if project else np.nan_to_num(known)
    kept, after = climb(capacity, owner, tuples, sic, start, seed=seed, pick=pick)
    shares = iter(kept.tolist())
    return Selection(
        {query: [next(shares) for _ in batches] for query, batches in queries.items()},
        dict(zip(queries, after.tolist(), strict=True)),
    )


def _batch(query: object, batch: Sequence[float]) -> tuple[int, float]:
    try:
        tuples, sic = batch
        usable = 0 <= tuples <= MOST_TUPLES and tuples == int(tuples) and 0.0 <= sic < np.inf
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise PenstockError.setting(
            f"batch of query {query!r}", batch, "a whole number of tuples from 0 up and the SIC of each from 0 up"
        )
    return int(tuples), float(sic)


def start_levels(known_sic: Floats, owner: Ints, tuples: Ints, sic: Floats) -> Floats:
    """SIC of queries if the whole buffer is lost (section 6); an unknown query has 0.

    >>> start_levels(np.array([0.5, np.nan]), np.array([0, 0, 1]), np.array([2, 1, 4]), np.array([0.1, 0.2, 0.1]))
    array([0.1, 0. ])
    """
    buffered = np.bincount(owner, tuples * sic, minlength=known_sic.size)
    return np.where(np.isnan(known_sic), 0.0, known_sic - buffered)


def climb(
    capacity: float, owner: Ints, tuples: Ints, sic: Floats, start: Floats, *, seed: int = 0, pick: Pick = "valuable"
) -> tuple[Ints, Floats]:
    """Algorithm 1 on flat arrays: tuples kept of each batch, and SIC of each query afterwards.

    Batch i has `tuples[i]` tuples of `sic[i]` each and belongs to query `owner[i]`; a query starts from `start`.
    Tuples without SIC are kept only if capacity is left at the end.
    """
    room = int(min(number("capacity", capacity, 0.0), MOST_TUPLES))
    seed = int64("seed", seed)
    if pick not in ("valuable", "proportional"):
        raise PenstockError.setting("pick", pick, "'valuable' or 'proportional'")
    # Equals in random order, or the same sources of a query would always be shed.
    order = np.lexsort((drawn(seed, owner.size), -sic, owner))
    live = order[(sic[order] > 0.0) & (tuples[order] > 0)]
    first = np.searchsorted(owner[live], np.arange(start.size + 1))
    taken = np.zeros(live.size, dtype=np.int64)
    if room > LEAP_ROOM and pick == "valuable":
        taken = _leap(room, start, owner[live], tuples[live], sic[live])
    after = start + np.bincount(owner[live], taken * sic[live], minlength=start.size)
    climbing = (after, taken, first, tuples[live], sic[live], np.uint64(seed % 2**64), pick == "proportional")
    left = _climb(room - int(taken.sum()), *climbing)
    kept = np.zeros(owner.size, dtype=np.int64)
    kept[live] = taken
    if left:
        worthless = np.flatnonzero(sic <= 0.0)
        sizes = tuples[worthless]
        kept[worthless] = np.clip(left - (np.cumsum(sizes) - sizes), 0, sizes)
    return kept, after


def _leap(room: int, start: Floats, owner: Ints, tuples: Ints, sic: Floats) -> Ints:
    """Tuples that all queries together take up to a level, without iterating.

    While a query is at a level, no other rises above it: those below all reach their first level at or above it. So
    Algorithm 1 passes through that state for the level of every query. Above all of these it passes through that state
    for every level, except that some of several equals may already be one tuple ahead.
    """
    worth = tuples * sic
    before = np.cumsum(worth) - worth
    begins = start[owner] + before - before[np.searchsorted(owner, owner)]

    def up_to(level: float) -> Ints:
        return np.clip(np.ceil((level - SAME_SIC / 2 - begins) / sic), 0, tuples).astype(np.int64)

    def stand(taken: Ints) -> Ints:
        """Raise all to the highest level of a query with tuples left that fits the capacity."""
        now = start + np.bincount(owner, taken * sic, minlength=start.size)
        levels = np.unique(now[owner[taken < tuples]])
        best, low, high = taken, -1, levels.size
        middle = high - 1  # usually all of them fit
        while low < middle < high:
            lifted = np.maximum(taken, up_to(float(levels[middle])))
            fits = lifted.sum() <= room
            best, low, high = (lifted, middle, high) if fits else (best, low, middle)
            middle = (low + high) // 2
        return best

    taken = stand(np.zeros_like(tuples))
    least, most = float(start[owner].max()), float((begins + worth).max())
    if (taken >= up_to(least)).all():
        while most - least > SAME_SIC and room - taken.sum() > LEAP_ROOM:
            level = (least + most) / 2
            lifted = up_to(level)
            least, most, taken = (level, most, lifted) if lifted.sum() <= room else (least, level, taken)
        return taken
    for _ in range(_MORE_LEAPS):
        earlier = int(taken.sum())
        taken = stand(taken)
        if taken.sum() - earlier < LEAP_ROOM:
            break
    return taken


@compiled
def _climb(  # noqa: C901, PLR0912, PLR0917 - one loop, compiled: it takes neither keywords nor objects
    room: int,
    level: Floats,
    kept: Ints,
    first: Ints,
    tuples: Ints,
    sic: Floats,
    seed: np.uint64,
    proportional: bool,  # noqa: FBT001 - same
) -> int:
    """Raises `level` and `kept` until capacity or tuples end; returns the capacity left."""
    front = first[:-1].copy()  # the first batch of each query that is not yet all kept
    for query in range(level.size):
        while front[query] < first[query + 1] and kept[front[query]] == tuples[front[query]]:
            front[query] += 1
    heap = np.zeros(level.size, dtype=np.int64)  # queries, the poorest on top
    key = np.rint(level / SAME_SIC)
    tie = np.zeros(level.size, dtype=np.uint64)
    poorest = np.zeros(level.size, dtype=np.int64)
    state = seed
    size = 0
    for query in range(level.size):
        if front[query] < first[query + 1]:
            state = state + _GOLDEN
            tie[query] = _mixed(state)
            size = _push(heap, size, query, key, tie)
    while room > 0 and size > 0:
        lowest = key[heap[0]]
        tied = 0
        while size > 0 and key[heap[0]] == lowest:
            poorest[tied] = heap[0]
            tied += 1
            size = _pop(heap, size, key, tie)
        # The order holds: a query that was raised is at the next level or above.
        for query in poorest[:tied]:
            if room == 0:
                break
            goal = level[query]
            if size > 0:
                goal = key[heap[0]] * SAME_SIC
            elif tied == 1:
                goal = np.inf
            behind = first[query + 1]
            while True:  # at least one tuple
                batch = front[query]
                count = min(tuples[batch] - kept[batch], room)
                if proportional:
                    batch = _least_served(kept, tuples, batch, behind)
                    count = 1
                elif goal < np.inf:
                    count = min(count, max(int(np.ceil((goal - level[query] - SAME_SIC / 2) / sic[batch])), 1))
                kept[batch] += count
                level[query] += count * sic[batch]
                room -= count
                while front[query] < behind and kept[front[query]] == tuples[front[query]]:
                    front[query] += 1
                if room == 0 or front[query] == behind or goal - level[query] <= SAME_SIC / 2:
                    break
            if front[query] < behind:
                key[query] = np.rint(level[query] / SAME_SIC)
                state = state + _GOLDEN
                tie[query] = _mixed(state)
                size = _push(heap, size, query, key, tie)
    return room


@compiled
def _before(one: int, other: int, key: Floats, tie: Words) -> bool:
    return bool(key[one] < key[other] or (key[one] == key[other] and tie[one] < tie[other]))


@compiled
def _push(heap: Ints, size: int, query: int, key: Floats, tie: Words) -> int:
    at = size
    while at > 0 and _before(query, heap[(at - 1) >> 1], key, tie):
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = query
    return size + 1


@compiled
def _pop(heap: Ints, size: int, key: Floats, tie: Words) -> int:
    size -= 1
    last = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(heap[child + 1], heap[child], key, tie):
            child += 1
        if not _before(heap[child], last, key, tie):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return size


@compiled
def _least_served(kept: Ints, tuples: Ints, first: int, behind: int) -> int:
    best = first
    for batch in range(first, behind):
        earlier = (kept[batch] + 1) * tuples[best] < (kept[best] + 1) * tuples[batch]
        if kept[batch] < tuples[batch] and (earlier or kept[best] == tuples[best]):
            best = batch
    return best


@compiled
def _mixed(state: np.uint64) -> np.uint64:
    """The random number of a state of splitmix64."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
