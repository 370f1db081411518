"""Two sites with a real Kafka between them: rows come through once, news are heard, and the broker may go away."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from penstock.config.site_file import load
from penstock.errors import PenstockError
from penstock.federation import kafka_bus
from penstock.federation.account import add_up
from penstock.federation.bus import BusError
from penstock.federation.exchange import Exchange
from penstock.federation.kafka_bus import KafkaBus
from penstock.spark.site.run import SiteRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

DEADLINE_S = 300.0
SITE = """\
site: {site}
sites: [west, north]
transport: {{kafka: "{servers}", prefix: {prefix}, client: {{socket.timeout.ms: 5000}}}}
folder: {site}
interval: 500 ms
window: 4 s
capacity: 100
queries:
  avg: {{sources: 2}}
fragments:
{fragments}
"""
WEST = """\
  part:
    query: avg
    inputs: {cpu: {format: rate, options: {rowsPerSecond: 200, numPartitions: 1}}}
    sql: SELECT value % 4 AS host, sum(penstock_weight) AS n FROM cpu GROUP BY 1
"""
NORTH = """\
  root:
    query: avg
    inputs:
      cpu: {format: rate, options: {rowsPerSecond: 200, numPartitions: 1}}
      part: {from: part, site: west, schema: 'host bigint, n double'}
    sql: SELECT sum(n) AS n FROM (SELECT penstock_weight AS n FROM cpu UNION ALL SELECT n FROM part)
    to: {format: memory}
"""


def wait_until(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def files(kafka: Any, tmp_path: Path) -> dict[str, Path]:
    prefix = f"sites-{uuid.uuid4().hex[:8]}"
    found = {}
    for site, fragments in (("west", WEST), ("north", NORTH)):
        found[site] = tmp_path / f"{site}.yaml"
        found[site].write_text(SITE.format(site=site, servers=kafka.address, prefix=prefix, fragments=fragments))
    return found


def test_two_sites_over_kafka_hear_each_other_and_lose_nothing(spark: SparkSession, files: dict[str, Path]) -> None:
    west, north = (SiteRun(spark, file := load(path), file.folder) for path in files.values())
    runs = (west, north)
    try:
        for run in runs:
            run.start()

        def is_done() -> bool:
            for run in runs:
                run.refuse_failure()
            linked = north.accounts and north.accounts[-1].total.links["root.part"].rows_in
            return bool(linked and len(west.accounts) > 1 and north.exchange.updates.known()["avg"].part)

        wait_until(is_done)
        wait_until(lambda: "avg" in west.exchange.updates.measured())
    finally:
        for run in runs:
            run.stop()

    assert west.exchange.counts["batches sent"] > 0
    assert not any("refused" in name for name in north.exchange.counts + west.exchange.counts)
    account = add_up([load(path).folder for path in files.values()])
    assert account.faults == []
    assert account.links["west.part -> north.root.part"].read > 0
    assert 0.0 < north.accounts[-1].queries[0].level < 1.0


def test_rows_wait_while_the_broker_is_away_and_then_come_once(
    kafka: Any, files: dict[str, Path], tmp_path: Path
) -> None:
    made = {name: load(path) for name, path in files.items()}

    def exchange(name: str, folder: str) -> Exchange:
        one = made[name].transport
        bus = KafkaBus(str(one.kafka), one.prefix, one.client)
        return Exchange(made[name], bus, tmp_path / folder, {"avg": 0.5})

    west, north = exchange("west", "w"), exchange("north", "n")
    inbox = tmp_path / "n" / "inbox" / "west" / "part"
    rows = [json.dumps({"host": n, "n": 1.0}) for n in range(10)]
    try:
        west.start()
        north.start()
        west.outboxes["part"].put(0, rows, 0.1)
        wait_until(lambda: len(list(inbox.glob("*.json"))) == 1)
        kafka.stop()
        try:
            west.outboxes["part"].put(1, rows, 0.1)
            west.outboxes["part"].put(2, rows, 0.1)
            wait_until(lambda: west.counts["transport errors"])
            assert len(west.outboxes["part"].waiting()) == 2
        finally:
            kafka.start()
        wait_until(lambda: len(list(inbox.glob("*.json"))) == 3)
    finally:
        west.stop()
        north.stop()
    lines = [line for path in inbox.glob("*.json") for line in path.read_text().splitlines()]
    assert len(lines) == 30
    assert not any("refused" in name for name in north.counts)


def test_options_that_the_client_does_not_know_are_told_in_one_line() -> None:
    with pytest.raises(PenstockError, match=r"^transport.client cannot be used: .*no.such.option.*librdkafka$"):
        KafkaBus("127.0.0.1:1", "p", {"no.such.option": "1"})


def test_a_broker_that_is_not_there_is_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_bus, "_ADMIN_S", 0.2)
    bus = KafkaBus("127.0.0.1:1", "p", {})
    with pytest.raises(BusError, match=r"^Kafka: "):
        bus.listen({"rows.west.part": 0})
    bus.close()
