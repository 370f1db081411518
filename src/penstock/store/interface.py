"""The interface of stores. Everything that Penstock writes below a checkpoint goes through it, with three exceptions.

- Spark writes rows as Parquet, and `spark.network.feeds` publishes them for the next stage by a rename.
- `spark.file_log` shortens Spark's own log of the files that a stream has read.
- A running replay (`spark.quarantine.replay`) holds a lock, which the system frees if that process dies.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.errors import PenstockError


class StoreError(PenstockError):
    """An operation of a store failed."""

    why: str = ""  #: what the system says
    accepted: str = ""  #: what a setting must be; empty if that depends on the setting


class Part(NamedTuple):
    """Content of a name from an offset on."""

    identity: int  #: differs for other content that took the name since
    size: int  #: size of the whole content
    content: bytes  #: what follows the offset, up to a few MB


class Store(Protocol):
    """Named pieces of bytes.

    A piece is whole or absent, whenever its writer dies. `create` is the one operation that decides races: of several
    writers of a name, in threads, processes or on machines, exactly one gets `True`. Each operation raises
    `StoreError`, in one line, if the store cannot do it. A `create` that raised may or may not have succeeded; calling
    it again shows which.
    """

    @property
    def where(self) -> str:
        """Where it is, for messages."""

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a name and return true; false if the name is taken. Durable on return."""

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, replacing the old content. Unless `durable`, a crash may lose it."""

    def read(self, name: str) -> bytes | None:
        """The content of a name; `None` if it is not taken."""

    def has(self, name: str) -> bool:
        """Whether a name is taken; as fast in a full store as in an empty one."""

    def names(self) -> list[str]:
        """Every name that is taken, ascending."""

    def remove(self, *names: str) -> None:
        """Delete names, those that are taken."""

    def append(self, name: str, line: bytes, most_bytes: int) -> None:
        """Add a line to a name's content. A crash may lose or tear it; the next line is on a line of its own.

        Content of `most_bytes` or more is put aside as `<name>.old` first.
        """

    def part(self, name: str, offset: int) -> Part | None:
        """The content of a name from an offset on; `None` if it is not taken or cannot be read."""
