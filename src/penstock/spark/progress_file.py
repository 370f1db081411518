"""Recorded progress of a streaming query, read from a file: JSON lines, a JSON array, or Spark's event log.

A recording may hold the progress of several queries, and much else if it is an event log. Of its lines only those of
progress events are parsed. Files may be compressed with gzip or zstd, as Spark compresses its event logs. Unreadable
lines are skipped and reported: a writer killed while writing leaves a torn line.
"""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.progress import Progress
from penstock.views.network.formatting import plain

#: How compressed files begin.
_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
#: What a line of an event log has that holds a progress.
_EVENT = "QueryProgressEvent"
#: Where reading resumes after invalid JSON: only a new value is at the start of a line.
_NEXT = re.compile(r"^[\[{]", re.MULTILINE)
_HOW = "give progress of a query: `query.recentProgress` as JSON lines or an array, or Spark's event log"


@dataclass(frozen=True)
class Recording:
    """The progress of one query."""

    query: str  #: its name, or its id if it has none, without what would move a terminal's cursor
    progress: tuple[Progress, ...]  #: in the order of their batches; triggers without rows are among them
    unread: tuple[str, ...] = ()  #: what was left out because it could not be read: its place, and why


def read(path: Path, query: str | None = None) -> Recording:
    """The progress of the query, by name, id or run id, in the file; without one, of the only query there is."""
    found: dict[str, dict[tuple[str, int, float], Progress]] = {}
    called: dict[str, set[str]] = {}
    unread: list[str] = []
    for place, given in _given(path, unread):
        try:
            progress = Progress.of(given)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            unread.append(f"{place}: a progress that cannot be read ({error})")
            continue
        name, key, run = (str(given.get(field) or "") for field in ("name", "id", "runId"))
        # Spark keeps only the last ones, so a long recording polls repeatedly and has some twice.
        found.setdefault(name or key, {})[run, progress.batch, progress.start_s] = progress
        called.setdefault(name or key, set()).update({name, plain(name), key, run})
    if not found:
        raise PenstockError(f"{path}, {unread[0]}: {_HOW}" if unread else f"{path} holds no progress: {_HOW}")
    chosen = [name for name in found if query is None or query in called[name]]
    if len(chosen) != 1:
        names = ", ".join(plain(name) for name in sorted(found))
        raise PenstockError.setting("--query", query, f"one of the queries in {path}: {names}")
    progress_by_time = sorted(found[chosen[0]].values(), key=lambda one: one.start_s)
    return Recording(plain(chosen[0]) or "unnamed", tuple(progress_by_time), tuple(unread))


def _given(path: Path, unread: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each progress with the place where it stands; what cannot be read is added to `unread`."""
    for file in _files(path):
        before = "" if file == path else f"{file.name}, "
        for line, value in _values(file):
            yield from _unwrapped(f"{before}line {line}", value, unread)


def _unwrapped(
    place: str,
    value: Any,  # noqa: ANN401 - any JSON, or the error in its place
    unread: list[str],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The progress in a value: itself, what an event holds, or every one of an array."""
    if isinstance(value, ValueError):
        unread.append(f"{place}: no JSON ({getattr(value, 'msg', value)})")
    elif isinstance(value, list):
        for number, one in enumerate(value, start=1):
            yield from _unwrapped(f"{place}, value {number}", one, unread)
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        yield from _unwrapped(place, _parsed(value), unread)  # a progress as text, inside an array or an event
    elif isinstance(value, dict):
        if "batchId" in value and "timestamp" in value:
            yield place, value
        elif "progress" in value:
            yield from _unwrapped(place, value["progress"], unread)


def _values(file: Path) -> Iterator[tuple[int, Any]]:
    """The JSON values of a file by line, an error for what is none; of an event log, only what may hold a progress."""
    text = _text(file)
    if text.lstrip().startswith('{"Event":'):
        for number, line in enumerate(text.split("\n"), start=1):
            if _EVENT in line:
                yield number, _parsed(line)
        return
    # One value after the other, each on as many lines as it likes: what print(progress.prettyJson) wrote will do too.
    decoder, end = json.JSONDecoder(), _skip_space(text, 0)
    while end < len(text):
        number = text.count("\n", 0, end) + 1
        try:
            value, end = decoder.raw_decode(text, end)
        except json.JSONDecodeError as error:
            following = _NEXT.search(text, end + 1)
            value, end = error, following.start() if following else len(text)
        yield number, value
        end = _skip_space(text, end)


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except ValueError as error:
        return error


def _skip_space(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _files(path: Path) -> list[Path]:
    """The file, or the parts of an event log that Spark rolled."""
    if not path.is_dir():
        return [path]
    parts = [part for part in path.iterdir() if part.name.startswith("events_")]
    if not parts:
        raise PenstockError.setting("PROGRESS", str(path), "a file, or the folder of an event log, with files events_*")
    return sorted(parts, key=lambda part: int(part.name.split("_")[1]))


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
        for magic, codec in _CODECS.items():
            if data.startswith(magic):
                data = pa.CompressedInputStream(pa.BufferReader(data), codec).read()
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise PenstockError.setting(
            "PROGRESS", str(file), "a file that can be read", f"reading failed: {why}"
        ) from None
    text = data.decode("utf-8-sig", errors="replace")  # a torn line may end in the midst of a letter
    if "\0" in text:
        raise PenstockError(f"{file} is no text, and not packed with gzip or zstd: {_HOW}")
    if not text.strip():
        raise PenstockError(f"{file} is empty: {_HOW}")
    return io.StringIO(text, newline=None).read()
