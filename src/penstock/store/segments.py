"""Journals where content cannot be appended to: numbered segments, the last of which is rewritten.

An object store has no append. One object a line would make 86,400 objects a day at batches of one second, and a reader
would fetch each. So a writer keeps its last segment in memory and replaces it, whole, with each line: one request of at
most `SEGMENT_BYTES`. A full segment is never written again. Each writer creates its segments put-if-absent, so a driver
that replaces a dead one continues behind its lines, and two drivers never overwrite each other's.

A generation is what a file is in a folder: segments up to the size at which a journal is put aside. The generation
before the newest one is the journal that was put aside; older ones are deleted.
"""

from __future__ import annotations

import re
import threading
import uuid
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zlib import crc32

from penstock.store.interface import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A segment of this many bytes is full.
SEGMENT_BYTES = 128 * 1024
#: The most bytes of a part, beyond which no further segment is read.
_PART_BYTES = 4 * 2**20
_NAME = re.compile(r"(\d{8})-([0-9a-f]{8})-(\d{8})")


class Objects(Protocol):
    """What segments need of an object store."""

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a name and return true; false if the name is taken."""

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, replacing the old content."""

    def remove(self, *names: str) -> None:
        """Delete names, those that are taken."""

    def sizes(self, below: str) -> dict[str, int]:
        """The sizes of the objects below a name, by what follows it."""

    def rest(self, name: str, offset: int) -> bytes:
        """The content of a name from an offset on; empty if there is none."""


class _Segment(NamedTuple):
    generation: int
    mark: str  #: random, so that a journal that was deleted and begun again is another one
    number: int

    def __str__(self) -> str:
        return f"{self.generation:08d}-{self.mark}-{self.number:08d}"

    def next(self) -> _Segment:
        return self._replace(number=self.number + 1)

    @property
    def journal(self) -> tuple[int, str]:
        """What segments of one generation have in common."""
        return self[:2]


class Segments:
    """Writes one journal."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name
        self._tip: _Segment | None = None  # the segment to write next; None if that is unknown
        self._content = b""  # what it has; empty if it does not exist yet
        self._before = 0  # bytes of its generation in earlier segments
        self._lock = threading.Lock()

    def append(self, line: bytes, most_bytes: int) -> None:
        """Add a line. If that fails, the line may be there or not, and the next one begins a segment of its own."""
        with self._lock:
            self._append(line, most_bytes)

    def _append(self, line: bytes, most_bytes: int) -> None:
        tip, self._tip = self._tip or self._found(), None
        if self._before + len(self._content) >= most_bytes:
            self._delete_before(tip)
            tip, self._content, self._before = _Segment(tip.generation + 1, _mark(), 0), b"", 0
        elif len(self._content) >= SEGMENT_BYTES:
            self._before += len(self._content)
            tip, self._content = tip.next(), b""
        if self._content:
            self._content += line + b"\n"
            self._objects.replace(f"{self._name}/{tip}", self._content)
        else:
            self._content = line + b"\n"
            while not self._objects.create(f"{self._name}/{tip}", self._content):
                tip = tip.next()  # Another writer has it.
        self._tip = tip

    def _found(self) -> _Segment:
        """The segment behind the last one that is there."""
        self._content, self._before = b"", 0
        found = _listed(self._objects, self._name)
        if not found:
            return _Segment(0, _mark(), 0)
        last = max(found)
        self._before = sum(size for one, size in found.items() if one.journal == last.journal)
        return last.next()

    def _delete_before(self, tip: _Segment) -> None:
        old = [f"{self._name}/{one}" for one in _listed(self._objects, self._name) if one.journal < tip.journal]
        if old:
            self._objects.remove(*old)


def part(objects: Objects, name: str, offset: int) -> Part | None:
    """The content of a journal, or of the one put aside as `<name>.old`, from an offset on; `None` if there is none."""
    found = _listed(objects, name.removesuffix(".old"))
    journals = sorted({one.journal for one in found})
    aside = name.endswith(".old")
    if len(journals) < 1 + aside:
        return None
    own = journals[-2 if aside else -1]
    segments = {one: size for one, size in sorted(found.items()) if one.journal == own}
    content = b"".join(_read(objects, name.removesuffix(".old"), segments, offset))
    return Part(crc32(repr(own).encode()), max(sum(segments.values()), offset + len(content)), content)


def _read(objects: Objects, name: str, segments: dict[_Segment, int], offset: int) -> Iterator[bytes]:
    read = 0
    for one, size in segments.items():
        if offset < size and read < _PART_BYTES:
            content = objects.rest(f"{name}/{one}", offset)
            read += len(content)
            yield content
        offset = max(offset - size, 0)


def _listed(objects: Objects, name: str) -> dict[_Segment, int]:
    matches = ((_NAME.fullmatch(one), size) for one, size in objects.sizes(name).items())
    return {_Segment(int(found[1]), found[2], int(found[3])): size for found, size in matches if found}


def _mark() -> str:
    return uuid.uuid4().hex[:8]
