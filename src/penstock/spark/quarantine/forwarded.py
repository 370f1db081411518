"""Files of a quarantine whose rows are in a table or a topic: archived by Spark, and deleted when old.

They are outside the folder that Spark lists for new files. They stay for a while, because a rerun batch must find its
files.
"""

from contextlib import suppress
from pathlib import Path

from penstock.store.retention import AGE_S, BATCHES, LEAST_BATCHES, PURGE_EVERY

#: The folder beside the quarantine; Spark repeats the whole path of a file below it.
FORWARDED = "forwarded"


def kept_in(folder: Path) -> Path:
    """Where archived files of the folder are."""
    return folder.parent / FORWARDED / folder.relative_to(folder.anchor)


def found(folder: Path, name: str) -> Path | None:
    """The file of that name, in the folder or archived; None if there is none."""
    # In this order: Spark may archive it in between.
    return next((path for path in (folder / name, kept_in(folder) / name) if path.exists()), None)


def purge(folder: Path, query: str, batch: int, now_s: float) -> None:
    """Delete old archived files of a query, occasionally."""
    if batch % PURGE_EVERY:
        return
    with suppress(OSError):
        for path in kept_in(folder).glob(f"{query}-*.parquet"):
            number = int(path.name.removeprefix(f"{query}-").split("-")[0])
            old = path.stat().st_mtime < now_s - AGE_S and number < batch - LEAST_BATCHES
            if old or number < batch - BATCHES:
                path.unlink(missing_ok=True)
