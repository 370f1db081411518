r"""The load shedding road map: drop plans that shed more and more, made before they are needed.

Entries follow from each other: where the next row costs least utility for the work it saves, a little more is dropped
(Tatbul et al. 2003, 4.3). What an entry saves at run time depends on the rates then, so it is kept by input: a row of
input $i$ causes $L_i$ work without drops and $L_i'$ with them, and the entry saves $\sum_i r_i (L_i - L_i')$.

Overload is met by a look-up: the first entry that saves enough, sought from the entry in force in both directions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from penstock.core.cells import Predicate
from penstock.core.drops import Place, Shedding, places, pushed_upstream
from penstock.core.network import Network
from penstock.core.settings import number
from penstock.errors import PenstockError

Placement = Literal["single", "group"]


@dataclass(frozen=True)
class Entry:
    """One plan: the first one drops nothing.

    Attributes:
        savings: Work saved for each row of an input.
        keep: The share of rows that each drop lets through, by place; places without a drop are left out.
        delivered: Percent of its rows that each output gets.
        utility: Utilities of all outputs, summed.
        predicates: What drops by value keep, by place.
    """

    savings: dict[str, float]
    keep: dict[str, float]
    delivered: dict[str, float]
    utility: float
    predicates: dict[str, Predicate] = field(default_factory=dict)


@dataclass(frozen=True)
class RoadMap:
    """Plans in ascending order of what they shed.

    Attributes:
        inputs: Names of the inputs, in the order of the columns of `savings`.
        places: Candidate places, in the order of the columns of `keep`.
        outputs: Names of the outputs, in the order of the columns of `delivered`.
        savings: Work saved for each row of an input, one row an entry.
        keep: Share of rows that pass each place.
        delivered: Percent delivered to each output.
        utility: Sum of the outputs' utilities.
    """

    inputs: tuple[str, ...]
    places: tuple[str, ...]
    outputs: tuple[str, ...]
    savings: NDArray[np.float64]
    keep: NDArray[np.float64]
    delivered: NDArray[np.float64]
    utility: NDArray[np.float64]

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
        """The entry that saves at least `excess` at these rates and no more than need be; the last if none does.

        Looks from the cursor on in growing steps, in the direction that is called for, then halves what is left.
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
) -> RoadMap:
    """The road map of a network at these rates, whose proportions alone matter.

    Args:
        network: Inputs, boxes and outputs.
        rates: Rows a second of each input; those of the network if not given.
        step: Share of a place's rows that one entry drops more than the one before it.
        drop_cost: Work that a drop itself does on each row.
        placement: `single`: each input and branch is a place of its own. `group`: what a drop meets upstream of a union
            is dropped alike, as the paper's text says.
    """
    check_step(network, step, drop_cost)
    if placement not in ("single", "group"):
        raise PenstockError.setting("placement", placement, "one of single, group")
    groups = [(place,) for place in places(network)] if placement == "single" else _groups(network)
    return descent(network, rates, groups, [step] * len(groups), places(network))


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
    network: Network,
    rates: Mapping[str, float] | None,
    groups: Sequence[tuple[Place, ...]],
    steps: Sequence[float],
    told: Sequence[Place],
) -> RoadMap:
    """The road map that drops at these groups of places, each in steps of its own.

    Args:
        network: Inputs, boxes and outputs.
        rates: Rows a second of each input; those of the network if not given.
        groups: Places that drop alike.
        steps: Share of a group's rows that one entry drops more than the one before it.
        told: The places whose drops are written down.
    """
    state = Shedding(network, None if rates is None else dict(rates))
    writer = _Writer(network, state, told)
    _descend(state, groups, steps, writer)
    return writer.road_map()


def _descend(state: Shedding, groups: Sequence[tuple[Place, ...]], steps: Sequence[float], writer: "_Writer") -> None:
    """Drop a little more at the place where it costs least, until nothing flows."""
    full = [sum(state.flowing(place) for place in group) for group in groups]
    by_node: dict[str, set[int]] = {}
    for index, group in enumerate(groups):
        for place in group:
            by_node.setdefault(place.node, set()).add(index)
    version = [0] * len(groups)
    heap = [(_ratio(state, group), index, 0) for index, group in enumerate(groups)]
    heapify(heap)
    while heap:
        ratio, index, made = heappop(heap)
        group = groups[index]
        flowing = sum(state.flowing(place) for place in group)
        if made != version[index] or ratio == np.inf or flowing <= 1e-9 * full[index]:
            continue
        felt, events = set[str](), set[str]()
        for place in group:
            share = state.flowing(place) / flowing
            left = steps[index] * full[index] * share
            while left > 1e-9 * full[index]:
                taken = state.take(place, left)
                left -= taken.rows
                felt.update(taken.nodes)
                events.update(taken.events)
                if len(group) == 1 or taken.rows <= 0.0:
                    break
                state.refresh(taken.events)
        changed = state.refresh(tuple(events)) | events
        writer.write(felt)
        for other in {index}.union(*(by_node.get(name, ()) for name in changed)):
            version[other] += 1
            heappush(heap, (_ratio(state, groups[other]), other, version[other]))


