"""Rows for a box with a state, as files between two stages: whole, once, and gone when they are read.

All files of a stage lie in one folder, and Spark deletes each after the batch that has read it. So a look at the folder
takes no longer after a million batches than after one. A batch is written aside and becomes whole at one stroke, when
its folder gets its name; then its files are moved to where they are read, and the number of the batch is noted.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

#: The number of the last batch whose files are all where they are read. Spark takes no such name for data.
_FED = "_fed"


def feed(df: DataFrame, folder: Path, batch: int) -> None:
    """Write the rows of a batch, unless they were written before."""
    unfinished, whole = folder / f"_unfinished-{batch:020d}", folder / f"_whole-{batch:020d}"
    if whole.exists() or _fed(folder, batch):
        # Not written again, because they may have been read; but what is counted on the way must run.
        df.write.format("noop").mode("overwrite").save()
    else:
        df.write.mode("overwrite").parquet(str(unfinished))
        unfinished.rename(whole)
    if whole.exists():
        _move(whole, folder, batch)


def tidy(folder: Path) -> None:
    """Delete what earlier releases left behind: a folder for each batch, empty once its files were read."""
    for old in folder.glob("*/batch-*/"):
        if not any(old.glob("*.parquet")) and not _is_newest(old):
            shutil.rmtree(old, ignore_errors=True)


def _fed(folder: Path, batch: int) -> bool:
    mark = folder / _FED
    if mark.exists():
        return batch <= int(mark.read_text())
    return (folder / f"batch-{batch:020d}").exists()  # by an earlier release


def _move(whole: Path, folder: Path, batch: int) -> None:
    for path in sorted(whole.glob("part-*.parquet")):
        path.rename(folder / f"batch-{batch:020d}-{path.name}")
    new = folder / f"{_FED}.new"
    new.write_text(f"{batch}")
    new.replace(folder / _FED)
    shutil.rmtree(whole, ignore_errors=True)


def _is_newest(old: Path) -> bool:
    """Whether it tells that the last batch was written, which may be run again."""
    return old.name == max(one.name for one in old.parent.glob("batch-*/"))
