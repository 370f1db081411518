"""Rows of a stream into a Kafka topic, each once: the rows of a batch and its number are one transaction.

Spark's Kafka sink writes a batch again if the driver dies before Spark commits it. Here the number of the batch is sent
in the same transaction as its rows, as the committed offset of an unused consumer group. A repeated batch finds its
number there and sends nothing. A disconnected driver is fenced as soon as another one starts.

The price: one producer, in the driver, sends all rows. Readers must read only committed rows
(`isolation.level=read_committed`).
"""

import importlib
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.types import BinaryType, StringType

from penstock.errors import PenstockError
from penstock.federation.kafka_bus import SILENT, kafka_client, line_of
from penstock.spark.quarantine.rows import Place
from penstock.store.folder import FolderStore

#: The longest waits for the broker: before a query starts, and in a batch.
REACH_S, WAIT_S = 5.0, 60.0
#: Time between two requests to a broker that is not ready.
RETRY_S = 0.2
#: The maximum time of a batch from its first row to its last: a broker's default limit.
TRANSACTION_S = 900.0
#: The file in a query's checkpoint that holds its name with Kafka: both are lost together.
IDENTITY = "penstock_kafka_id"


class Topic:
    """A sink for `foreachBatch`."""

    def __init__(self, place: Place, checkpoint: Path) -> None:
        FolderStore(checkpoint).create(IDENTITY, uuid.uuid4().hex.encode())
        self.name = f"penstock-{(checkpoint / IDENTITY).read_text(encoding='utf-8')}"
        self._topic = place.name
        self._common: dict[str, Any] = {**SILENT, "bootstrap.servers": place.servers}

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Write a batch, unless it is written."""
        kafka = kafka_client()
        limit = {"transaction.timeout.ms": int(TRANSACTION_S * 1e3)}
        try:
            producer = kafka.Producer({**self._common, **limit, "transactional.id": self.name, "linger.ms": 20})
            reading = {"group.id": self.name, "enable.auto.commit": False, "isolation.level": "read_committed"}
            consumer = kafka.Consumer({**self._common, **reading})
            try:
                # Fences an earlier producer of that name, and aborts its transaction.
                producer.init_transactions(WAIT_S)
                mark = kafka.TopicPartition(self._topic, 0)
                if _written(consumer, mark) > batch:
                    return
                mark.offset = batch + 1
                self._write(producer, df, mark, consumer.consumer_group_metadata())
            finally:
                consumer.close()
        except kafka.KafkaException as error:
            raise PenstockError(f"Kafka rejects rows for topic {self._topic}: {line_of(error)}") from None

    def _write(self, producer: Any, df: DataFrame, mark: Any, group: Any) -> None:  # noqa: ANN401 - Kafka has no types
        producer.begin_transaction()
        try:
            for row in records(df).toLocalIterator(prefetchPartitions=True):
                self._send(producer, row)
            producer.send_offsets_to_transaction([mark], group, WAIT_S)
            producer.commit_transaction(TRANSACTION_S)
        except BaseException:
            # Abort now, so that readers need not wait for Kafka's timeout.
            with suppress(kafka_client().KafkaException):
                producer.abort_transaction(REACH_S)
            raise

    def _send(self, producer: Any, row: Row) -> None:  # noqa: ANN401 - Kafka has no types
        content = {name: bytes(part) if isinstance(part, bytearray) else part for name, part in row.asDict().items()}
        while True:
            try:
                producer.produce(self._topic, **content)
            except BufferError:  # its queue is full
                producer.poll(1.0)
            else:
                producer.poll(0.0)
                return


def _written(consumer: Any, mark: Any) -> int:  # noqa: ANN401 - Kafka has no types
    """How many batches are written, as the broker reports; a starting broker cannot answer at first."""
    kafka, deadline_s = kafka_client(), time.monotonic() + WAIT_S
    while True:
        try:
            found = consumer.committed([mark], timeout=WAIT_S)[0]
            error = found.error
        except kafka.KafkaException as told:
            error = told.args[0]
        if error is None:
            return max(int(found.offset), 0)  # below 0 if none is known
        if time.monotonic() > deadline_s:
            raise kafka.KafkaException(error)
        time.sleep(RETRY_S)


def records(df: DataFrame) -> DataFrame:
    """Rows as Kafka takes them: a `value` of text or bytes, with `key` if there is one; else all columns as JSON."""
    own = {field.name: field.dataType for field in df.schema.fields if field.name in ("key", "value")}
    if "value" in own and all(isinstance(kind, StringType | BinaryType) for kind in own.values()):
        return df.select(*own)
    return as_json(df)


def as_json(df: DataFrame) -> DataFrame:
    """A row's columns in one text; bytes among them in Base64."""
    return df.select(F.to_json(F.struct("*")).alias("value"))


def refuse_unreachable(place: Place, setting: str) -> None:
    """Create a missing topic; raises one line if that fails, or if no broker answers."""
    kafka = kafka_client()
    admin: Any = importlib.import_module("confluent_kafka.admin")
    try:
        asked = admin.AdminClient({**SILENT, "bootstrap.servers": place.servers})
        if place.name in asked.list_topics(timeout=REACH_S).topics:
            return
        with suppress(ValueError):  # the client refuses names that a broker would
            asked.create_topics([admin.NewTopic(place.name)])[place.name].result(WAIT_S)
            return
        told = "it is no name of a topic"
    except kafka.KafkaException as error:
        if error.args[0].code() == kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            return
        told = f"Kafka says: {line_of(error)}"
    given = f"kafka:{place.name}@{place.servers}"
    raise PenstockError.setting(setting, given, "a topic that is there or can be made", told) from None
