"""A guarded query that runs until it is killed: `python killed_query.py FOLDER CHECKPOINT SETTINGS`.

Its plans change with every batch. SETTINGS are those of the session, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import penstock as ps
from penstock.core.control.planner import SOURCE
from penstock.messages.plan import KeepTable, Plan
from penstock.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.messages.report import Report

SEED = 5
ROWS_PER_BATCH, RATE = 500, 2000
RESULT = "row bigint, key bigint, weight double"


@dataclass
class Restless:
    """Plans anew after every batch, so that a batch judged by another plan than its own would show."""

    alarms: tuple[str, ...] = ()

    def decide(self, report: Report, now_s: float) -> Plan | None:
        keep = tuple(0.1 + 0.2 * ((report.sequence + bucket) % 4) for bucket in range(4))
        table = KeepTable(SOURCE, keep=keep, reasons=("restless",))
        return Plan(0, "restless", now_s, SEED, gates=(table,))

    def release(self, version: int, now_s: float, note: str) -> None:  # noqa: ARG002 - it never lets go
        return None


@dataclass(frozen=True)
class RestlessPolicy:
    name: ClassVar[str] = "restless"
    seed: int = SEED

    def planner(self, target: object) -> Restless:  # noqa: ARG002 - blind to it
        return Restless()


def seen(folder: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """An operator that notes every row it is given, whether its batch is committed later or not."""

    def note(row: dict[str, Any]) -> dict[str, Any]:
        with (folder / f"seen-{os.getpid()}").open("a") as file:
            file.write(f"{row['row']}\n")
        return {"row": row["row"], "key": row["key"], "weight": row["weight"]}

    return note


def main(folder: Path, checkpoint: str, settings: dict[str, str]) -> None:
    # Spark keeps the logs of all batches, one file each, for the test to look at: see committed.py.
    keep_logs = {
        "spark.sql.streaming.minBatchesToRetain": "10000",
        "spark.sql.streaming.fileSink.log.compactInterval": "10000",
    }
    spark = local_session(folder / "spark", settings=keep_logs | settings)
    guard = ps.Guard(
        ps.MeanQueueLatency("2 s"),
        RestlessPolicy(),
        key="key",
        row="row",
        keep="key = 3",
        checkpoint=checkpoint,
        quarantine=folder / "shed",
    )
    query = (
        spark.readStream.format("penstock")
        .options(rate=RATE, rows_per_batch=ROWS_PER_BATCH, seed=SEED)
        .load()
        .transform(guard.admit)
        .transform(guard.measured(seen(folder), RESULT, form="row"))
        .writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", checkpoint)
        .start()
    )
    guard.watch(query)
    sys.stdout.write("running\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
