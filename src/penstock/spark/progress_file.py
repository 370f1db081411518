"""Recorded progress of a streaming query, read from a file: JSON lines, a JSON array, or Spark's event log.

A recording may hold the progress of several queries, and much else if it is an event log: of its lines only those of
progress events are parsed. Files may be compressed with gzip or zstd, as Spark compresses its event logs.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: How compressed files begin.
_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
#: What a line of an event log has that holds a progress.
_EVENT = "QueryProgressEvent"
_HOW = "give progress of a query: `query.recentProgress` as JSON lines or an array, or Spark's event log"


@dataclass(frozen=True)
class Recording:
    """The progress of one query.

    Attributes:
        query: Its name, or its id if it has none.
        progress: In the order of their batches; triggers without rows are among them.
    """

    query: str
    progress: tuple[Progress, ...]


def read(path: Path, query: str | None = None) -> Recording:
    """The progress of the query, by name, id or run id, in the file; without one, of the only query there is."""
    found: dict[str, dict[tuple[str, int, float], Progress]] = {}
    called: dict[str, set[str]] = {}
    for place, given in _given(path):
        try:
            progress = Progress.of(given)
        except (KeyError, TypeError, ValueError) as error:
            raise PenstockError(f"{path}, {place}: a progress that cannot be read ({error}): {_HOW}") from None
        name, key, run = (str(given.get(field) or "") for field in ("name", "id", "runId"))
        # Spark keeps the last ones only, so whoever records for long asks again and again: some come twice.
        found.setdefault(name or key, {})[run, progress.batch, progress.start_s] = progress
        called.setdefault(name or key, set()).update({name, key, run})
    if not found:
        raise PenstockError(f"{path} holds no progress: {_HOW}")
    chosen = [name for name in found if query is None or query in called[name]]
    if len(chosen) != 1:
        raise PenstockError.setting("--query", query, f"one of the queries in {path}: {', '.join(sorted(found))}")
    return Recording(chosen[0] or "unnamed", tuple(sorted(found[chosen[0]].values(), key=lambda one: one.start_s)))


def _given(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each progress with the place where it stands."""
    for file in _files(path):
        for place, value in _values(file):
            yield from _unwrapped(place if file == path else f"{file.name}, {place}", value)


def _unwrapped(place: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401 - any JSON
    """The progress in a value: itself, what an event holds, or every one of an array."""
    if isinstance(value, list):
        for number, one in enumerate(value, start=1):
            yield from _unwrapped(f"{place}, value {number}", one)
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        yield from _unwrapped(place, _parsed(place, value))  # a progress as text, inside an array or an event
    elif isinstance(value, dict):
        if "batchId" in value and "timestamp" in value:
            yield place, value
        elif "progress" in value:
            yield from _unwrapped(place, value["progress"])


def _parsed(place: str, text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except ValueError as error:
        raise PenstockError(f"{place}: text that is no JSON ({error}): {_HOW}") from None


def _values(file: Path) -> Iterator[tuple[str, Any]]:
    """The JSON values of a file; of an event log, only those that may hold a progress."""
    text = _text(file)
    if text.lstrip().startswith('{"Event":'):
        for number, line in enumerate(text.split("\n"), start=1):
            if _EVENT in line:
                try:
                    yield f"line {number}", json.loads(line)
                except ValueError as error:
                    raise _broken(file, number, error) from None
        return
    # One value after the other, each on as many lines as it likes: what print(progress.prettyJson) wrote will do too.
    decoder, end = json.JSONDecoder(), _skip_space(text, 0)
    while end < len(text):
        place = f"line {text.count(chr(10), 0, end) + 1}"
        try:
            value, end = decoder.raw_decode(text, end)
        except json.JSONDecodeError as error:
            raise _broken(file, error.lineno, error) from None
        yield place, value
        end = _skip_space(text, end)


def _skip_space(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _broken(file: Path, line: int, error: ValueError) -> PenstockError:
    why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return PenstockError(f"{file}, line {line}: no JSON ({why}): mend or remove the line, or {_HOW}")


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
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PenstockError(f"{file} is no text, and not packed with gzip or zstd: {_HOW}") from None
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise PenstockError.setting(
            "PROGRESS", str(file), "a file that can be read", f"reading failed: {why}"
        ) from None
    if not text.strip():
        raise PenstockError(f"{file} is empty: {_HOW}")
    return io.StringIO(text, newline=None).read()
