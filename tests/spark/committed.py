"""What a query on the embedded source has committed, by Spark's own logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

#: Settings of a query whose logs are to be looked at: Spark keeps those of all batches, one file each.
KEEP_LOGS = {
    "spark.sql.streaming.minBatchesToRetain": "10000",
    "spark.sql.streaming.fileSink.log.compactInterval": "10000",
}


def batch_rows(checkpoint: Path) -> dict[int, tuple[int, int]]:
    """First and last row of each committed batch, from Spark's own logs."""
    offsets = {
        int(path.name): json.loads(path.read_text().splitlines()[-1])["rows"]
        for path in (checkpoint / "offsets").iterdir()
        if path.name.isdigit()
    }
    done = [int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    return {
        batch: (offsets.get(batch - 1, 0), offsets[batch])
        for batch in sorted(done)
        if batch - 1 in offsets or batch == 0
    }


def sink_rows(sink: Path) -> dict[int, NDArray[np.int64]]:
    """Rows of each batch in the sink, from its own log of files."""
    rows: dict[int, NDArray[np.int64]] = {}
    for log in (sink / "_spark_metadata").iterdir():
        if not log.name.isdigit():
            continue
        files = [json.loads(line)["path"] for line in log.read_text().splitlines()[1:]]
        parts = [pq.read_table(file.removeprefix("file://"), columns=["row"])["row"].to_numpy() for file in files]
        rows[int(log.name)] = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return rows
