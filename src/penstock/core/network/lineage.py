r"""Lineage from a place in a network down to its outputs: the filters of a row, and the definitions of its columns.

Columns are expressed in those at the place. A map adds or replaces columns. A function in Python hides all of them. An
aggregate passes its group columns, a join those of the row's side. Other columns are unknown, and no condition is
pushed through them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from penstock.core.network.expressions import Peeled, checked, column_names, columns, peeled, substituted
from penstock.core.network.model import Arc, Box, Network

#: Filters in order, with their conditions in terms of a place further upstream, if known.
Filters = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """Definitions of columns in terms of those further upstream; None if unknown.

    >>> Columns((("value", "raw * 2"), ("hidden", None))).of("value + other"), Columns((("hidden", None),)).of("hidden")
    ('(raw * 2) + other', None)
    """

    changed: tuple[tuple[str, str | None], ...] = ()

    def of(self, sql: str) -> str | None:
        """An expression over these columns as one over those further upstream."""
        return _put_in(sql, self.changed)


@dataclass(frozen=True, slots=True)
class Path:
    """A path from a place to an output."""

    output: str  #: where it ends
    columns: Columns  #: definitions of its columns at the place
    filters: Filters = ()  #: the filters on the path, with the condition in terms of the place if known


class Tracer:
    """What the boxes of a network do to columns."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: dict[str, tuple[Path, ...]] = {}
        #: Boxes by name.
        self.boxes = {box.name: box for box in network.boxes}
        self._values = {
            one.name: checked(one.value.column, f"value column of {one.name}") for one in network.outputs if one.value
        }
        self._where = {
            box.name: checked(box.where, f"where of {box.name}") for box in network.boxes if box.where is not None
        }
        self._select = {
            box.name: {name.lower(): checked(sql, f"select of {box.name}: {name}") for name, sql in box.select.items()}
            for box in network.boxes
        }

    def where(self, box: str, known: Columns) -> str | None:
        """The condition of a filter over the columns further upstream."""
        return known.of(self._where[box]) if box in self._where else None

    def value(self, output: str, known: Columns) -> Peeled | None:
        """The value by which an output judges rows, over the columns further upstream."""
        sql = known.of(self._values[output]) if output in self._values else None
        return None if sql is None else peeled(sql)

    def through(self, known: Columns, name: str, source: str) -> Columns:
        """The columns behind a box, for rows from a source."""
        box = self.boxes[name]
        if box.op in ("filter", "union"):
            return known
        before = dict(known.changed)
        if box.op == "map" and not box.python:
            after = before | {column: known.of(sql) for column, sql in self._select[name].items()}
        else:
            passed = [column for column in self._read if self._passes(box, source, column)]
            after = dict.fromkeys(self._read) | {column: before.get(column, column) for column in passed}
        return Columns(tuple(sorted((one, sql) for one, sql in after.items() if sql != one)))

    def paths(self, place: str) -> tuple[Path, ...]:
        """All paths from an input or an arc to outputs, without duplicates."""
        if place not in self._known:
            self._known[place] = tuple(dict.fromkeys(self._paths(place)))
        return self._known[place]

    def subject(self, place: str) -> str | None:
        """The expression by which all outputs below an input or an arc judge rows; None if they differ."""
        found = {one and one.core for one in (self.value(way.output, way.columns) for way in self.paths(place))}
        return found.pop() if len(found) == 1 else None

    def _paths(self, place: str) -> Iterator[Path]:
        starts = self._network.out_of.get(place) or [self._arcs[one] for one in (place,) if one in self._arcs]
        todo: list[tuple[Arc, Columns, Filters]] = [(arc, Columns(), ()) for arc in starts]
        seen = set[object]()
        while todo:
            arc, known, filters = step = todo.pop()
            if step in seen:
                continue
            seen.add(step)
            if not self._network.out_of[arc.target]:
                yield Path(arc.target, known, filters)
                continue
            if self.boxes[arc.target].op == "filter":
                filters = (*filters, (arc.target, self.where(arc.target, known)))
            behind = self.through(known, arc.target, arc.source)
            todo.extend((below, behind, filters) for below in self._network.out_of[arc.target])

    @cached_property
    def _arcs(self) -> dict[str, Arc]:
        return {arc.name: arc for arc in self._network.arcs}

    @cached_property
    def _read(self) -> tuple[str, ...]:
        """All named columns."""
        found = {column.lower() for box in self._network.boxes for column in (*box.by, *box.on)}
        for sql in (
            *self._where.values(),
            *self._values.values(),
            *(one for of in self._select.values() for one in of.values()),
        ):
            found |= columns(sql)
        return tuple(sorted(found))

    def _passes(self, box: Box, source: str, column: str) -> bool:
        """Whether a column comes from this source unchanged, through an aggregate, a join or a function."""
        if box.op == "aggregate":
            return column in {one.lower() for one in box.by}
        if box.op != "join":
            return False
        if column in {one.lower() for one in box.on}:
            return True
        has = {side: self._has(side, column) for side in box.sources}
        if source != box.sources[0] and has[box.sources[0]]:
            return False  # A name that both sides have is the left one's.
        return bool(has[source]) or (
            has[source] is None and not any(has.values()) and list(has.values()).count(None) == 1
        )

    def _has(self, node: str, column: str) -> bool | None:
        """Whether rows that leave a node have a column; None if unknown."""
        if any(column in self._reads(arc.target) for arc in self._network.out_of[node]):
            return True
        if node not in self.boxes:
            known = next(one.columns for one in self._network.inputs if one.name == node)
            return column in {one.lower() for one in known} if known else None
        box = self.boxes[node]
        if column in self._select[node]:
            return True
        if box.op == "aggregate":
            return column in {one.lower() for one in box.by}
        if box.python:
            made = column_names(box.returns)
            return column in {one.lower() for one in made} if made else None
        found = [self._has(source, column) for source in box.sources]
        return True if any(found) else None if None in found else False

    def _reads(self, name: str) -> frozenset[str]:
        """Columns that a node needs in its input rows."""
        if name in self._values:
            return columns(self._values[name])
        box = self.boxes.get(name)
        if box is None or box.op == "join":
            return frozenset()
        read = frozenset(one.lower() for one in box.by)
        for sql in (*self._select[name].values(), *filter(None, [self._where.get(name)])):
            read |= columns(sql)
        return read


@lru_cache(maxsize=16384)
def _put_in(sql: str, changed: tuple[tuple[str, str | None], ...]) -> str | None:
    return substituted(sql, dict(changed))
