"""Rows for a stateful box, as files between two stages: complete, once, and deleted after reading.

All files of a stage lie in one folder, and Spark deletes each after the batch that has read it. So listing the folder
takes no longer after a million batches than after one. A batch is written aside and appears atomically, when its folder
is renamed. Then its files are moved to where they are read, and the batch is noted.

Spark reruns only the newest batch. A number reused for another batch is an error, because its rows would not be
written.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import xxhash

from penstock.errors import PenstockError
from penstock.store.binder import is_another
from penstock.store.bound_plans import ReusedError
from penstock.store.folder import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

#: The last batch whose files are all published. Spark ignores such a name.
_FED = "_fed"
_WHOLE = "_whole-"


class _Fed(NamedTuple):
    """The last batch that was written."""

    number: int
    batch_id: str

    @classmethod
    def of(cls, folder: Path) -> _Fed:
        """The one of a folder; its number is -1 if there is none."""
        number, _, batch_id = (FolderStore(folder, make=False).read(_FED) or b"-1").decode().partition(" ")
        return cls(int(number), batch_id)


def feed(
    df: DataFrame, folder: Path, batch: int, batch_id: str = "", rows: Callable[[], int | None] = lambda: None
) -> None:
    """Write the rows of a batch, unless they were written before.

    `folder` is where a stage reads them. `batch_id` distinguishes batches of the same number. `rows` says how many
    rows Spark has written; None if that is not known.

    Raises:
        ReusedError: If another batch of that number, or of a later one, was written before.
        PenstockError: If rows are missing in what was written.
    """
    _refuse_reused(folder, batch, batch_id)
    whole = _whole(folder, batch, batch_id)
    if whole.exists() or batch == _Fed.of(folder).number:
        # Not written again, because they may have been read; but the counts must run.
        df.write.format("noop").mode("overwrite").save()
    else:
        unfinished = folder / f"_unfinished-{batch:020d}"
        df.write.mode("overwrite").parquet(str(unfinished))
        _refuse_missing(unfinished, rows())
        unfinished.rename(whole)
    if whole.exists():
        _move(whole, folder, _Fed(batch, batch_id))


def _whole(folder: Path, batch: int, batch_id: str) -> Path:
    """The folder of a batch that is written whole; its identity may have been unknown when it was written."""
    unnamed = folder / f"{_WHOLE}{batch:020d}"
    if unnamed.exists() or not batch_id:
        return unnamed
    return folder / f"{unnamed.name}-{xxhash.xxh64_hexdigest(batch_id.encode())}"


def _refuse_reused(folder: Path, batch: int, batch_id: str) -> None:
    fed, whole = _Fed.of(folder), _whole(folder, batch, batch_id)
    other = batch == fed.number and is_another(fed.batch_id, batch_id)
    if batch < fed.number or other or (batch_id and any(one != whole for one in folder.glob(f"{_WHOLE}{batch:020d}*"))):
        raise ReusedError(f"stage {folder.name}", batch)


def _refuse_missing(unfinished: Path, rows: int | None) -> None:
    """Rows that executors have written to another disk under the same path."""
    found = sum(pq.read_metadata(path).num_rows for path in unfinished.glob("part-*.parquet")) if rows else 0
    if rows and found < rows:
        raise PenstockError(
            f"{rows - found} of {rows} rows are not in {unfinished.parent}: executors cannot read the driver's folder; "
            "mount it there under the same path"
        )


def _move(whole: Path, folder: Path, fed: _Fed) -> None:
    for path in sorted(whole.glob("part-*.parquet")):
        path.rename(folder / f"batch-{fed.number:020d}-{path.name}")
    FolderStore(folder, make=False).replace(_FED, f"{fed.number} {fed.batch_id}".strip().encode(), durable=True)
    shutil.rmtree(whole, ignore_errors=True)
