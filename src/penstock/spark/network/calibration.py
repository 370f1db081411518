"""What SQL boxes cost and what a batch without rows takes: each box runs alone over a sample and is timed.

Python boxes measure themselves and are not run here, because their side effects must happen once per row. A box behind
one is timed if the rows of the Python box are kept for several consumers; otherwise it counts as free.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.network.batch import Batch, root_rows
from penstock.spark.network.boxes import together, worked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from penstock.core.network.model import Network
    from penstock.messages.plan import Plan
    from penstock.spark.network.stages import Stage

#: How much work a sample should be, roughly: less is lost in the noise of short jobs. The first try uses the length of
#: the batch, most of which may be overhead; if it was far too little, the next is this many times as large.
WORTH_S, FAR_TOO_LITTLE, TIMES_AS_LARGE = 1.0, 0.3, 8.0
#: How many times a box is run; the quickest counts.
TIMES = 2


@dataclass(frozen=True)
class Timed:
    """Costs by box, and whether there was enough work for them to be certain."""

    costs_s: dict[str, float]
    certain: bool


def overhead_s(
    network: Network, stage: Stage, empty: DataFrame, plan: Plan, schemas: Mapping[str, StructType]
) -> float:
    """The time of a batch without rows, without sinks."""
    least = float("inf")
    for _ in range(TIMES):
        begun_s = time.perf_counter()
        batch = Batch(network, stage, empty, plan, {}, schemas)
        try:
            for df in batch.ends.values():
                _run(df)
        finally:
            batch.close()
        least = min(least, time.perf_counter() - begun_s)
    return least


def costs_s(
    network: Network, stage: Stage, batch: Batch, schemas: Mapping[str, StructType], duration_s: float
) -> Timed:
    """Seconds of a task for each row, by SQL box, after a batch of this length; a box without rows is omitted."""
    share = min(WORTH_S / duration_s, 1.0)
    found, worked_s = _costs_s(network, stage, batch, schemas, share)
    while worked_s < FAR_TOO_LITTLE * WORTH_S and share < 1.0:
        share = min(TIMES_AS_LARGE * share, 1.0)
        found, worked_s = _costs_s(network, stage, batch, schemas, share)
    return Timed(found, certain=worked_s >= FAR_TOO_LITTLE * WORTH_S)


def _costs_s(
    network: Network, stage: Stage, batch: Batch, schemas: Mapping[str, StructType], share: float
) -> tuple[dict[str, float], float]:
    """Costs by box, and how long the work on a sample took in all."""
    sample = _sampled(batch.head, share).persist()
    took_s: dict[str, tuple[float, int]] = {}
    kept = [sample]
    boxes = {box.name: box for box in network.boxes}
    frames = {root: root_rows(sample, root, alone=len(stage.roots) == 1) for root in stage.roots}
    frames |= {name: _sampled(df, share) for name, df in batch.shared.items() if boxes[name].python}
    try:
        for name in stage.boxes:
            sources = [arc.source for arc in network.into[name]]
            if boxes[name].python or not any(source in frames for source in sources):
                continue
            empty = {one: sample.sparkSession.createDataFrame([], schemas[one]) for one in sources if one not in frames}
            given = together([(frames | empty)[source] for source in sources]).persist()
            kept.append(given)
            rows_in = given.count()
            frames[name] = worked(boxes[name], given)
            if rows_in:
                took_s[name] = _least_s(frames[name]), rows_in
        bare_s = _least_s(sample)  # The time of a job that only reads rows; measured last, when the JVM is warm.
    finally:
        for df in kept:
            df.unpersist()
    worked_s = {name: max(took - bare_s, 0.0) for name, (took, _) in took_s.items()}
    return {name: worked_s[name] / rows for name, (_, rows) in took_s.items()}, sum(worked_s.values())


def _sampled(df: DataFrame, share: float) -> DataFrame:
    """A part of the rows in one task, because costs are in seconds of a task."""
    return (df.sample(fraction=share, seed=1) if share < 1.0 else df).coalesce(1)


def _least_s(df: DataFrame) -> float:
    least = float("inf")
    for _ in range(TIMES):
        begun_s = time.perf_counter()
        _run(df)
        least = min(least, time.perf_counter() - begun_s)
    return least


def _run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()
