r"""The load shedding road map: precomputed drop plans in ascending order of saved work.

Each entry drops a little more than the last, where the next row costs the least utility per unit of saved work (Tatbul
et al. 2003, 4.3). The savings at run time depend on the rates, so they are kept by input. A row of input $i$ causes
$L_i$ work without drops and $L_i'$ with them, and the entry saves $\sum_i r_i (L_i - L_i')$.

An overload needs only a look-up: the first entry that saves enough, searched from the entry in force.

Between two knots flows change linearly, so entries are interpolated. Knots are where the greedy algorithm reaches a
bend of a graph or a saturated branch; or they are optimal (`exact`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from penstock.core.network import exact
from penstock.core.network.by_value.cells import Predicate
from penstock.core.network.drops import Place, Shedding, Skeleton
from penstock.core.network.model import Network
from penstock.core.settings import number, one_of
from penstock.errors import PenstockError

Placement = Literal["single", "group"]
Solver = Literal["auto", "greedy", "exact"]
Floats = NDArray[np.float64]

#: Entries are at least this share of the load apart.
_FINEST = 1.0 / 5000.0
#: Entries are at most this share of the load apart, for each unit of `step`.
_COARSEST = 0.05
#: A share this close to 1 is 1, and rows below this share of a split are none.
_ROUNDING = 1e-9
#: With more places than this `auto` does not solve linear programs.
_MANY_PLACES = 2000


@dataclass(frozen=True)
class Entry:
    """One plan: the first one drops nothing."""

    savings: dict[str, float]  #: work saved for each row of an input
    #: The keep share of each drop, by place; places without a drop are omitted.
    keep: dict[str, float]
    delivered: dict[str, float]  #: percent of its rows that each output gets
    utility: float  #: utilities of all outputs, summed
    predicates: dict[str, Predicate] = field(default_factory=dict)  #: conditions of drops by value, by place


@dataclass(frozen=True)
class RoadMap:
    """Plans in ascending order of shed work."""

    inputs: tuple[str, ...]  #: names of the inputs, in the order of the columns of `savings`
    places: tuple[str, ...]  #: candidate places, in the order of the columns of `keep`
    outputs: tuple[str, ...]  #: names of the outputs, in the order of the columns of `delivered`
    savings: Floats  #: work saved for each row of an input, one row an entry
    keep: Floats  #: share of rows that pass each place
    delivered: Floats  #: percent delivered to each output
    utility: Floats  #: sum of the outputs' utilities

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.utility)

    def entry(self, index: int) -> Entry:
        """An entry by its number."""
        keep = dict(zip(self.places, self.keep[index].tolist(), strict=True))
        return Entry(
            savings=dict(zip(self.inputs, self.savings[index].tolist(), strict=True)),
            keep={name: share for name, share in keep.items() if share < 1.0},
            delivered=dict(zip(self.outputs, self.delivered[index].tolist(), strict=True)),
            utility=float(self.utility[index]),
        )

    def find(self, excess: float, rates: Mapping[str, float], cursor: int = 0) -> int:
        """The first entry that saves at least `excess` at these rates; the last if none does.

        Searches from the cursor in growing steps, then by bisection.
        """
        given = np.array([rates[name] for name in self.inputs])

        def enough(index: int) -> bool:
            return bool(self.savings[index] @ given >= excess * (1.0 - 1e-12))

        if excess <= 0.0:
            return 0
        last = len(self) - 1
        cursor, step = min(max(cursor, 0), last), 1
        if enough(cursor):
            low, high = cursor - 1, cursor
            while low >= 0 and enough(low):
                low, high, step = low - step, low, 2 * step
            low = max(low, -1)
        else:
            low, high = cursor, cursor + 1
            while high <= last and not enough(high):
                low, high, step = high, high + step, 2 * step
            if high > last:
                if not enough(last):
                    return last
                high = last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def build(
    network: Network,
    rates: Mapping[str, float] | None = None,
    *,
    step: float = 0.02,
    drop_cost: float = 0.0,
    placement: Placement = "single",
    solver: Solver = "auto",
    objective: exact.Objective = "sum",
) -> RoadMap:
    """The road map of a network at these rates, whose proportions alone matter.

    Args:
        network: Inputs, boxes and outputs.
        rates: Rows a second of each input; those of the network if not given.
        step: Share of a place's rows that one entry drops more than the one before it, at most.
        drop_cost: Work that a drop itself does on each row.
        placement: Of the greedy way. `single`: each input and branch is a separate place. `group`: all places upstream
            of a union drop alike, as the paper's text says.
        solver: `greedy`: the next row with the least loss for its work. `exact`: linear programs. `auto`: greedy if
            queries share no rows, where it is almost optimal; otherwise exact.
        objective: `sum` of utilities; `balanced`, proportionally fair; or `max_min`, the worst utility first, then the
            sum. The latter two are always exact.
    """
    check_step(network, step, drop_cost)
    for setting, given, kinds in (("placement", placement, Placement), ("solver", solver, Solver)):
        one_of(setting, given, get_args(kinds))
    bones = Skeleton(network, rates)
    steps, count = np.full(len(bones.places), step), len(bones.places)
    nearly_best = placement == "group" or count == len(bones.rates) or count > _MANY_PLACES
    if objective == "sum" and (solver == "greedy" or (solver == "auto" and nearly_best)):
        # For each output and each split, all places that a drop reaches when it is pushed upstream through unions.
        grouped = {tuple(feeders): feeders for feeders in bones.feeders if feeders}.values()
        groups = [[index] for index in range(count)] if placement == "single" else list(grouped)
        return _read_off(bones, _way_down(bones, groups), steps)
    return _read_off(bones, exact.way_down(bones, objective), steps)


def check_step(network: Network, step: float, drop_cost: float) -> None:
    """Refuse a step that saves less than the drop itself costs."""
    least = [one for one in network.coefficients.values() if one > 0.0]
    if not drop_cost / min(least, default=1.0) < number("step", step, 0.0, 1.0):
        raise PenstockError.setting(
            "step",
            step,
            f"a share above {drop_cost / min(least):g}, drop cost over the least load coefficient, up to 1",
        )


def descent(
    network: Network, rates: Mapping[str, float] | None, places: Sequence[Place], steps: Sequence[float]
) -> RoadMap:
    """The greedy road map over these inputs and arcs only, each with its own step (see `build`)."""
    bones = Skeleton(network, rates, places)
    number_of = {place.name: index for index, place in enumerate(bones.places)}
    told = [number_of[place.name] for place in places]
    by_place = np.full(len(bones.places), np.inf)
    by_place[told] = steps
    found = _read_off(bones, _way_down(bones, [[index] for index in told]), by_place)
    return replace(found, places=tuple(place.name for place in places), keep=found.keep[:, told])


def _way_down(bones: Skeleton, groups: list[list[int]]) -> Floats:
    """Drop more where it costs least, until no rows flow: rows that pass each place, one array row per knot."""
    state = Shedding(bones)
    groups_of: list[list[int]] = [[] for _ in bones.places]
    for number_, group in enumerate(groups):
        for index in group:
            groups_of[index].append(number_)
    version = [0] * len(groups)
    heap = [(state.ratio(group), number_, 0) for number_, group in enumerate(groups)]
    heapify(heap)
    knots = [np.array(state.rows)]
    while heap:
        ratio, chosen, made = heappop(heap)
        if made != version[chosen] or ratio == np.inf or not state.left(groups[chosen]):
            continue
        now = state.ratio(groups[chosen])
        if now > ratio * (1.0 + _ROUNDING):  # other drops have changed the mixture of a group
            heappush(heap, (now, chosen, made))
            continue
        changed = state.take(groups[chosen])
        knots.append(np.array(state.rows))
        for other in {chosen}.union(*(groups_of[index] for index in changed)):
            version[other] += 1
            heappush(heap, (state.ratio(groups[other]), other, version[other]))
    return np.stack(knots)


def _read_off(bones: Skeleton, knots: Floats, steps: Floats) -> RoadMap:
    """Entries along the way, close enough together."""
    rows = _points(bones, knots, steps)
    inputs = [place.name for place in bones.places if place.arc is None]
    coming, full = bones.coming(rows), bones.full[1]
    keep = np.ones_like(rows)
    for index, (place, split) in enumerate(zip(bones.places, bones.stands, strict=True)):
        before, most = (
            (bones.rates[place.name], bones.rates[place.name]) if split is None else (coming[:, split], full[split])
        )
        some = np.broadcast_to(before > _ROUNDING * most, len(rows))
        np.divide(rows[:, index], before, out=keep[:, index], where=some)
    keep = np.where(keep > 1.0 - _ROUNDING, 1.0, keep)
    work = np.zeros_like(coming)

    def caused(index: int) -> Floats:
        total: Floats = np.full(len(rows), bones.work[index])
        for end, share in bones.reach[index]:
            total += share * work[:, end]
        return total * keep[:, index]

    for end in reversed(range(len(bones.ends))):
        for index in bones.branches[end]:
            work[:, end] += caused(index)
    savings = np.stack([bones.network.coefficients[name] - caused(index) for index, name in enumerate(inputs)], axis=1)
    outputs = bones.network.outputs
    percent = [
        100.0 * coming[:, end] / full[end] if full[end] > 0.0 else np.full(len(rows), 100.0)
        for end in (bones.number[one.name] for one in outputs)
    ]
    delivered = np.stack(percent, axis=1).clip(0.0, 100.0).round(9)
    utility = np.zeros(len(rows))
    for column, one in enumerate(outputs):
        percents, utilities = zip(*reversed(one.loss_tolerance.points), strict=True)
        utility += np.interp(delivered[:, column], percents, utilities)
    return RoadMap(
        tuple(inputs),
        tuple(place.name for place in bones.places),
        tuple(one.name for one in outputs),
        savings.clip(0.0),
        keep,
        delivered,
        utility,
    )


def _points(bones: Skeleton, knots: Floats, steps: Floats) -> Floats:
    """Rows that pass each place, at the knots and in between."""
    full, loads = np.array(bones.full[0]), knots @ np.array(bones.work)
    finest = max(loads[0], 1e-300) * _FINEST
    moved = np.abs(np.diff(knots, axis=0)) / np.where(full > 0.0, full, np.inf)
    saved = -np.diff(loads) / max(loads[0], 1e-300)
    pieces = np.maximum(np.ceil((moved / steps).max(axis=1) - _ROUNDING), np.ceil(saved / (_COARSEST * steps.min())))
    pieces = np.minimum(pieces, np.ceil(saved / _FINEST)).clip(1.0).astype(int)
    where = np.concatenate(
        [*(knot + np.arange(count) / count for knot, count in enumerate(pieces)), [len(knots) - 1.0]]
    )
    at = np.interp(where, np.arange(len(knots)), loads)
    chosen, last = [0], at[0]
    for index, load in enumerate(at[1:-1].tolist(), start=1):
        if last - load >= finest * 0.5:
            chosen.append(index)
            last = load
    where = where[[*chosen, len(where) - 1]] if len(where) > 1 else where
    below = np.minimum(where.astype(int), max(len(knots) - 2, 0))
    share = (where - below)[:, np.newaxis]
    above = np.minimum(below + 1, len(knots) - 1)
    found: Floats = knots[below] * (1.0 - share) + knots[above] * share
    return found
