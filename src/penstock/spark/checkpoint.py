"""What Spark's own checkpoint says of a query: its identity, and which batches were planned and which are done.

A guard's folder lies beside these files if it was given the query's checkpoint. If it was not, nothing is known.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from pathlib import Path

#: Lines of an offsets file that say nothing of offsets: its version, and when and how the batch was planned.
_HEADER_LINES = 2


def query_id(checkpoint: Path) -> str | None:
    """The identity of the query whose checkpoint this is; None if it is none's, or not yet."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def newest_planned(checkpoint: Path) -> int:
    """The newest batch that Spark has planned, -1 if none: it is run again at a restart unless it is done."""
    return _newest(checkpoint / "offsets")


def newest_done(checkpoint: Path) -> int:
    """The newest batch that is done, -1 if none."""
    return _newest(checkpoint / "commits")


def offsets_hash(checkpoint: Path, batch: int) -> str:
    """A hash of the offsets that a batch covers, whenever it was planned; empty if they cannot be read."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_bytes().split(b"\n")
    except OSError:
        return ""
    offsets = b"\n".join(lines[_HEADER_LINES:]).strip()
    return xxhash.xxh64_hexdigest(offsets) if offsets else ""


def _newest(folder: Path) -> int:
    try:
        return max((int(one.name) for one in folder.iterdir() if one.name.isdecimal()), default=-1)
    except OSError:
        return -1
