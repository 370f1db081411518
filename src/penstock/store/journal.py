"""Journals: append-only lines, to be followed while they are written and read afterwards.

A journal is not durable state and never blocks its writer: a line that cannot be written is lost, logged once and
counted. Its size is bounded: a full file becomes the older one of two. A reader may start, stop and resume at any
moment; it ignores a line without an end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.store.interface import Part, Store

_logger = logging.getLogger(__name__)

#: A file of this many bytes is rotated, and the one rotated before is deleted.
MOST_BYTES = 16 * 2**20


def _bytes(line: str) -> bytes:
    return line.replace("\n", " ").encode(errors="replace")


def at(path: Path) -> tuple[FolderStore, str]:
    """The store and the name of a journal in a folder, which is made at the first line."""
    return FolderStore(path.parent, make=False), path.name


class Journal:
    """Appends lines under a name of a store."""

    def __init__(self, store: Store, name: str, most_bytes: int = MOST_BYTES) -> None:
        self._store, self._name, self._most_bytes = store, name, most_bytes
        self.lost = 0  #: lines that could not be written

    def append(self, line: str) -> bool:
        """Write a line; false if that failed."""
        try:
            self._store.append(self._name, _bytes(line), self._most_bytes)
        except StoreError as error:
            if not self.lost:
                where = f"{self._store.where}/{self._name}"
                _logger.warning("%s cannot be written, so the dashboard lacks it: %s", where, error.why or error)
            self.lost += 1
            return False
        return True

    @property
    def size(self) -> int:
        """The bytes in its newer file."""
        part = self._store.part(self._name, 0)
        return 0 if part is None else part.size

    def append_once(self, size: int, lines: Sequence[str]) -> int | None:
        """Write lines, unless they are where the journal was that long; its size now, or `None` if that failed."""
        part = self._store.part(self._name, size)
        if part is None or not part.content.startswith(b"".join(_bytes(line) + b"\n" for line in lines)):
            if not all(self.append(line) for line in lines):
                return None
            part = self._store.part(self._name, size)
        return 0 if part is None else part.size

    def tail(self) -> Tail:
        """A reader of the journal."""
        return Tail(self._store, self._name)


class Tail:
    """Reads a journal from its oldest line on, and at each call the new lines.

    A rotated file is read to its end before the new one. A replaced or truncated file is another journal: `restarts`
    counts it, and reading starts over.
    """

    def __init__(self, store: Store, name: str) -> None:
        """Read the journal of this name; it need not be there yet."""
        self._store, self.name = store, name
        self.restarts = 0
        self._identity: int | None = None  # of what was read last
        self._offset = 0

    def news(self) -> list[str]:
        """Whole lines since the last call, oldest first; empty if there is no journal."""
        found: list[str] = []
        aside = f"{self.name}.old"
        if self._identity is None:
            found += self._read(aside, self._store.part(aside, 0))
        part = self._store.part(self.name, self._offset)
        if part is None:
            return found
        if self._identity is not None and (part.identity != self._identity or part.size < self._offset):
            rest = self._store.part(aside, self._offset)
            if rest is not None and rest.identity == self._identity:
                found += self._read(aside, rest)
            else:
                self.restarts += 1
            self._offset = 0
            part = self._store.part(self.name, 0)
        self._identity = None if part is None else part.identity
        return found + self._read(self.name, part)

    def _read(self, name: str, part: Part | None) -> list[str]:
        """Whole lines of a part and of those behind it."""
        found: list[str] = []
        offset = self._offset
        while part is not None and (whole := part.content[: part.content.rfind(b"\n") + 1]):
            # Not splitlines(), which also breaks lines where a text has a carriage return or U+2028.
            found += whole[:-1].decode(errors="replace").split("\n")
            offset += len(whole)
            part = self._store.part(name, offset)
        if name == self.name:
            self._offset = offset
        return found
