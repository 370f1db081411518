"""What a query on the embedded source has committed, by Spark's own logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from penstock.core.control.backlog import age_thresholds
from penstock.core.control.gate import coins, judge
from penstock.core.control.planner import SOURCE
from penstock.core.hashing import xxhash64_ints
from penstock.core.rate_profile import RateProfile
from penstock.messages.plan import KeepTable

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from penstock.messages.plan import Binding, Plan
    from penstock.spark.source import Population

EVERYTHING = KeepTable(SOURCE, keep=(1.0,), reasons=("",))

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


class Judge:
    """Says, in NumPy, which rows of a batch the gate keeps."""

    def __init__(self, checkpoint: Path, population: Population, *, rate: float, salt: int, keep_key: int = -1) -> None:
        """The source brings `rate` rows a second; those with `keep_key` must be kept."""
        offsets = next(path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
        self._start_us = json.loads(offsets.read_text().splitlines()[-1])["start_us"]
        self._population, self._profile = population, RateProfile.constant(rate)
        self._salt, self._keep_key = salt, keep_key

    def kept(self, rows: NDArray[np.int64], binding: Binding, plan: Plan | None) -> NDArray[np.int64]:
        arrivals_us = (self._profile.arrival_s(rows) * 1e6).astype(np.int64) + self._start_us
        keys = self._population.batch(rows, arrivals_us)["key"].to_numpy()
        by_age = None
        if binding.backlog is not None:
            by_age = age_thresholds(binding.backlog, arrivals_us / 1e6, binding.bound_s)
        verdicts = judge(
            (plan.gate(SOURCE) if plan else None) or EVERYTHING,
            key_hashes=xxhash64_ints(keys),
            coins=coins(self._salt, rows),
            must_keep=keys == self._keep_key,
            by_age=by_age,
            share=binding.share,
        )
        return rows[verdicts.kept]


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


def shed_rows(quarantine: Path) -> dict[int, NDArray[np.int64]]:
    """Rows of each batch in a quarantine, those of batches that were never committed included."""
    if not any(quarantine.glob("*.parquet")):
        return {}
    found = pq.read_table(quarantine, columns=["row", "penstock_batch"])
    batches, rows = found["penstock_batch"].to_numpy(), found["row"].to_numpy()
    return {int(batch): rows[batches == batch] for batch in np.unique(batches)}