def _ratio(state: Shedding, group: tuple[Place, ...]) -> float:
    loss = gain = 0.0
    for place in group:
        rows, next_row = state.flowing(place), state.marginal(place)
        loss, gain = loss + rows * next_row.loss, gain + rows * next_row.gain
    return loss / gain if gain > 0.0 else np.inf


def _groups(network: Network) -> list[tuple[Place, ...]]:
    """For each output and each split, all places that a drop comes to when it is pushed upstream through unions."""
    found: dict[tuple[str, ...], tuple[Place, ...]] = {}
    for name in network.order:
        if not network.out_of[name] or len(network.out_of[name]) > 1:
            group = tuple(pushed_upstream(network, name))
            found[tuple(place.name for place in group)] = group
    return list(found.values())


class _Writer:
    """Writes entries down; after a step only what lies around it is computed anew."""

    def __init__(self, network: Network, state: Shedding, told: Sequence[Place]) -> None:
        self._network, self._state = network, state
        self._places = told
        self._inputs = {one.name: column for column, one in enumerate(network.inputs)}
        self._outputs = {one.name: column for column, one in enumerate(network.outputs)}
        self._columns: dict[str, list[int]] = {}
        for column, place in enumerate(self._places):
            self._columns.setdefault(place.node, []).append(column)
        self._left = {name: network.coefficients.get(name, 0.0) for name in network.out_of}
        self._order = {name: position for position, name in enumerate(network.order)}
        for name in reversed(network.order):
            self._left[name] = self._coefficient(name)
        self._rows: list[tuple[NDArray[np.float64], ...]] = []
        self._now = (
            np.zeros(len(self._inputs)),
            np.ones(len(self._places)),
            np.full(len(self._outputs), 100.0),
        )
        self._utilities = {name: state.utility(name) for name in self._outputs}
        self.write(set(network.order))

    def write(self, felt: set[str]) -> None:
        """One more entry; `felt` are the nodes whose flows have changed."""
        savings, keep, delivered = self._now = tuple(one.copy() for one in self._now)  # type: ignore[assignment]
        for name in felt:
            for column in self._columns.get(name, ()):
                keep[column] = self._state.keep(self._places[column])
            if name in self._outputs:
                delivered[self._outputs[name]] = self._state.percent(name)
                self._utilities[name] = self._state.utility(name)
        for name in self._stale(felt):
            self._left[name] = self._coefficient(name)
            if name in self._inputs:
                column = self._inputs[name]
                savings[column] = max(self._network.coefficients[name] - self._left[name], 0.0)
        self._rows.append((savings, keep, delivered, np.array(sum(self._utilities.values()))))

    def _stale(self, felt: set[str]) -> list[str]:
        found, todo = set(felt), list(felt)
        while todo:
            for arc in self._network.into[todo.pop()]:
                if arc.source not in found:
                    found.add(arc.source)
                    todo.append(arc.source)
        return sorted(found, key=lambda name: -self._order[name])

    def _coefficient(self, name: str) -> float:
        """Work that a row causes from this node on, under the drops in force."""
        state, arcs = self._state, self._network.out_of[name]
        leaving = state.leaving.get(name, 0.0)
        total = 0.0
        for arc in arcs:
            share = state.flow[arc.name] / leaving if leaving > 0.0 else 0.0
            total += share * (arc.cost + arc.selectivity * self._left[arc.target])
        if name in self._inputs:
            rate = state.rates[name]
            total *= leaving / rate if rate > 0.0 else 1.0
        return total

    def road_map(self) -> RoadMap:
        savings, keep, delivered, utility = (np.stack(column) for column in zip(*self._rows, strict=True))
        return RoadMap(
            tuple(self._inputs),
            tuple(place.name for place in self._places),
            tuple(self._outputs),
            savings,
            keep,
            delivered,
            utility,
        )
