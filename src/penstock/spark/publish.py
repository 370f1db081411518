"""Files that appear whole, durable and once: the first one of a name stays."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def publish(folder: Path, name: str, content: bytes) -> None:
    """A small file, unless there is one of that name."""
    temporary = folder / f".{name}.{uuid.uuid4().hex}.tmp"
    temporary.write_bytes(content)
    try:
        sync(temporary)
        link(temporary, folder / name)
    finally:
        temporary.unlink(missing_ok=True)


def link(temporary: Path, final: Path) -> None:
    """Give a finished file its name, unless there is one of that name."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        if not final.exists():
            temporary.replace(final)


def sync(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some file systems cannot sync a folder
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)
