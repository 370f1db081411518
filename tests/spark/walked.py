"""Runs a guarded query, a Fair, a network and a site, each for a few batches: `python walked.py FOLDER`.

`tests/quick_python/walk_recorder.py` notes in this process and in Spark's workers which files are entered meanwhile.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from rich.console import Console

import penstock as ps
from penstock import sic
from penstock.cli import run
from penstock.config import site_file
from penstock.spark.session import local_session
from penstock.spark.site.run import SiteRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

BATCHES, LONGEST_S, QUIET_S = 4, 240.0, 2.0
SOURCE = {"rate": 200, "rows_per_batch": 50, "partitions": 1}
RESULT = "row bigint, weight double"
NETWORK = """
inputs:
  I: {format: penstock, options: {rate: 200, rows_per_batch: 50, partitions: 1}}
boxes:
  high: {op: filter, from: I, where: "value > 0.3"}
outputs:
  O: {from: high, to: {format: memory}}
"""
SITE = """
site: west
sites: [west, north]
transport: {folder: bus}
folder: state
interval: 500 ms
window: 4 s
capacity: 100
queries:
  q: {sources: 1}
fragments:
  part:
    query: q
    inputs:
      cpu: {format: rate, options: {rowsPerSecond: 200, numPartitions: 1}}
    sql: SELECT value, penstock_weight FROM cpu
    to: {format: memory}
"""


def one(row: dict[str, Any]) -> dict[str, Any]:
    return {"row": row["row"], "weight": row["weight"]}


def waits(happened: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONGEST_S
    while not happened():
        if time.monotonic() > deadline_s:
            sys.exit("it did not happen")
        time.sleep(0.05)


def started(df: DataFrame, checkpoint: Path) -> StreamingQuery:
    return df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def ended(query: StreamingQuery, walk: Walks) -> None:
    """Stop the query, and wait until its tasks are over: what they do is not of the next walk.

    A worker goes on for a while after its task was killed, so it is over when nothing more is noted.
    """
    walk("over")
    query.stop()
    tasks = SparkContext.getOrCreate().statusTracker()
    waits(lambda: not tasks.getActiveStageIds())
    waits(walk.nothing_noted)
    walk("")


class Walks:
    """Names the walk that is under way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str) -> None:
        fresh = self._folder / "walk.fresh"
        fresh.write_text(name)
        fresh.replace(self._folder / "walk")

    def nothing_noted(self) -> bool:
        """Whether nothing is noted for a while."""
        before = self._noted()
        time.sleep(QUIET_S)
        return self._noted() == before

    def _noted(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("*.seen"))


def guarded(spark: SparkSession, folder: Path, walk: Walks) -> None:
    walk("")
    # A rate is held whatever the machine can do.
    guard = ps.Guard(ps.Throughput(10), key="key", row="row", checkpoint=folder / "guard")
    source = spark.readStream.format("penstock").options(**SOURCE).load()
    shed: list[ps.Report] = []
    walk("guard")
    df = source.transform(guard.admit).transform(guard.measured(one, RESULT, form="row"))
    query = started(df, folder / "guard")
    with guard.watch(query, on_report=lambda report: shed.append(report) if report.shed_total else None):
        waits(lambda: len(shed) >= BATCHES)
    ended(query, walk)


def fair(spark: SparkSession, folder: Path, walk: Walks) -> None:
    walk("fair")
    with ps.Fair("1 s", window="10 s") as shared:
        member = shared.query("q", sources=("s",), row="row", checkpoint=folder / "fair")
        source = spark.readStream.format("penstock").options(**SOURCE).load()
        out = source.transform(member.admit, "s").transform(
            member.measured(sic.pass_on(one, form="row"), f"{RESULT}, sic double", form="row")
        )
        query = started(out.transform(member.results), folder / "fair")
        seen: list[ps.Report] = []
        with member.watch(query, on_report=seen.append):
            waits(lambda: len(seen) >= BATCHES)
        ended(query, walk)


def network(spark: SparkSession, folder: Path, walk: Walks) -> None:  # noqa: ARG001 - it takes the one there is
    path = folder / "net.yaml"
    path.write_text(NETWORK)
    walk("run")
    settings = run.Settings(batches=BATCHES, folder=folder / "network")
    run.run(path, settings, Console(file=io.StringIO()))


def site(spark: SparkSession, folder: Path, walk: Walks) -> None:
    path = folder / "site.yaml"
    path.write_text(SITE)
    walk("site")
    file = site_file.load(path)
    made = SiteRun(spark, file, folder / "site")
    made.start()
    waits(lambda: len(made.accounts) >= BATCHES)
    walk("")
    made.stop()
    made.refuse_failure()


def main(folder: Path) -> None:
    walk = Walks(folder)
    walk("")
    spark = local_session(folder / "spark", cores=2)
    for part in (guarded, fair, site, network):
        part(spark, folder, walk)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
