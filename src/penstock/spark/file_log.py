"""Spark's log of the files that a stream has read, which Spark itself never shortens.

A stream of files remembers each file by a line in its checkpoint, and copies all of them into a new file every ten
batches. At two files a second that is 30 MB after a day, and takes seconds. Lines of files that are gone are of no use,
because such a file cannot be read again.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

_logger = logging.getLogger(__name__)

#: A log that is smaller is left alone.
SMALL_BYTES = 100_000
#: The files of this many batches stay, because Spark may run a batch again.
BATCHES = 200
#: What such a log begins with; one of another version is left alone.
_VERSION = "v1"
_COMPACT = ".compact"


def shorten(checkpoint: Path) -> None:
    """Take the files that are gone out of the logs of a query.

    Spark must not read or write the logs meanwhile: the query has not started yet, or waits for the caller.
    """
    with suppress(OSError):
        for source in sorted((checkpoint / "sources").iterdir()):
            _shorten(source)


def _shorten(source: Path) -> None:
    newest = max(source.glob(f"*{_COMPACT}"), key=_number, default=None)
    if newest is None or newest.stat().st_size < SMALL_BYTES:
        return
    version, *lines = newest.read_text(encoding="utf-8").splitlines()
    if version != _VERSION:
        return
    try:
        kept = [line for line in lines if _needed(json.loads(line), _number(newest) - BATCHES)]
    except (ValueError, KeyError, TypeError) as error:
        _logger.warning("%s is left unchanged, because it is not as expected: %s", newest, error)
        return
    if len(kept) < len(lines) / 2:
        _replace(newest, "\n".join([version, *kept]))


def _needed(entry: dict[str, object], since: int) -> bool:
    address = urlsplit(str(entry["path"]))
    local = address.scheme in ("", "file")
    return int(str(entry["batchId"])) >= since or not local or Path(unquote(address.path)).exists()


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    # The checksum first: without one, Spark does not compare.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    new.replace(path)


def _number(path: Path) -> int:
    number = path.name.removesuffix(_COMPACT)
    return int(number) if number.isdecimal() else -1
