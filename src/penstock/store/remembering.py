"""A store that requests each entry once, for stores on which every operation is a request to a server."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.store.interface import Part, Store

#: Entries that are remembered: a gate needs the newest plan, and that of the last batch.
_MOST = 16


class Remembering:
    """Remembers entries, which never change once they are written; a name with a leading dot is not an entry."""

    def __init__(self, store: Store, for_s: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember entries of this store, each for this long: another process may delete them."""
        self._store, self._for_s, self._clock = store, for_s, clock
        self._known: dict[str, tuple[float, bytes]] = {}

    @property
    def where(self) -> str:
        """Where the store is."""
        return self._store.where

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a name and return true; false if the name is taken."""
        created = self._store.create(name, content)
        if created:
            self._remember(name, content)
        return created

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, replacing the old content."""
        self._known.pop(name, None)
        self._store.replace(name, content, durable=durable)

    def read(self, name: str) -> bytes | None:
        """The content of a name; `None` if it is not taken."""
        since_s, known = self._known.get(name, (0.0, None))
        if known is not None and self._clock() - since_s <= self._for_s:
            return known
        found = self._store.read(name)
        if found is not None:
            self._remember(name, found)
        return found

    def has(self, name: str) -> bool:
        """Whether a name is taken; it is read, because a new entry is needed next."""
        return self.read(name) is not None

    def names(self) -> list[str]:
        """Every name that is taken, ascending."""
        return self._store.names()

    def remove(self, *names: str) -> None:
        """Delete names, those that are taken."""
        for name in names:
            self._known.pop(name, None)
        self._store.remove(*names)

    def append(self, name: str, line: bytes, most_bytes: int) -> None:
        """Add a line to a name's content."""
        self._store.append(name, line, most_bytes)

    def part(self, name: str, offset: int) -> Part | None:
        """The content of a name from an offset on."""
        return self._store.part(name, offset)

    def _remember(self, name: str, content: bytes) -> None:
        if not name.startswith("."):
            self._known[name] = self._clock(), content
            while len(self._known) > _MOST:
                self._known.pop(next(iter(self._known)))
