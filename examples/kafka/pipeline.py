"""A guarded pipeline from Kafka to Kafka: records are read as JSON, enriched at some cost, and written with weights.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 pipeline.py \
        localhost:9092 events enriched /data/checkpoints/enrich

The last folder is the query's checkpoint, under which the guard keeps its plans.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

import penstock as ps

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

PAYLOAD = "row bigint, key bigint, cost_ms double, value double"
RESULT = "topic string, partition int, offset bigint, row bigint, key bigint, value double, weight double"
MUST_KEEP = "key % 20 = 7"


def make_guard(checkpoint: str | Path, target: str = "2 s", backlog: Literal["keep", "thin"] = "keep") -> ps.Guard:
    """Hold the mean wait; arrival is the record's timestamp, and its offset tells it from others, without a word."""
    policy = ps.LoadAware(prefer="cheap")
    return ps.Guard(
        ps.MeanQueueLatency(target), policy, key="key", keep=MUST_KEEP, checkpoint=checkpoint, backlog=backlog
    )


def read(spark: SparkSession, servers: str, topic: str, **options: str | int) -> DataFrame:
    """The records of a topic with their payload's fields; where a payload cannot be read, these are null."""
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    payload = F.from_json(F.col("value").cast("string"), PAYLOAD).alias("payload")
    place = ["topic", "partition", "offset", "timestamp"]
    return records.options(**options).load().select(*place, payload).select(*place, "payload.*")


def enrich(row: dict[str, Any]) -> dict[str, Any]:
    """The expensive operator: it takes as long as the row says, as a call to another service would."""
    time.sleep((row["cost_ms"] or 0.0) / 1e3)
    return {name: row[name] for name in ("topic", "partition", "offset", "row", "key", "value", "weight")}


def start(rows: DataFrame, guard: ps.Guard, servers: str, topic: str, checkpoint: str | Path) -> StreamingQuery:
    """Start the query, and the guard's loop beside it."""
    results = rows.transform(guard.admit).transform(guard.measured(enrich, RESULT, form="row"))
    # Kafka's sink may write a batch twice after a failure: topic, partition and offset let readers see it.
    records = results.select(F.col("key").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
    query = (
        records.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    guard.watch(query)
    return query


if __name__ == "__main__":
    if len(sys.argv) != 5:  # noqa: PLR2004 - the program and what it takes
        sys.exit(__doc__)
    servers, source, sink, checkpoint = sys.argv[1:]
    guard = make_guard(checkpoint)
    rows = read(SparkSession.builder.getOrCreate(), servers, source)
    with guard:
        start(rows, guard, servers, sink, checkpoint).awaitTermination()
