"""What a batch covers, by files as Spark writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from penstock.spark.checkpoint import Planned, planned

if TYPE_CHECKING:
    from pathlib import Path


def write(checkpoint: Path, batch: int, planned_ms: int, *sources: object) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": planned_ms, "conf": {}})]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join([*lines, *map(json.dumps, sources)]))


def test_rows_and_times_follow_from_two_entries(tmp_path: Path) -> None:
    write(tmp_path, 0, 1_000, {"events": {"0": 100, "1": 50}})
    write(tmp_path, 1, 4_500, {"events": {"0": 160, "1": 50}})
    assert planned(tmp_path, 1) == Planned(60, 4.5, 1.0)


def test_the_first_batch_begins_where_the_source_began(tmp_path: Path) -> None:
    write(tmp_path, 0, 1_000, {"events": {"0": 100}})
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text('\0v1\n{"events":{"0":40}}')
    assert planned(tmp_path, 0) == Planned(60, 1.0, None)


def test_the_embedded_source_begins_at_no_rows(tmp_path: Path) -> None:
    write(tmp_path, 0, 1_000, {"rows": 70, "start_us": 5})
    assert planned(tmp_path, 0) == Planned(70, 1.0, None)


@pytest.mark.parametrize("sources", [({"logOffset": 3},), (), ({"rows": 9, "start_us": 1}, {"rows": 8, "start_us": 1})])
def test_of_a_source_that_does_not_say_and_of_several_only_times_are_known(
    tmp_path: Path, sources: tuple[object, ...]
) -> None:
    write(tmp_path, 3, 1_000, *sources)
    write(tmp_path, 4, 2_000, *sources)
    assert planned(tmp_path, 4) == Planned(None, 2.0, 1.0)


def test_a_source_that_is_listed_twice_is_one(tmp_path: Path) -> None:
    write(tmp_path, 0, 1_000, *[{"rows": 70, "start_us": 5}] * 2)
    write(tmp_path, 1, 2_000, *[{"rows": 90, "start_us": 5}] * 2)
    assert planned(tmp_path, 1) == Planned(20, 2.0, 1.0)


def test_what_is_missing_or_torn_says_nothing(tmp_path: Path) -> None:
    assert planned(tmp_path, 0) is None
    (tmp_path / "offsets").mkdir()
    for text in ("", "v1", "v1\n{}", 'v1\n{"batchTimestampMs":1}\n{'):
        (tmp_path / "offsets" / "0").write_text(text)
        assert planned(tmp_path, 0) is None
    write(tmp_path, 7, 2_000, {"rows": 9, "start_us": 1})
    assert planned(tmp_path, 7) == Planned(None, 2.0, None), "the entry before it is gone"
