"""A guarded query with its whole checkpoint in a bucket: Spark's files by Hadoop's client, Penstock's beside them."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from tests.components import example, hadoop_aws, missing
from tests.object_server import BUCKET, KEY, SECRET, ObjectServer

import penstock as ps

F = pytest.importorskip("pyspark.sql.functions")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.messages.report import Report

ROWS = 100


@pytest.fixture
def s3a(spark: SparkSession, bucket: ObjectServer) -> Iterator[str]:
    """A folder of the bucket that Spark reaches, and executors in whose environment the credentials are."""
    try:
        hadoop_aws()
    except example("kafka/broker").UnavailableError as error:
        missing(str(error))
    for name, value in bucket.hadoop.items():
        spark.conf.set(name, value)
    before = dict(spark.sparkContext.environment)
    spark.sparkContext.environment.update(bucket.environment)
    yield f"s3a://{BUCKET}/{uuid.uuid4().hex}"
    spark.sparkContext.environment = before
    for name in bucket.hadoop:
        spark.conf.unset(name)


class Guarded:
    """A query that is run in pieces; `kept` has the rows of each attempt at a batch."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint, self._begun_ms = spark, checkpoint, int(time.time() * 1000)
        self.kept: dict[int, list[list[int]]] = defaultdict(list)
        self.reports: list[Report] = []
        self.dies = False  #: whether the next batch ends before Spark has committed it

    def start(self) -> tuple[ps.Guard, StreamingQuery]:
        guard = ps.Guard(ps.Throughput(40), ps.RandomShed(), row="row", checkpoint=self._checkpoint)
        options = {"rowsPerBatch": ROWS, "startTimestamp": self._begun_ms, "advanceMillisPerBatch": 1}
        stream = self._spark.readStream.format("rate-micro-batch").options(**options).load()
        admitted = stream.select(F.col("value").alias("row")).transform(guard.admit)
        writer = admitted.writeStream.foreachBatch(self._sink).option("checkpointLocation", self._checkpoint)
        query = writer.trigger(processingTime="500 milliseconds").start()
        guard.watch(query, on_report=self.reports.append)
        return guard, query

    def _sink(self, df: DataFrame, number: int) -> None:
        self.kept[number].append(sorted(row["row"] for row in df.select("row").collect()))
        if self.dies:
            self.dies = False
            raise RuntimeError("the driver dies here")

    def until(self, happened: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 60.0
        while not happened():
            assert time.monotonic() < deadline_s, (self.reports[-1:], "it did not happen")
            time.sleep(0.02)


def test_a_guarded_query_keeps_its_checkpoint_in_a_bucket(
    spark: SparkSession, bucket: ObjectServer, s3a: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = Guarded(spark, s3a)
    guard, query = run.start()
    run.until(lambda: len(run.reports) >= 1)
    before, since = bucket.requests.copy(), len(run.reports)
    run.until(lambda: len(run.reports) >= since + 3)
    own = bucket.requests - before
    hadoop = own.pop("hadoop")
    # A plan a batch: they are overloaded. The next one may have begun.
    assert own.total() <= 6 * (1 + len(run.reports) - since) < hadoop
    assert not guard.alarms
    assert str(guard.folder) == f"{s3a}/penstock"

    bucket.refusal = (404, "NoSuchBucket")  # as if it were deleted, but Spark had not noticed
    kept_all = "kept every row of a batch"
    run.until(lambda: run.reports[-1].rows_kept == ROWS and any(kept_all in alarm for alarm in guard.alarms))
    bucket.mend()
    run.until(lambda: run.reports[-1].rows_kept < ROWS and not guard.alarms)

    run.dies = True
    run.until(lambda: not query.isActive)
    guard.stop()
    last = max(run.kept)
    guard, query = run.start()
    run.until(lambda: len(run.kept[last]) > 1)
    query.stop()
    guard.stop()
    assert run.kept[last][0] == run.kept[last][1] != list(range(ROWS * last, ROWS * (last + 1)))

    stored = bucket.objects(s3a.removeprefix(f"s3a://{BUCKET}/"))
    assert {"commits", "metadata", "offsets", "penstock"} <= {path.partition("/")[0] for path in stored}
    told = [
        *map(repr, run.reports),
        *caplog.messages,
        *(content.decode(errors="replace") for content in stored.values()),
    ]
    assert not [text for text in told if KEY in text or SECRET in text]
