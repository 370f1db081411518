r"""The layout of a drawn network: columns from inputs to outputs, with room for labels on arcs.

A layered drawing (Sugiyama et al. 1981). Each node is in a column behind its sources; an arc that passes a column
has a lane there. The order in a column is the mean place of the neighbours, in alternating sweeps; the order with the
fewest crossings is used. Heights are the least squares fit to those of the neighbours,

$$\min \sum_i w_i (y_i - \bar y_i)^2, \qquad y_{i+1} - y_i \ge \text{room}$$

which is an isotonic regression. Every arc ends in its own slot before its target, as high as its label, and bends
only before the slot. So no line crosses a label, and no label touches another.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.network.model import Arc, Network

#: Room above and below a node, and of a lane that passes a column.
_GAP = 16.0
_LANE = 14.0
#: The width for bends of arcs, and without a bend.
_BEND, _STRAIGHT = 54.0, 18.0
_MARGIN = 12.0
_SWEEPS = 8
#: A bent lane looks worse than a slightly displaced box.
_LANE_WEIGHT = 8.0


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a label or node."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Spot:
    """A rectangle."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def middle(self) -> float:
        """Half way down."""
        return self.top + self.height / 2.0


@dataclass(frozen=True, slots=True)
class Path:
    """An arc: alternating bends and straight parts, and the slot for its label, at its last part."""

    #: Start and end of each bend; the last point is at the target.
    points: tuple[tuple[float, float], ...]
    label: Spot  #: the slot


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies."""

    width: float
    height: float
    nodes: Mapping[str, Spot]
    arcs: Mapping[str, Path]


@dataclass(slots=True, eq=False)
class _Item:
    """An item of a column: a node, or the lane of a passing arc."""

    node: str | None
    height: float
    before: list[_Link] = field(default_factory=list)
    after: list[_Link] = field(default_factory=list)
    place: int = 0
    middle: float = 0.0


@dataclass(slots=True, eq=False)
class _Link:
    """A piece of an arc, from one column to the next; it ends `offset` below the middle of its target."""

    arc: Arc
    start: _Item
    end: _Item
    offset: float = 0.0


def arranged(network: Network, nodes: Mapping[str, Size], labels: Mapping[str, Size], line: float) -> Layout:
    """Find a place for every node and arc.

    Args:
        network: What is drawn.
        nodes: Size of each node.
        labels: Size of the label of each arc.
        line: How far below the top of its label an arc's line runs.
    """
    columns, chains = _columns(network, nodes, labels)
    _order(columns)
    for column in columns:
        for item in column:
            _ports(item, labels, line)
    _heights(columns)
    return _placed(columns, chains, nodes, labels, line)


def _ranks(network: Network) -> dict[str, int]:
    """The column of each node: inputs just before their readers, outputs at the end."""
    ranks: dict[str, int] = {}
    for name in network.order:
        ranks[name] = max((ranks[arc.source] + 1 for arc in network.into[name]), default=0)
    for one in network.inputs:
        ranks[one.name] = min(ranks[arc.target] for arc in network.out_of[one.name]) - 1
    last = max(ranks.values())
    return ranks | {one.name: last for one in network.outputs}


def _columns(
    network: Network, nodes: Mapping[str, Size], labels: Mapping[str, Size]
) -> tuple[list[list[_Item]], dict[str, list[_Link]]]:
    ranks = _ranks(network)
    columns: list[list[_Item]] = [[] for _ in range(max(ranks.values()) + 1)]
    items = {}
    for name in _from_outputs(network):
        slots = sum(labels[arc.name].height for arc in network.into[name])
        items[name] = _Item(name, max(nodes[name].height, slots))
        columns[ranks[name]].append(items[name])
    chains: dict[str, list[_Link]] = {}
    for name, item in items.items():
        for arc in network.into[name]:
            last, chain = items[arc.source], chains.setdefault(arc.name, [])
            for rank in range(ranks[arc.source] + 1, ranks[name]):
                lane = _Item(None, _LANE)
                columns[rank].append(lane)
                chain.append(_Link(arc, last, lane))
                last = lane
            chain.append(_Link(arc, last, item))
            for link in chain:
                link.start.after.append(link)
                link.end.before.append(link)
    return columns, chains


def _from_outputs(network: Network) -> list[str]:
    """All nodes, grouped by output, so that trees have no crossings."""
    found: dict[str, None] = {}
    for output in network.outputs:
        todo = [(output.name, False)]
        while todo:
            name, ready = todo.pop()
            if name in found:
                continue
            if ready:
                found[name] = None
            else:
                todo.append((name, True))
                todo.extend((arc.source, False) for arc in reversed(network.into[name]))
    return list(found)


def _order(columns: list[list[_Item]]) -> None:
    """Sort each column by the places of neighbours, and keep the best order seen."""
    _number(columns)
    best, kept = _crossings(columns), [list(column) for column in columns]
    for sweep in range(_SWEEPS):
        if not best:
            break
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            column.sort(key=lambda item: _mean(_places(item, forward=forward), item.place))
            _number([column])
        crossings = _crossings(columns)
        if crossings < best:
            best, kept = crossings, [list(column) for column in columns]
    columns[:] = kept
    _number(columns)


def _number(columns: list[list[_Item]]) -> None:
    for column in columns:
        for place, item in enumerate(column):
            item.place = place


def _places(item: _Item, *, forward: bool) -> list[int]:
    return [link.start.place for link in item.before] if forward else [link.end.place for link in item.after]


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _crossings(columns: list[list[_Item]]) -> int:
    """How often arcs cross: pairs that end the other way round than they begin."""
    crossings = 0
    for column in columns:
        seen: list[int] = []
        for item in column:
            ends = [link.end.place for link in item.after]
            crossings += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
            for end in ends:
                insort(seen, end)
    return crossings


def _ports(item: _Item, labels: Mapping[str, Size], line: float) -> None:
    """Give each arc into a node its slot, in the order of where the arcs come from."""
    if item.node is None:
        return
    item.before.sort(key=lambda link: link.start.place)
    top = -sum(labels[link.arc.name].height for link in item.before) / 2.0
    for link in item.before:
        link.offset = top + line
        top += labels[link.arc.name].height


def _heights(columns: list[list[_Item]]) -> None:
    for column in columns:
        _fit(column, [(item.middle, 1.0) for item in column])
    for sweep in range(_SWEEPS + 1):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            _fit(column, [_wanted(item, forward=forward) for item in column])


def _wanted(item: _Item, *, forward: bool) -> tuple[float, float]:
    """The height that an item's sources or targets suggest, and its weight."""
    if forward:
        heights = [link.start.middle - link.offset for link in item.before]
    else:
        heights = [link.end.middle + link.offset for link in item.after]
    weight = _LANE_WEIGHT if item.node is None else 1.0
    return _mean(heights, item.middle), weight if heights else 0.01 * weight


