"""The guard between two topics of a real Kafka: the example's own pipeline, its account, and what may go wrong."""

from __future__ import annotations

import json
import math
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.components import EXAMPLES, example

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

import confluent_kafka
import pyarrow.parquet as pq
from tests.spark import quarantined

import penstock as ps
from penstock.config.network_file import load
from penstock.core.control.backlog import GRACE_S
from penstock.core.control.gate import TOO_OLD
from penstock.spark.guard.controller import REAL_TIME
from penstock.spark.network.run import NetworkRun
from penstock.spark.progress import Progress
from penstock.spark.quarantine import topic
from penstock.spark.quarantine.forwarded import kept_in
from penstock.spark.quarantine.rows import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

brokers, pipeline, producing = (example(f"kafka/{name}") for name in ("broker", "pipeline", "produce"))

TARGET_S = 1.0
DEADLINE_S = 120.0
ROWS = 2400


class Record(NamedTuple):
    """What a test sends: a payload that is no text is sent as JSON."""

    payload: Any
    key: str | bytes | None = None
    partition: int = -1
    timestamp_ms: int = 0  # 0: now


class Topics:
    """Two topics, new ones if none are named, and what they hold."""

    def __init__(self, broker: Any, partitions: int = 2, names: tuple[str, str] | None = None) -> None:
        number = uuid.uuid4().hex[:8]
        self.servers, (self.source, self.sink) = broker.address, names or (f"in-{number}", f"out-{number}")
        self._partitions = range(partitions)
        if names is None:
            producing.make_topics(self.servers, [self.source, self.sink], partitions)

    def send(self, records: Iterable[Record]) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "queue.buffering.max.messages": 10**6})
        for payload, key, partition, timestamp_ms in records:
            value = payload if payload is None or isinstance(payload, bytes) else json.dumps(payload)
            producer.produce(self.source, value, key, partition=partition, timestamp=timestamp_ms)
        assert producer.flush(DEADLINE_S) == 0

    def content(self, topic: str) -> list[tuple[int, int, bytes | None]]:
        """Partition, offset and payload of every record."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "test"})
        found: list[tuple[int, int, bytes | None]] = []
        try:
            places = [confluent_kafka.TopicPartition(topic, part, 0) for part in self._partitions]
            expected = sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
            consumer.assign(places)
            deadline_s = time.monotonic() + DEADLINE_S
            while len(found) < expected and time.monotonic() < deadline_s:
                records = consumer.consume(1000, timeout=1.0)
                found += [(record.partition(), record.offset(), record.value()) for record in records]
        finally:
            consumer.close()
        assert len(found) == expected
        return found

    def written(self) -> list[dict[str, Any]]:
        return [json.loads(payload or b"") for _, _, payload in self.content(self.sink)]


@pytest.fixture
def topics(kafka: Any) -> Topics:
    return Topics(kafka)


def stream(spark: SparkSession, topics: Topics, **options: Any) -> DataFrame:
    df: DataFrame = pipeline.read(spark, topics.servers, topics.source, startingOffsets="earliest", **options)
    return df


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[ps.Guard]:
    own: ps.Guard = pipeline.make_guard(tmp_path / "checkpoint", f"{TARGET_S} s")
    yield own
    own.stop()


def run(rows: DataFrame, guard: ps.Guard, topics: Topics, tmp_path: Path) -> StreamingQuery:
    query: StreamingQuery = pipeline.start(rows, guard, topics.servers, topics.sink, tmp_path / "checkpoint")
    return query


def finish(query: StreamingQuery, guard: ps.Guard) -> None:
    """Until all that is in the topic has been read and reported."""
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    deadline_s = time.monotonic() + DEADLINE_S
    while guard.watching and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert query.exception() is None


def assert_account_is_exact(query: StreamingQuery, guard: ps.Guard, topics: Topics) -> list[dict[str, Any]]:
    """In every batch and on the whole: what came in was kept or shed, and the sink holds what was kept, once."""
    came = {one.batchId: one.numInputRows for one in query.recentProgress if one.numInputRows}
    assert {report.sequence: report.rows_in for report in guard.history()} == came
    assert sum(came.values()) == len(topics.content(topics.source))
    written = topics.written()
    assert len(written) == sum(report.rows_kept for report in guard.history())
    assert len({(row["partition"], row["offset"]) for row in written}) == len(written)
    assert guard.errors == 0
    return written


def must_be_kept(rows: Iterable[dict[str, Any]]) -> list[int]:
    return sorted(row["row"] for row in rows if "key" in row and row["key"] % 20 == 7)


def overhead_s(spark: SparkSession, topics: Topics, folder: Path) -> float:
    """What a batch of a few rows takes on this machine at the moment, once JVM and workers are warm."""
    with pipeline.make_guard(folder / "checkpoint", "1 h") as guard:
        query = run(stream(spark, topics), guard, topics, folder)
        for _ in range(2):
            topics.send([Record({"row": -1, "key": 1, "cost_ms": 0.1, "value": 0.5})] * 100)
            query.processAllAvailable()
        finish(query, guard)
        last_s: float = guard.history()[-1].overhead_s
    return last_s


def test_make_kafka_sheds_and_its_account_is_that_of_both_topics(
    spark: SparkSession, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the broker and the session of its own: their start takes longest, and other examples start theirs."""
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"])  # it is restored at the end
    monkeypatch.syspath_prepend(EXAMPLES / "kafka")
    whole, began = example("kafka/run"), []
    # A target shorter than a batch is out of reach, and then nothing is shed: a busy machine is given more time.
    target_s = max(TARGET_S, 2.0 * overhead_s(spark, Topics(kafka), tmp_path / "warm"))
    guard = pipeline.make_guard(tmp_path / "checkpoint", f"{target_s} s")

    def start(*given: Any) -> StreamingQuery:
        began.append(pipeline.start(*given))
        return began[0]

    # Its functions travel to workers whole.
    ours = SimpleNamespace(ps=ps, read=pipeline.read, start=start, make_guard=lambda _: guard, RESULT=pipeline.RESULT)
    session = SimpleNamespace(read=spark.read, readStream=spark.readStream, stop=lambda: None)
    monkeypatch.setattr(whole, "pipeline", ours)
    monkeypatch.setattr(whole, "WARM_UP_S", 0.5)  # it is warm
    monkeypatch.setattr(whole, "local_session", lambda *_, **__: session)
    assert whole.run(tmp_path, kafka.address, 4.0 + 3.0 * target_s)

    topics = Topics(kafka, names=("in", "out"))
    written = assert_account_is_exact(began[0], guard, topics)
    sent = [json.loads(payload or b"") for _, _, payload in topics.content(topics.source)]
    assert must_be_kept(written) == must_be_kept(sent)
    reports = guard.history()
    assert sum(report.shed_total for report in reports) > 0.2 * len(sent)
    assert sum(row["weight"] for row in written) == pytest.approx(len(sent), rel=0.2)
    assert guard.totals.busy_s < 0.75 * sum(row["cost_ms"] for row in sent) / 1000.0
    # Unguarded, rows of the second half would wait for five seconds and more; a batch of a busy machine takes long too.
    later = reports[len(reports) // 2 :]
    waits_s = [report.queuing.mean_s for report in later if report.queuing]
    longest_s = max(report.overhead_s for report in later)
    assert statistics.mean(waits_s) < 2.0 * target_s + 4.0 * longest_s, (waits_s, longest_s)


def test_a_network_reads_from_a_topic_and_writes_to_another(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topics.send([Record({"row": row, "key": row % 3, "cost_ms": 0.1, "value": row / 100.0}) for row in range(100)])
    (tmp_path / "net.yaml").write_text(f"""
inputs:
  I:
    format: kafka
    options: {{kafka.bootstrap.servers: "{topics.servers}", subscribe: {topics.source}, startingOffsets: earliest}}
boxes:
  read: {{op: map, from: I, select: {{read: "from_json(CAST(value AS STRING), 'row BIGINT, value DOUBLE')"}}}}
  flat: {{op: map, from: read, select: {{row: read.row, value: read.value, key: "CAST(key AS STRING)"}}}}
  high: {{op: filter, from: flat, where: "value > 0.5"}}
outputs:
  O:
    from: high
    to: {{format: kafka, options: {{kafka.bootstrap.servers: "{topics.servers}", topic: {topics.sink}}}}}
""")
    network = NetworkRun(spark, load(tmp_path / "net.yaml", complete=False, runnable=True), tmp_path / "run")
    network.start(once=True)
    found = [json.loads(payload or b"") for _, _, payload in topics.content(topics.sink)]
    assert sorted(row["row"] for row in found) == list(range(51, 100))
    assert {row["penstock_weight"] for row in found} == {1.0}


def test_a_topic_gets_each_row_once_whatever_dies(spark: SparkSession, kafka: Any, tmp_path: Path) -> None:
    name = f"shed-{uuid.uuid4().hex[:8]}"
    of = quarantined.guard(tmp_path, quarantine=f"kafka:{name}@{kafka.address}")
    quarantined.put_plan(of)
    quarantined.run(spark, of, tmp_path, 2 * quarantined.BATCH)
    staged, mark = of.folder / "quarantine", of.folder / "quarantine" / "_forward"
    files = [*staged.glob("*.parquet"), *kept_in(staged).glob("*.parquet")]  # some may have left the folder already
    once = pq.ParquetDataset(files).read().to_pandas()
    assert sorted(row["row"] for row in quarantined.in_topic(spark, kafka, name)) == sorted(once["row"])

    quarantined.brought_again(spark, staged, f"kafka:{name}@{kafka.address}")
    found = quarantined.in_topic(spark, kafka, name)
    assert sorted(row["row"] for row in found) == sorted(once["row"])
    reasons = {row["row"]: (row["penstock_reason"], row["penstock_plan"], row["penstock_batch"]) for row in found}
    assert reasons == {
        row.row: (row.penstock_reason, row.penstock_plan, row.penstock_batch) for row in once.itertuples()
    }

    sink = topic.Topic(Place.of(f"kafka:{name}@{kafka.address}"), mark)
    quarantined.disturb(sink, kafka, name, spark.range(3).selectExpr("-10 - id AS row"))
    added = sorted(row["row"] for row in quarantined.in_topic(spark, kafka, name) if row["row"] < 0)
    assert added == [-12, -11, -10]


def test_a_broker_that_is_killed_and_comes_back_costs_no_row(
    spark: SparkSession, kafka: Any, topics: Topics, guard: ps.Guard, tmp_path: Path
) -> None:
    start_s = time.time() + 1.0
    rows = [{"row": number, "key": number % 100, "cost_ms": 10.0, "value": 0.5} for number in range(ROWS)]
    records = [(str(row["key"]), json.dumps(row), start_s + row["row"] / 300.0) for row in rows]
    producer = threading.Thread(target=producing.send, args=(topics.servers, topics.source, records))
    query = run(stream(spark, topics), guard, topics, tmp_path)
    producer.start()
    try:
        wait_until(lambda: len(guard.history()) > 0)
        before = len(guard.history())
        kafka.stop()
        try:
            time.sleep(5.0)  # so long it is away
        finally:
            kafka.start()
    finally:
        producer.join()

    assert query.isActive
    finish(query, guard)

    assert len(guard.history()) > before
    assert guard.totals.rows_shed
    written = assert_account_is_exact(query, guard, topics)
    sent = {json.loads(payload or b"")["row"] for _, _, payload in topics.content(topics.source)}
    assert sent == set(range(ROWS))
    assert {row["row"] for row in written} >= {row["row"] for row in rows if row["key"] % 20 == 7}


def test_one_partition_has_nearly_all_rows_and_the_report_says_what_waits_in_it(
    spark: SparkSession, topics: Topics, guard: ps.Guard, tmp_path: Path
) -> None:
    rows = [{"row": number, "key": number % 100, "cost_ms": 1.0, "value": 0.5} for number in range(3000)]
    topics.send(Record(row, str(row["key"]), partition=int(row["row"] % 10 == 0)) for row in rows)

    query = run(stream(spark, topics, maxOffsetsPerTrigger=1000), guard, topics, tmp_path)
    finish(query, guard)

    written = assert_account_is_exact(query, guard, topics)
    assert must_be_kept(written) == must_be_kept(rows)
    assert [report.rows_in for report in guard.history()] == [1000] * 3
    assert [report.source_rows_behind for report in guard.history()] == [2000, 1000, 0]


TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1000
BAD = {
    "no payload": Record(None, "a"),
    "neither key nor payload": Record(None),
    "an empty payload": Record(b"", "a"),
    "bytes that are no text": Record(b"\xff\xfe\x00\x80", "a"),
    "half a record": Record(b'{"row": 3, "key"', "a"),
    "an array": Record([1, 2, 3], "a"),
    "fields of other types": Record({"row": "x", "key": [7], "cost_ms": "much"}, b"\xff"),
    "no known field": Record({"something": "else"}, None),
}


@pytest.mark.parametrize("times_ms", [(0,), (0, 1, int(time.time() * 1000) + TEN_YEARS_MS)], ids=["now", "any time"])
def test_records_that_cannot_be_read_pass_as_nulls_and_harm_no_other(
    times_ms: tuple[int, ...], spark: SparkSession, topics: Topics, guard: ps.Guard, tmp_path: Path
) -> None:
    bad = [record._replace(timestamp_ms=time_ms) for record in BAD.values() for time_ms in times_ms]
    good = [{"row": number, "key": 7 + 20 * (number % 5), "cost_ms": 0.1, "value": 0.5} for number in range(500)]
    keys = ("a", None)
    topics.send(
        one
        for row in good
        for one in (
            bad[row["row"] % len(bad)],
            Record(row, keys[row["row"] % 2], -1, times_ms[row["row"] % len(times_ms)]),
        )
    )

    query = run(stream(spark, topics, maxOffsetsPerTrigger=400), guard, topics, tmp_path)
    finish(query, guard)

    written = assert_account_is_exact(query, guard, topics)
    assert must_be_kept(written) == [row["row"] for row in good]
    assert sum(report.rows_must_keep for report in guard.history()) == len(good)
    assert len(guard.history()) > 1
    # Who says to have come in 1970 or in ten years is counted, and does not spoil what is measured on the others.
    strange = sum(report.rows_untimed for report in guard.history())
    assert strange >= len(good) - len(good[:: len(times_ms)])
    assert all(report.queuing.mean_s < DEADLINE_S for report in guard.history())
    told = [alarm for alarm in guard.alarms if alarm.startswith("arrival is ahead of the workers' clock in")]
    assert bool(strange) == bool(told) == (len(times_ms) > 1)


DAY_S, BACKLOG, AIM_S = 86_400.0, 50_000, 4.0


def test_a_days_backlog_that_is_thinned_does_not_blow_up_the_first_batch(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    guard = pipeline.make_guard(tmp_path / "checkpoint", f"{AIM_S} s", backlog="thin")
    now_s = time.time()
    ages_s = [DAY_S * (1.0 - number / BACKLOG) for number in range(BACKLOG)]
    # Eight minutes of work for one core; one row in a thousand must be kept.
    rows = [{"row": n, "key": 7 if n % 1000 == 0 else 1, "cost_ms": 10.0, "value": 0.5} for n in range(BACKLOG)]
    topics.send(Record(row, timestamp_ms=int(1000 * (now_s - age_s))) for row, age_s in zip(rows, ages_s, strict=True))

    query = run(stream(spark, topics), guard, topics, tmp_path)
    wait_until(lambda: len(guard.history()) > 0)
    fresh = [{"row": BACKLOG + n, "key": 1, "cost_ms": 0.1, "value": 0.5} for n in range(300)]
    topics.send(Record(row) for row in fresh)
    finish(query, guard)

    written = assert_account_is_exact(query, guard, topics)
    first = guard.history()[0]
    assert first.rows_in == BACKLOG
    assert dict(first.rows_shed) == {TOO_OLD: BACKLOG - first.rows_kept}
    # What arrives in the grace and a logarithm of the rest, and what must be kept: a second of work, not minutes.
    assert first.rows_kept < 2 * (BACKLOG / DAY_S * (GRACE_S + AIM_S * math.log(DAY_S / GRACE_S))) + BACKLOG / 1000
    assert must_be_kept(written) == must_be_kept(rows)
    past = [row for row in written if row["row"] < BACKLOG]
    # A row stands for as many as its age says, all ages at one moment. The few oldest bear most of the sum's error.
    bound_s = [AIM_S * row["weight"] - ages_s[row["row"]] for row in past if row["weight"] > 2.0]
    assert len(bound_s) >= 3
    assert max(bound_s) - min(bound_s) < 0.1
    assert 0.0 <= bound_s[0] < 600.0
    # Then the stream goes on as if nothing had been.
    assert {row["row"] for row in fresh} <= {row["row"] for row in written}


RATE, LIMIT = 200.0, 80.0


def in_real_time(rows: DataFrame, guard: ps.Guard, topics: Topics, checkpoint: Path) -> StreamingQuery:
    query = (
        rows.transform(guard.admit)
        .selectExpr("to_json(struct(*)) AS value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", topics.servers)
        .option("topic", topics.sink)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .trigger(realTime="5 seconds")
        .start()
    )
    guard.watch(query)
    return query


def test_in_real_time_mode_a_rate_is_held_and_a_latency_is_not_pretended_to_be(
    spark: SparkSession, kafka: Any, tmp_path: Path
) -> None:
    given, also = Topics(kafka, partitions=1), Topics(kafka, partitions=1)
    by_rate = ps.Guard(ps.Throughput(LIMIT), ps.RandomShed(), name="rate", checkpoint=tmp_path / "rate")
    by_wait = ps.Guard(ps.MeanQueueLatency("2 s"), key="key", name="wait", checkpoint=tmp_path / "wait")
    over, sent = threading.Event(), 0

    def records() -> Iterator[tuple[str, str, float]]:
        nonlocal sent
        start_s = time.time()
        while not over.is_set():
            yield str(sent % 50), json.dumps({"row": sent, "key": sent % 50}), start_s + sent / RATE
            sent += 1

    producer = threading.Thread(target=producing.send, args=(given.servers, given.source, records()))
    producer.start()
    queries = [
        in_real_time(stream(spark, given), by_rate, given, tmp_path / "rate"),
        in_real_time(stream(spark, given), by_wait, also, tmp_path / "wait"),
    ]
    try:
        wait_until(lambda: by_rate.totals.rows_shed and len(by_wait.history()) > 1)
        over.set()
        producer.join()
        wait_until(lambda: by_rate.totals.rows_in == by_wait.totals.rows_in == sent)
    finally:
        over.set()
        for query, guard in zip(queries, (by_rate, by_wait), strict=True):
            query.stop()
            guard.stop()

    assert [query.exception() for query in queries] == [None, None]
    judged = [report for report in by_rate.history() if report.shed_total]
    # The last one may have ended long after the last row.
    assert statistics.median(report.rows_kept / report.duration_s for report in judged) < 1.3 * LIMIT
    assert len(given.written()) == by_rate.totals.rows_kept < sent
    assert sum(row["weight"] for row in given.written()) == pytest.approx(sent, rel=0.25)
    assert by_rate.alarms == ()
    assert by_wait.totals.rows_kept == sent
    assert sorted(row["row"] for row in also.written()) == list(range(sent))
    assert by_wait.alarms == (REAL_TIME,)


def wait_until(condition: Any) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.05)


def fake_maven(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven that does what the script says with OUT, the folder it is to fill; returns the cache."""
    program = folder / "mvn"
    lines = ["#!/bin/sh", "for word; do case $word in -DoutputDirectory=*) OUT=${word#*=};; esac; done", script]
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return folder / "cache" / "penstock" / "maven"


def test_jars_come_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fake_maven(tmp_path, "mkdir -p $OUT; touch $OUT/half.jar; echo no network; exit 1", monkeypatch)
    with pytest.raises(brokers.UnavailableError, match=r"^Maven cannot bring kafka_2.13-[\d.]+: no network$"):
        brokers.broker_jars()
    assert list(cache.iterdir()) == []


def test_an_older_connector_is_taken_only_if_that_of_spark_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = brokers.OLDER_CONNECTORS[0][0]
    script = f'case "$*" in *-Dconnector={older}*) mkdir -p $OUT; touch $OUT/spark-sql-kafka.jar;; *) exit 1;; esac'
    fake_maven(tmp_path, script, monkeypatch)
    assert [jar.name for jar in brokers.connector_jars()] == ["spark-sql-kafka.jar"]
    (tmp_path / "mvn").unlink()
    assert [jar.name for jar in brokers.connector_jars()] == ["spark-sql-kafka.jar"]


def test_who_comes_second_takes_what_the_first_has_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (
        "mkdir -p $OUT; touch $OUT/mine.jar; mkdir -p $OUT/../../kafka_2.13-*; touch $OUT/../../kafka_2.13-*/first.jar"
    )
    cache = fake_maven(tmp_path, first.replace("kafka_2.13-*", f"kafka_2.13-{brokers.KAFKA}"), monkeypatch)
    assert [jar.name for jar in brokers.broker_jars().iterdir()] == ["first.jar"]
    assert len(list(cache.iterdir())) == 1


def test_without_maven_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(brokers.UnavailableError, match=r"Maven is not installed to bring it$"):
        brokers.broker_jars()


@pytest.mark.usefixtures("kafka")
def test_a_broker_ends_with_the_process_that_started_it_however_that_ends(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "kafka" / "broker.py"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline().rpartition(":")[2])
        owner.kill()

    def gone() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) != 0

    wait_until(gone)


def kafka_progress(source: dict[str, Any]) -> Progress:
    return Progress.of({"batchId": 3, "timestamp": "2026-11-15T18:26:39.228Z", "sources": [source]})


END, LATEST = {"in": {"0": 10, "1": 20}}, {"in": {"0": 15, "1": 27}}


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_what_is_behind_is_the_difference_of_offsets_however_they_are_written(form: Any) -> None:
    found = kafka_progress({"endOffset": form(END), "latestOffset": form(LATEST)})
    assert (found.behind, found.real_time) == (12, False)


def test_a_batch_that_read_beyond_its_plan_ran_in_real_time_and_its_metrics_say_what_is_behind() -> None:
    found = kafka_progress({"endOffset": LATEST, "latestOffset": END, "metrics": {"avgOffsetsBehindLatest": "6.5"}})
    assert (found.behind, found.real_time) == (13, True)


@pytest.mark.parametrize("offset", [None, "", "12", 12, {"rows": 12}, "{}", [], "not JSON"])
def test_other_sources_say_nothing_of_what_is_behind(offset: Any) -> None:
    found = kafka_progress({"endOffset": offset, "latestOffset": offset})
    assert (found.behind, found.real_time) == (None, False)
