"""The feed of a query's progress, without Spark: what a query shows is a list."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.spark.network.run import Losses
from penstock.spark.progress import ProgressFeed


def batch(number: int, second: int, *, late: int = 0) -> dict[str, Any]:
    return {
        "batchId": number,
        "timestamp": f"2026-11-16T10:00:{second:02d}.000Z",
        "durationMs": {"addBatch": 90, "triggerExecution": 100},
        "numInputRows": 10,
        "stateOperators": [{"numRowsDroppedByWatermark": late}],
    }


def idle(number: int, second: int) -> dict[str, Any]:
    return {**batch(number, second), "durationMs": {"triggerExecution": 5}, "numInputRows": 0, "stateOperators": []}


class Query:
    name = "a query"

    def __init__(self, *shown: dict[str, Any]) -> None:
        self.recentProgress = list(shown)

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self.recentProgress[-1] if self.recentProgress else None


def test_a_trigger_without_data_hides_no_batch() -> None:
    query = Query()
    feed = ProgressFeed(query)  # type: ignore[arg-type]
    assert feed.news().newest is None
    found = []
    for one in (idle(4, 0), idle(4, 1), batch(4, 2), idle(5, 3), batch(5, 4), batch(6, 5)):
        query.recentProgress.append(one)
        news = feed.news()
        assert not news.forgotten
        found += [progress.batch for progress in news.batches]
        assert not feed.news().batches
    assert found == [4, 5, 6]


def test_forgotten_batches_are_named() -> None:
    query = Query(batch(0, 0))
    feed = ProgressFeed(query)  # type: ignore[arg-type]
    feed.news()
    query.recentProgress = [batch(3, 3), batch(4, 4)]
    news = feed.news()
    assert [progress.batch for progress in news.batches] == [3, 4]
    assert list(news.forgotten) == [1, 2]
    query.recentProgress = [idle(7, 9)]
    news = feed.news()
    assert list(news.forgotten) == [5, 6]
    assert news.batches == ()


def test_a_network_counts_late_rows_of_every_batch() -> None:
    query = Query(idle(0, 0))
    losses = Losses(SimpleNamespace(boxes=()), [query])  # type: ignore[arg-type, list-item]
    assert losses.alarms() == ()
    query.recentProgress += [batch(0, 1, late=3), batch(1, 2, late=4)]
    for _ in range(2):
        assert losses.alarms() == ("7 rows came too late for query a query and are lost",)
