"""Produces the demo's stream into a topic: calm at first, then twice what two cores can do.

python produce.py SERVERS TOPIC SECONDS
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.demo.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Records sent and not yet confirmed, at most: more could not be told from records that were lost.
UNCONFIRMED = 100_000


def make_topics(servers: str, names: list[str], partitions: int = 2, **config: str) -> None:
    """Make topics and wait until they are there."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})  # warnings and worse
    for made in admin.create_topics([NewTopic(name, partitions, config=config) for name in names]).values():
        made.result()


def produce(servers: str, topic: str, seconds: float) -> int:
    """Produce for so long; the same rows at the same times whenever it runs, and each row's cost is in its payload."""
    workload = Workload(seconds, target_s=2.0, seed=0)
    calm, overload = workload.profile.rows_per_s
    count = round(calm * workload.calm_s + overload * (seconds - workload.calm_s))
    rows = workload.rows(count).select(["row", "key", "cost_ms", "value"]).to_pylist()
    due_s = workload.profile.arrival_s(np.arange(count)) + time.time()
    return send(
        servers, topic, ((str(row["key"]), json.dumps(row), at_s) for row, at_s in zip(rows, due_s, strict=True))
    )


def send(servers: str, topic: str, records: Iterable[tuple[str, str, float]]) -> int:
    """Produce records of key, payload and due time when they are due; return how many the broker has confirmed."""
    confirmed = 0

    def count(error: object, _: object) -> None:
        nonlocal confirmed
        confirmed += error is None

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": UNCONFIRMED})
    for key, payload, at_s in records:
        while (early_s := at_s - time.time()) > 0.0:
            producer.poll(early_s)
        producer.produce(topic, payload, key, on_delivery=count)
    producer.flush()
    return confirmed


if __name__ == "__main__":
    if len(sys.argv) != 4:  # noqa: PLR2004 - the program and what it takes
        sys.exit(__doc__)
    servers, topic, seconds = sys.argv[1:]
    print(produce(servers, topic, float(seconds)))
