"""Spark's own checkpoint of a query: its identity, and its planned and completed batches.

A guard's folder lies beside these files if it was given the query's checkpoint. If it was not, nothing is known.
"""

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import xxhash

from penstock.core.control.batch_size import rows_between
from penstock.core.loop.binding import Planned
from penstock.errors import PenstockError
from penstock.store.interface import StoreError
from penstock.store.place import Place

#: Where a checkpoint is.
Checkpoint = str | os.PathLike[str] | Place

#: Lines of an offsets file that say nothing of offsets: its version, and when and how the batch was planned.
_HEADER_LINES = 2


class _Entry(NamedTuple):
    planned_s: float
    source: Any  #: up to where it reads the source


def query_id(checkpoint: Checkpoint) -> str | None:
    """The identity of the query whose checkpoint this is; None if it is none's, or not yet."""
    try:
        return str(json.loads(_read(Place.of(checkpoint), "metadata"))["id"])
    except (ValueError, KeyError, TypeError):
        return None


def newest_planned(checkpoint: Checkpoint) -> int:
    """The newest batch that Spark has planned, -1 if none: it is run again at a restart unless it is done."""
    return _newest(checkpoint, "offsets")


def newest_done(checkpoint: Checkpoint) -> int:
    """The newest batch that is done, -1 if none."""
    return _newest(checkpoint, "commits")


def sources_listed(checkpoint: Checkpoint) -> int | None:
    """How many sources the newest batch has that Spark has planned; None if there is none, or it cannot be read."""
    try:
        text = offsets_of(checkpoint, newest_planned(checkpoint)).decode()
    except ValueError:
        return None
    return len(text.splitlines()[_HEADER_LINES:]) or None


def offsets_of(checkpoint: Checkpoint, batch: int) -> bytes:
    """What Spark has planned for a batch; empty if it cannot be read."""
    return _read(Place.of(checkpoint) / "offsets", str(batch))


#: Reads the plan of a batch from a checkpoint: `offsets_of`, or one that remembers what it has read.
ReadOffsets = Callable[[Checkpoint, int], bytes]


def offsets_hash(checkpoint: Checkpoint, batch: int, read: ReadOffsets = offsets_of) -> str:
    """A hash of the offsets that a batch covers, whenever it was planned; empty if they cannot be read."""
    offsets = b"\n".join(read(checkpoint, batch).split(b"\n")[_HEADER_LINES:]).strip()
    return xxhash.xxh64_hexdigest(offsets) if offsets else ""


def batch_id(checkpoint: Checkpoint, batch: int) -> str:
    """A hash of query and offsets that distinguishes batches of the same number; empty if unknown."""
    query, offsets = query_id(checkpoint), offsets_hash(checkpoint, batch)
    return f"{query}:{offsets}" if query and offsets else ""


def _newest(checkpoint: Checkpoint, kind: str) -> int:
    place = Place.of(checkpoint)
    try:
        return max((int(name) for name in (place / kind).below() if name.isdecimal()), default=-1)
    except StoreError as error:
        raise PenstockError.setting("checkpoint", str(place), "a folder that can be read", error.why) from None


def _read(place: Place, name: str) -> bytes:
    """A file of Spark's; empty if it cannot be read."""
    try:
        return place.store(make=False).read(name) or b""
    except PenstockError:
        return b""


def planned(checkpoint: Checkpoint, batch: int, read: ReadOffsets = offsets_of, *, done: bool = True) -> Planned | None:
    """A batch in Spark's checkpoint; None if it cannot be read here, or is missing.

    `done` asks when the batch before it was done, which only a rate needs.
    How many rows a batch has is known only for a query of one source. Of several, it is unknown which one the gate is
    behind.
    """
    entry = _entry(read(checkpoint, batch))
    if entry is None:
        return None
    last = _entry(read(checkpoint, batch - 1))
    begin = _initial(checkpoint) if batch == 0 else last and last.source
    unknown = batch > 0 and last is None
    rows = None if unknown or entry.source is None else rows_between(begin, entry.source)
    earlier, done_s = _entry(read(checkpoint, batch - 2)), _done_s(checkpoint, batch - 1) if done else None
    before_s, earlier_s = (one.planned_s if one else None for one in (last, earlier))
    return Planned(rows, entry.planned_s, before_s, earlier_s, done_s)


def _entry(offsets: bytes) -> _Entry | None:
    try:
        lines = offsets.decode().splitlines()
        planned_s = float(json.loads(lines[1])["batchTimestampMs"]) / 1000.0
        sources = [json.loads(line) for line in lines[_HEADER_LINES:]]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    # With a quarantine Spark lists the one source twice: rows are read for the sink and for the shed ones.
    alike = sources and all(source == sources[0] for source in sources)
    return _Entry(planned_s, sources[0] if alike else None)


def _done_s(checkpoint: Checkpoint, batch: int) -> float | None:
    """When a batch was done; `None` if it was not, or that cannot be read."""
    try:
        return (Place.of(checkpoint) / "commits").store(make=False).written_s(str(batch))
    except PenstockError:
        return None


def _initial(checkpoint: Checkpoint) -> Any | None:  # noqa: ANN401 - by source
    """Where a source began, if it wrote that down as Kafka's connector does."""
    try:
        text = _read(Place.of(checkpoint) / "sources" / "0", "0").decode()
        return json.loads(text[text.index("{") :])
    except ValueError:
        return None
