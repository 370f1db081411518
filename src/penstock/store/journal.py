"""Journals: append-only lines, to be followed while they are written and read afterwards.

A journal is not durable state and never blocks its writer: a line that cannot be written is lost, logged once and
counted. Its size is bounded: a full file becomes the older one of two. A reader may start, stop and resume at any
moment; it ignores a line without an end.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_logger = logging.getLogger(__name__)

#: A file of this many bytes is rotated, and the one rotated before is deleted.
MOST_BYTES = 16 * 2**20
#: The most bytes read at a time, so that a poll of a long journal stays short.
_READ_BYTES = 4 * 2**20


def older(path: Path) -> Path:
    """The path of the rotated file."""
    return path.with_name(f"{path.name}.old")


class Journal:
    """Appends lines to a file.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "deep", "journal")
    ...     Journal(path).append("one"), Tail(path).news()
    (True, ['one'])
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """Append to this file, which is made with its folder at the first line."""
        self.path = path
        self.lost = 0  #: lines that could not be written
        self._most_bytes = most_bytes

    def append(self, line: str) -> bool:
        """Write a line; false if that failed."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                if self.path.stat().st_size >= self._most_bytes:
                    self.path.replace(older(self.path))
            with self.path.open("ab") as file:
                # In one piece, and on a line of its own even if the last writer died in the middle of one.
                torn = file.tell() > 0 and not self._ends_well()
                file.write((b"\n" if torn else b"") + line.replace("\n", " ").encode(errors="replace") + b"\n")
        except OSError as error:
            if not self.lost:
                _logger.warning("%s cannot be written, so the dashboard lacks it: %s", self.path, error.strerror)
            self.lost += 1
            return False
        return True

    def _ends_well(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


class Tail:
    """Reads a journal from its oldest line on, and at each call the new lines.

    A rotated file is read to its end before the new one. A replaced or truncated file is another journal: `restarts`
    counts it, and reading starts over.
    """

    def __init__(self, path: Path) -> None:
        """Read this file; it need not be there yet."""
        self.path = path
        self.restarts = 0
        self._file: int | None = None  # what the system calls the file that was read last
        self._offset = 0

    def news(self) -> list[str]:
        """Whole lines since the last call, oldest first; empty if there is no file."""
        found: list[str] = []
        if self._file is None:
            found += self._read(older(self.path), 0)[0]
        try:
            status = self.path.stat()
        except OSError:
            return found
        if self._file is not None and (status.st_ino != self._file or status.st_size < self._offset):
            if _inode(older(self.path)) == self._file:
                found += self._read(older(self.path), self._offset)[0]
            else:
                self.restarts += 1
            self._offset = 0
        lines, self._offset = self._read(self.path, self._offset)
        self._file = status.st_ino
        return found + lines

    def _read(self, path: Path, offset: int) -> tuple[list[str], int]:
        """Whole lines from an offset on, and the offset of the next one."""
        found: list[str] = []
        try:
            with path.open("rb") as file:
                file.seek(offset)
                while chunk := file.read(_READ_BYTES):
                    whole = chunk[: chunk.rfind(b"\n") + 1]
                    if not whole:
                        break
                    # Not splitlines(), which also breaks lines where a text has a carriage return or U+2028.
                    found += whole[:-1].decode(errors="replace").split("\n")
                    offset += len(whole)
                    file.seek(offset)
        except OSError:
            return found, offset
        return found, offset


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
