"""Spark's own checkpoint of a query: its identity, and its planned and completed batches.

A guard's folder lies beside these files if it was given the query's checkpoint. If it was not, nothing is known.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from penstock.core.control.batch_size import rows_between
from penstock.core.loop.binding import Planned
from penstock.errors import PenstockError

#: Lines of an offsets file that say nothing of offsets: its version, and when and how the batch was planned.
_HEADER_LINES = 2


class _Entry(NamedTuple):
    planned_s: float
    source: Any  #: up to where it reads the source


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


def sources_listed(checkpoint: Path) -> int | None:
    """How many sources the newest batch has that Spark has planned; None if there is none, or it cannot be read."""
    try:
        text = (checkpoint / "offsets" / str(newest_planned(checkpoint))).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return len(text.splitlines()[_HEADER_LINES:]) or None


def offsets_hash(checkpoint: Path, batch: int) -> str:
    """A hash of the offsets that a batch covers, whenever it was planned; empty if they cannot be read."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_bytes().split(b"\n")
    except OSError:
        return ""
    offsets = b"\n".join(lines[_HEADER_LINES:]).strip()
    return xxhash.xxh64_hexdigest(offsets) if offsets else ""


def batch_id(checkpoint: Path, batch: int) -> str:
    """A hash of query and offsets that distinguishes batches of the same number; empty if unknown."""
    query, offsets = query_id(checkpoint), offsets_hash(checkpoint, batch)
    return f"{query}:{offsets}" if query and offsets else ""


def _newest(folder: Path) -> int:
    try:
        return max((int(one.name) for one in folder.iterdir() if one.name.isdecimal()), default=-1)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise PenstockError.setting(
            "checkpoint", str(folder.parent), "a folder that can be read", f"the system says: {error.strerror}"
        ) from None


def planned(checkpoint: Path, batch: int) -> Planned | None:
    """A batch in Spark's checkpoint; None if it cannot be read here, or is missing.

    How many rows a batch has is known only for a query of one source. Of several, it is unknown which one the gate is
    behind.
    """
    entry = _entry(checkpoint, batch)
    if entry is None:
        return None
    last = _entry(checkpoint, batch - 1)
    begin = _initial(checkpoint) if batch == 0 else last and last.source
    unknown = batch > 0 and last is None
    rows = None if unknown or entry.source is None else rows_between(begin, entry.source)
    earlier, done_s = _entry(checkpoint, batch - 2), None
    with suppress(OSError):
        done_s = (checkpoint / "commits" / str(batch - 1)).stat().st_mtime
    before_s, earlier_s = (one.planned_s if one else None for one in (last, earlier))
    return Planned(rows, entry.planned_s, before_s, earlier_s, done_s)


def _entry(checkpoint: Path, batch: int) -> _Entry | None:
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        planned_s = float(json.loads(lines[1])["batchTimestampMs"]) / 1000.0
        sources = [json.loads(line) for line in lines[_HEADER_LINES:]]
    except (OSError, IndexError, KeyError, TypeError, ValueError):
        return None
    # With a quarantine Spark lists the one source twice: rows are read for the sink and for the shed ones.
    alike = sources and all(source == sources[0] for source in sources)
    return _Entry(planned_s, sources[0] if alike else None)


def _initial(checkpoint: Path) -> Any | None:  # noqa: ANN401 - by source
    """Where a source began, if it wrote that down as Kafka's connector does."""
    try:
        text = (checkpoint / "sources" / "0" / "0").read_text(encoding="utf-8")
        return json.loads(text[text.index("{") :])
    except (OSError, ValueError):
        return None
