"""A transport over Kafka: a channel is a topic with one partition, so messages stay in order.

All client options pass through, including those for security. The client is confluent-kafka: `pip install
'penstock[kafka]'`.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.extras import missing
from penstock.federation.bus import MOST_BYTES, BusError, Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping

#: After this time a message counts as not sent.
SEND_S = 5.0
_ADMIN_S = 5.0
_AT_ONCE = 200
#: The client would log each attempt to reach an unavailable broker.
SILENT = {"log_level": 0}


def kafka_client() -> Any:  # noqa: ANN401 - a module
    """Kafka's client, which only those need that reach a broker."""
    try:
        import confluent_kafka  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise missing(error) from None
    return confluent_kafka


class KafkaBus:
    """Channels on a broker."""

    def __init__(self, servers: str, prefix: str, client: Mapping[str, str]) -> None:
        self._kafka = kafka_client()
        self._admin: Any = importlib.import_module("confluent_kafka.admin")
        self._prefix = prefix
        self._common: dict[str, Any] = {**SILENT, **client, "bootstrap.servers": servers}
        sending = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": int(SEND_S * 1e3), "linger.ms": 5}
        reading = {"group.id": f"{prefix}-unused", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        try:
            self._producer = self._kafka.Producer({**self._common, **sending})
            self._consumer = self._kafka.Consumer({**self._common, **reading})
        except (self._kafka.KafkaException, ValueError, TypeError) as error:
            raise PenstockError(
                f"transport.client cannot be used: {line_of(error)}; give options of librdkafka"
            ) from None
        self._made: set[str] = set()

    def reach(self) -> None:
        """An error in one line if no broker answers."""
        try:
            self._admin.AdminClient(self._common).list_topics(timeout=_ADMIN_S)
        except self._kafka.KafkaException as error:
            servers = self._common["bootstrap.servers"]
            raise PenstockError.setting("kafka", servers, "a broker that answers", line_of(error)) from None

    def listen(self, positions: Mapping[str, int | None]) -> None:
        """Read these channels from now on."""
        self._make([self._topic(channel) for channel in positions])
        end = self._kafka.OFFSET_END
        places = [
            self._kafka.TopicPartition(self._topic(channel), 0, end if position is None else position)
            for channel, position in positions.items()
        ]
        try:
            self._consumer.assign(places)
        except self._kafka.KafkaException as error:
            raise BusError(f"Kafka: {line_of(error)}") from None

    def poll(self, wait_s: float) -> list[Delivery]:
        """New messages; waits briefly if there are none."""
        try:
            first = self._consumer.poll(wait_s)
            records = [] if first is None else [first, *self._consumer.consume(_AT_ONCE, timeout=0.0)]
        except self._kafka.KafkaException as error:
            raise BusError(f"Kafka: {line_of(error)}") from None
        self._producer.poll(0.0)
        found = []
        for record in records:
            if record.error() is not None:
                continue  # the client reconnects to the broker
            payload = record.value() or b""
            channel = record.topic().removeprefix(f"{self._prefix}.")
            found.append(Delivery(channel, record.offset() + 1, payload if len(payload) <= MOST_BYTES else None))
        return found

    def send(self, channel: str, payload: bytes) -> None:
        """Send a message: it is durable on return."""
        outcome: list[object] = []
        self._make([self._topic(channel)])
        self._produce(channel, payload, lambda error, _: outcome.append(error))
        self._producer.flush(2.0 * SEND_S)
        if outcome != [None]:
            raise BusError(f"Kafka: {outcome[0]!s}" if outcome else "Kafka does not answer")

    def tell(self, channel: str, payload: bytes) -> None:
        """Send a message that may be lost."""
        self._make([self._topic(channel)])
        self._produce(channel, payload, None)

    def close(self) -> None:
        """Flush and disconnect."""
        self._producer.flush(2.0)
        self._consumer.close()

    def _produce(self, channel: str, payload: bytes, answered: object) -> None:
        try:
            self._producer.produce(self._topic(channel), payload, partition=0, on_delivery=answered)
        except (BufferError, self._kafka.KafkaException) as error:
            raise BusError(f"Kafka: {line_of(error)}") from None

    def _topic(self, channel: str) -> str:
        return f"{self._prefix}.{channel}"

    def _make(self, topics: list[str]) -> None:
        """Create topics with one partition, once; a client without that right uses existing topics."""
        wanted = [name for name in topics if name not in self._made]
        if not wanted:
            return
        admin = self._admin.AdminClient(self._common)
        code = self._kafka.KafkaError
        try:
            there = set(admin.list_topics(timeout=_ADMIN_S).topics)
            missing = [name for name in wanted if name not in there]
            made = admin.create_topics([self._admin.NewTopic(name, 1) for name in missing]) if missing else {}
        except self._kafka.KafkaException as error:
            raise BusError(f"Kafka: {line_of(error)}") from None
        for name, future in made.items():
            try:
                future.result(_ADMIN_S)
            except self._kafka.KafkaException as error:
                if error.args[0].code() != code.TOPIC_ALREADY_EXISTS:
                    raise BusError(f"Kafka cannot make topic {name}: {line_of(error)}") from None
        self._made.update(wanted)


def line_of(error: BaseException) -> str:
    """An error of the client, in one line and without its code."""
    told: Any = error.args[0] if error.args else error
    with suppress(AttributeError):
        told = told.str()
    return " ".join(str(told).split())[:300]
