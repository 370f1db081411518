"""The benchmark of a checkpoint in a bucket: it counts what a server counts, and its claims can fail."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING
from unittest import mock

import pytest

pytest.importorskip("pyspark")

from tests.object_server import BUCKET

from penstock.bench import store
from penstock.bench.growth import QUERY, Guarded, Task
from penstock.spark.plans import binding
from penstock.store.objects import ObjectStore
from penstock.store.place import Place

if TYPE_CHECKING:
    from tests.object_server import ObjectServer

BATCHES = 60


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep less, so that old entries are deleted in few batches."""
    for name, value in {"BATCHES": 20, "LEAST_BATCHES": 10, "NEWEST_PLANS": 1}.items():
        monkeypatch.setattr(f"penstock.store.retention.{name}", value)
    monkeypatch.setattr("penstock.core.loop.machine.PURGE_EVERY", 10)
    for name in ("_newest", "_plans", "_offsets"):
        monkeypatch.setattr(binding, name, {})
    monkeypatch.setattr(binding, "_owned", set())


@pytest.mark.usefixtures("few")
def test_it_counts_what_a_server_counts(bucket: ObjectServer) -> None:
    place = Place(f"s3a://{BUCKET}/counted")
    checkpoint = ObjectStore(place.address)
    clock = store.Clock()
    with mock.patch.object(binding, "TaskContext", Task), mock.patch.object(time, "time", clock):
        guarded = Guarded(place, clock)
        for number in range(BATCHES):
            checkpoint.replace("metadata", b'{"id": "%s"}' % QUERY.encode())
            checkpoint.replace(f"offsets/{number}", store.offsets(number, clock()))
            if number == BATCHES // 2:
                before = bucket.requests.copy()
            version = guarded.gate(number)
            clock.forward(store.LENGTH_S)
            guarded.ran(number, version)
            guarded.controller.step()
            clock.forward(store.GAP_S)
    asked = bucket.requests - before
    asked["PUT"] -= 2 * (BATCHES // 2) - 2  # Spark's files, of which those of the first batch came before
    counted = Counter(store.counted(BATCHES // 2, BATCHES // 2))
    assert counted["DELETE"] > 0
    found = {"GET": counted["GET"] + counted["LIST"], "POST": counted["DELETE"], "PUT": counted["PUT"]}
    assert asked == found | ({"HEAD": counted["HEAD"]} if counted["HEAD"] else {})


def test_its_claims_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "TIMED_BATCHES", 3)
    found = store.bench_store(10, lambda: None, warm_ups=10)
    assert [claim["holds"] for claim in found["claims"]] == [True, True]
    assert found["requests_per_batch"]["all"] == pytest.approx(5.0, abs=0.5)
    assert found["us_dollars_a_month"] == pytest.approx(44.0, abs=5.0)
    monkeypatch.setattr(store, "DELAY_MS", 100.0)
    monkeypatch.setattr(store, "MOST_REQUESTS", 4.0)
    found = store.bench_store(10, lambda: None, warm_ups=10)
    assert [claim["holds"] for claim in found["claims"]] == [False, False]
