"""Two tenants share one overloaded Spark application: neither starves, and the one that pays has the better results.

Run it with `python examples/fair/run.py`; it prints how it stands every few seconds, and ends after a minute.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

import penstock as ps
from penstock import local_session, sic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

#: What an expensive step costs, in milliseconds a row, and rows a second of each tenant: more than two cores can do.
COST_MS = 8.0
#: How often it is told how it stands.
EVERY_S = 5
RATES = {"free": 250, "paying": 250}
IMPORTANCE = {"free": 1.0, "paying": 2.0}


def enrich(row: dict[str, Any]) -> dict[str, Any]:
    """Your own expensive function."""
    time.sleep(COST_MS / 1000.0)
    return {name: row[name] for name in ("key", "value", "arrival", "weight")}


def run(
    spark: SparkSession, folder: Path, seconds: float, enough: Callable[[ps.Fair], bool] = lambda _: False
) -> ps.Fair:
    """Run both tenants' queries for a while, or until it is enough."""
    fair = ps.Fair("2 s")
    running = []
    for name, rate in RATES.items():
        query = fair.query(
            name,
            importance=IMPORTANCE[name],
            keep="key = 7",  # rows that are never shed
            row="row",
            checkpoint=folder / name,
        )
        started = (
            spark.readStream.format("penstock")
            .option("rate", rate)
            .load()
            .transform(query.admit)
            .transform(
                query.measured(
                    sic.pass_on(enrich, form="row"),
                    "key bigint, value double, arrival timestamp, weight double, sic double",
                    form="row",
                )
            )
            .transform(query.results)  # in front of the aggregate: its results are updated
            .groupBy(F.window("arrival", "10 seconds"))
            .agg(F.sum("weight").alias("rows"), sic.total(), sic.quality())
            .writeStream.format("memory")
            .queryName(f"{name}_results")
            .outputMode("update")
            .option("checkpointLocation", str(folder / name))
            .start()
        )
        query.watch(started)
        running.append(started)
    end_s = time.monotonic() + seconds
    try:
        while time.monotonic() < end_s and not enough(fair):
            running[0].awaitTermination(timeout=EVERY_S)
            print(fair.summary())
    finally:
        for one in running:
            one.stop()
        fair.stop()
    return fair


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        session = local_session(scratch)
        run(session, Path(scratch), options.parse_args().seconds)
        for tenant in RATES:
            session.table(f"{tenant}_results").orderBy("window").show(truncate=False)
        session.stop()
