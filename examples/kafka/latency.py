"""End-to-end latency of a gate between two topics: micro-batch mode and real-time mode in turn, on a broker of its own.

    python latency.py [RESULT.json]

A record's latency is the time from its timestamp in the source, set by the producer, to that of the record in the sink,
set by the broker when it was appended. Half of the rows are shed in both modes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from broker import Broker, UnavailableError, connector_jars
from confluent_kafka import Consumer, TopicPartition
from produce import make_topics, send
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

import penstock as ps
from penstock import baselines, local_session
from penstock.hardware import describe, in_one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

RATE, SECONDS, ROUNDS = 500, 20.0, 5
MODES: dict[str, dict[str, Any]] = {
    "micro-batch": {"processingTime": "0 seconds"},
    "real-time": {"realTime": "5 seconds"},
}


def start(records: DataFrame, guard: ps.Guard, servers: str, sink: str, mode: str, checkpoint: Path) -> StreamingQuery:
    """The same query in both modes; only its trigger differs."""
    # The time of arrival travels in the key.
    arrived_ms = F.unix_millis("timestamp").cast("string")
    query = (
        records.transform(guard.admit)
        .select(arrived_ms.alias("key"), "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", sink)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .trigger(**MODES[mode])
        .start()
    )
    guard.watch(query)
    return query


def stream(servers: str, topic: str, seconds: float) -> float:
    """Produce a steady stream; return when it began."""
    begin_s = time.time()
    rows = range(round(RATE * seconds))
    send(servers, topic, ((str(row % 100), json.dumps({"row": row}), begin_s + row / RATE) for row in rows))
    return begin_s


def latencies_s(servers: str, topic: str, since_s: float) -> np.ndarray:
    """Time from arrival to the sink, of all records that arrived since then."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "latency"})
    places = [TopicPartition(topic, partition, 0) for partition in (0, 1)]
    left = sum(consumer.get_watermark_offsets(place)[1] for place in places)
    consumer.assign(places)
    found = []
    while left:
        records = consumer.consume(1000, timeout=10.0)
        left -= len(records)
        found += [(int(record.key()), record.timestamp()[1]) for record in records]
    consumer.close()
    arrived_ms, written_ms = np.array(found).T
    return (written_ms - arrived_ms)[arrived_ms >= since_s * 1000.0] / 1000.0


def measure(folder: Path, servers: str) -> dict[str, list[dict[str, float]]]:
    """Both modes in turn, several rounds; each begins with a stretch that is not measured."""
    results: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    spark = local_session(folder / "spark", settings={"spark.jars": ",".join(map(str, connector_jars()))})
    try:
        for number, mode in ((number, mode) for number in range(ROUNDS) for mode in MODES):
            source, sink, checkpoint = f"in-{mode}-{number}", f"out-{mode}-{number}", folder / f"{mode}-{number}"
            make_topics(servers, [source])
            make_topics(servers, [sink], **{"message.timestamp.type": "LogAppendTime"})
            guard = ps.Guard(ps.Throughput(RATE), baselines.BaseLine(drop_share=0.5), checkpoint=checkpoint)
            reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
            records = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
            query = start(records, guard, servers, sink, mode, checkpoint)
            try:
                while not guard.totals.rows_shed:  # until a plan acts
                    stream(servers, source, 1.0)
                begin_s = stream(servers, source, SECONDS)
                time.sleep(2.0)
            finally:
                query.stop()
                guard.stop()
            found_s = latencies_s(servers, sink, begin_s)
            kept = len(found_s) / (RATE * SECONDS)
            p50, p99 = np.quantile(found_s, [0.5, 0.99])
            results[mode].append({"p50_s": round(p50, 4), "p99_s": round(p99, 4), "kept": round(kept, 3)})
            print(f"{mode:12} p50 {p50 * 1000:7.0f} ms   p99 {p99 * 1000:7.0f} ms   {kept:.0%} of rows", flush=True)
    finally:
        spark.stop()
    return results


def main(result: str | None) -> None:
    """Measure, print, and write the result if a file is named for it."""
    about = describe() | {"connector": next(jar.stem for jar in connector_jars() if "spark-sql" in jar.name)}
    print(in_one_line(about), flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-kafka-", ignore_cleanup_errors=True) as name,
        Broker(Path(name) / "broker") as broker,
    ):
        modes = measure(Path(name), broker.address)
    for mode, rounds in modes.items():
        p50, p99 = (np.median([one[part] for one in rounds]) * 1000 for part in ("p50_s", "p99_s"))
        print(f"{mode:12} median of {len(rounds)} rounds: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    if result is not None:
        found = {"machine": about, "rows_per_s": RATE, "seconds": SECONDS, "modes": modes}
        Path(result).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:] or [None])
    except UnavailableError as error:
        sys.exit(str(error))