def _fit(column: list[_Item], wanted: Sequence[tuple[float, float]]) -> None:
    """As near to the wanted heights as the order and the room between items allow."""
    offsets, offset = [], 0.0
    for number, item in enumerate(column):
        if number:
            offset += (column[number - 1].height + item.height) / 2.0 + _GAP
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []
    for (height, weight), below in zip(wanted, offsets, strict=True):
        pool = (height - below, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            other = pools.pop()
            both = other[1] + pool[1]
            pool = ((other[0] * other[1] + pool[0] * pool[1]) / both, both, other[2] + pool[2])
        pools.append(pool)
    heights = [height for height, _, count in pools for _ in range(count)]
    for item, height, below in zip(column, heights, offsets, strict=True):
        item.middle = height + below


def _bend(column: list[_Item]) -> float:
    bends = any(abs(link.start.middle - link.end.middle - link.offset) > 1.0 for item in column for link in item.before)
    return _BEND if bends else _STRAIGHT


def _placed(
    columns: list[list[_Item]],
    chains: dict[str, list[_Link]],
    nodes: Mapping[str, Size],
    labels: Mapping[str, Size],
    line: float,
) -> Layout:
    highest = min(item.middle - item.height / 2.0 for column in columns for item in column)
    lowest = max(item.middle + item.height / 2.0 for column in columns for item in column)
    down = _MARGIN - highest
    spots: dict[str, Spot] = {}
    starts: dict[int, float] = {}  # of each item's column: where labels begin
    ends: dict[int, float] = {}
    left = _MARGIN
    for number, column in enumerate(columns):
        widths = [labels[link.arc.name].width for item in column if item.node for link in item.before]
        start = left + (_bend(column) if number else 0.0)
        left = start + max(widths, default=0.0)
        width = max((nodes[item.node].width for item in column if item.node), default=0.0)
        for item in column:
            starts[id(item)], ends[id(item)] = start, left + width
            if item.node:
                top = item.middle - item.height / 2.0 + down
                spots[item.node] = Spot(left, top, width, item.height)
        left += width
    paths = {}
    for name, chain in chains.items():
        points: list[tuple[float, float]] = []
        for link in chain:
            points.append((ends[id(link.start)], link.start.middle + down))
            points.append((starts[id(link.end)], link.end.middle + link.offset + down))
        target = spots[chain[-1].arc.target]
        begin, height = points[-1]
        label = Spot(begin, height - line, target.left - begin, labels[name].height)
        paths[name] = Path((*points, (target.left, height)), label)
    return Layout(left + _MARGIN, lowest + down + _MARGIN, spots, paths)
