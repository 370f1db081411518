"""A guarded query at twice its capacity that runs until it is killed: `python overloaded_query.py FOLDER`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import penstock as ps

TARGET_S = 2.0
#: Work that sleeps needs no core: two slots sleep for about half of what these rows ask for.
RATE = 1000


def enrich(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(row["cost_ms"] / 1000.0)
    return {"key": row["key"], "weight": row["weight"]}


def main(folder: Path) -> None:
    spark = ps.local_session(folder / "spark")
    guard = ps.Guard(ps.MeanQueueLatency(TARGET_S), key="key", checkpoint=folder / "checkpoint")
    query = (
        spark.readStream.format("penstock")
        .option("rate", RATE)
        .load()
        .transform(guard.admit)
        .transform(guard.measured(enrich, "key bigint, weight double", form="row"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    guard.watch(query, on_report=lambda report: sys.stdout.write(f"{report.to_json()}\n") and sys.stdout.flush())
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
