"""A guarded query from a table to a table, until it is killed or all is read: `python killed_tables.py LAKE FOLDER`.

Its plans change with every batch, so that a batch judged by another plan than its own would show.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.killed_query import RestlessPolicy
from tests.tables.lake import COLUMNS, Lake

import penstock as ps
from penstock.spark.session import local_session

RESULT = "row bigint, key bigint, value double, weight double"


def main(lake_folder: Path, folder: Path) -> None:
    lake = Lake.here(lake_folder)
    spark = local_session(folder / "spark", settings=lake.settings())
    lake.make(spark, "many", COLUMNS)
    survived = lake.make(spark, "survived", RESULT)
    guard = ps.Guard(
        ps.MeanQueueLatency("2 s"),
        RestlessPolicy(),
        key="key",
        row="row",
        checkpoint=folder / "checkpoint",
        quarantine=folder / "shed",
    )
    admitted = lake.stream(spark, "many").transform(guard.admit).select("row", "key", "value", "weight")
    writer = admitted.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).toTable(survived)
    with guard.watch(query):
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
