"""A store in memory, which threads of one process share: for tests and for runs on virtual time."""

from __future__ import annotations

import threading


class MemoryStore:
    """Its content is lost with the process.

    >>> store = MemoryStore()
    >>> store.create("a", b"first"), store.create("a", b"second"), store.read("a"), store.names()
    (True, False, b'first', ['a'])
    """

    where = "memory"

    def __init__(self) -> None:
        """Start empty."""
        self._kept: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a name and return true; false if the name is taken."""
        with self._lock:
            return name not in self._kept and not self._kept.update({name: content})

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, replacing the old content."""
        del durable
        with self._lock:
            self._kept[name] = content

    def read(self, name: str) -> bytes | None:
        """The content of a name; `None` if it is not taken."""
        return self._kept.get(name)

    def has(self, name: str) -> bool:
        """Whether a name is taken."""
        return name in self._kept

    def names(self) -> list[str]:
        """Every name that is taken, ascending."""
        with self._lock:
            return sorted(self._kept)

    def remove(self, name: str) -> None:
        """Delete a name, if it is taken."""
        with self._lock:
            self._kept.pop(name, None)
