"""Four queries with twice the work that there are slots for: their results rest on equal shares of their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
from penstock.bench.fair import Effort, run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

#: Work that waits keeps a slot and no core, so what fits does not depend on the machine.
EFFORT = Effort(work="waiting", target="3 s", settle_s=30.0, measure_s=5.0)


def test_fair_shares_are_even_after_half_a_minute(spark: SparkSession, tmp_path: Path) -> None:
    """How even those of the alternatives are, `penstock bench fair` tells."""
    fair = run(spark, "fair", EFFORT, tmp_path / "fair")
    assert fair["jain"] >= 0.97
    for name, result in fair["last_result"].items():
        assert result is not None, name
        assert 0.0 < result["quality"] <= 1.0
