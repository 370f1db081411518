"""A store in memory, which threads of one process share: for tests and for runs on virtual time."""

from __future__ import annotations

import threading
from zlib import crc32

from penstock.store.interface import Part


class MemoryStore:
    """Its content is lost with the process."""

    where = "memory"

    def __init__(self) -> None:
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

    def remove(self, *names: str) -> None:
        """Delete names, those that are taken."""
        with self._lock:
            for name in names:
                self._kept.pop(name, None)

    def append(self, name: str, line: bytes, most_bytes: int) -> None:
        """Add a line to a name's content, which is put aside first if it is full."""
        with self._lock:
            if len(self._kept.get(name, b"")) >= most_bytes:
                self._kept[f"{name}.old"] = self._kept.pop(name)
            before = self._kept.get(name, b"")
            torn = before and not before.endswith(b"\n")
            self._kept[name] = before + (b"\n" if torn else b"") + line + b"\n"

    def part(self, name: str, offset: int) -> Part | None:
        """The content of a name from an offset on; its first line tells it from others."""
        content = self._kept.get(name)
        return None if content is None else Part(crc32(content.partition(b"\n")[0]), len(content), content[offset:])
