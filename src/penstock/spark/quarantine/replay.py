"""Replay: feeds rows in quarantine through a pipeline, each once, all at once or while there is capacity.

A replay is a streaming query over the files or the table of the quarantine. Its checkpoint, in the quarantine's folder,
durably records what has been replayed. So a killed replay resumes, and an exactly-once sink gets each row once.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses
from pyspark.sql.streaming import listener as events
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.loop.leases import LEASE_S
from penstock.errors import PenstockError
from penstock.spark.expected_errors import quiet
from penstock.spark.quarantine.rows import ADDED, Place, Sign
from penstock.spark.quarantine.stored import MARK, OWN_ROWS, stored
from penstock.spark.quarantine.topic import Topic, refuse_unreachable
from penstock.spark.row_columns import WEIGHT, made_by, refuse_another
from penstock.store.folder import FolderStore
from penstock.store.logs import PlanStore

#: Longest wait for the last progress of a run that has ended.
WAIT_S = 30.0


class RowCounter(events.StreamingQueryListener):
    """Rows by run and batch: Spark itself remembers the last hundred batches of a query."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], int] = {}
        self._heard: set[str] = set()
        self._ended: set[str] = set()
        self._news = threading.Condition()

    def of(self, query: StreamingQuery) -> list[int]:
        """The rows of each batch of a run that has ended."""
        run = str(query.runId)
        with self._news:
            self._news.wait_for(lambda: run in self._ended, WAIT_S)
            return [rows for (of, _), rows in self._rows.items() if of == run and rows]

    def heard_of(self, query: StreamingQuery) -> bool:
        """Whether a run has looked for rows: it has ended a batch, or found nothing to do."""
        with self._news:
            return str(query.runId) in self._heard

    def onQueryStarted(self, event: events.QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to count."""

    def onQueryIdle(self, event: events.QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """There is nothing to do."""
        with self._news:
            self._heard.add(str(event.runId))

    def onQueryProgress(self, event: events.QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """A batch is over."""
        told = event.progress
        counted = told.observedMetrics.get(OWN_ROWS)
        with self._news:
            self._heard.add(str(told.runId))
            self._rows[str(told.runId), told.batchId] = told.numInputRows if counted is None else counted["rows"]

    def onQueryTerminated(self, event: events.QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Spark reports no more progress of this run."""
        with self._news:
            self._ended.add(str(event.runId))
            self._news.notify_all()


@contextmanager
def row_counter(spark: SparkSession) -> Iterator[RowCounter]:
    """Count from here on."""
    listener = RowCounter()
    spark.streams.addListener(listener)
    try:
        yield listener
    finally:
        spark.streams.removeListener(listener)


#: A guard that has shed nothing for this long has spare capacity.
CALM_S = 10.0
#: Files in one batch of a replay; with `when`, few enough to stop soon.
FILES, FEW_FILES = 1000, 4
#: Time between two polls of a replay that waits for calm.
LOOK_S = 0.2
#: Formats whose tables are plain files; others, such as Delta and Iceberg, distinguish streams.
FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
#: The file in it that says into what.
INTO = "into"


class Replayed(NamedTuple):
    """The progress of a replay."""

    rows: int
    batches: int


def calm(plans: PlanStore, now_s: float) -> bool:
    """Whether the query of these plans has capacity: it has shed nothing for a while."""
    newest = plans.latest()
    if newest is None:
        return True
    if newest.gates:
        return now_s - max(newest.decided_s, plans.renewed_s(newest.version)) > LEASE_S
    return now_s - newest.decided_s > CALM_S


def replay(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    into: str | os.PathLike[str] | Callable[[DataFrame, int], None],
    pipeline: Callable[[DataFrame], DataFrame] | None = None,
    *,
    when: Callable[[], bool] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Replayed:
    """Feed the rows in quarantine that have not been replayed yet through a pipeline; return when none is left.

    Args:
        spark: The session.
        folder: The quarantine: the folder or the `table:NAME` that a guard was given.
        into: Where results go: a folder of its own (Parquet), `table:NAME`, `kafka:TOPIC@HOST:PORT`, or a function for
            `foreachBatch`.
        pipeline: What the guarded query does between `admit` and its sink; if not given, rows stay as they are. Each
            row has its weight from before the gate, or else 1.
        when: Whether there is capacity now, such as `lambda: guard.calm`; the replay pauses while it is false.
        checkpoint: For a table: the checkpoint of the guarded query, whose rows are replayed.

    Raises:
        PenstockError: If there is nothing to replay, or it has been replayed already.
    """
    place = None if callable(into) else Place.of(into, "into")
    of = stored(spark, folder, checkpoint, place)
    path, mark = of.path, of.mark
    if of.empty():
        raise PenstockError.setting("folder", of.name, "a quarantine with rows in it", "none has been shed yet")
    if place is not None and place.kind == "folder":
        _refuse_used(Path(place.name), path, mark)
    if place is not None and place.kind == "kafka":
        refuse_unreachable(place, "into")
    if place is not None and place.kind == "table" and spark.catalog.tableExists(place.name):
        refuse_shared(spark, place.name, mark, "into")
    with _alone(path), row_counter(spark) as counter:
        _refuse_elsewhere(path, place, mark.name)
        rows = of.stream(FEW_FILES if when is not None else FILES)
        made = _as_admitted(rows, of.sign).transform(pipeline or (lambda df: df))
        done = _run(made, mark, place or into, when, counter)
    if not done:
        raise PenstockError.setting("folder", of.name, "a quarantine with rows left", "all have been replayed")
    return Replayed(sum(done), len(done))


def whole(first: DataFrame, replayed: DataFrame, weight: str | None = None) -> DataFrame:
    """The results of the first pass and of the replay together, each row with weight 1.

    Behind the gate a kept row represents shed rows. After their replay it counts as one row. The column of weights is
    `weight` if none is named.
    """
    name = WEIGHT if weight is None else weight
    for df, which in ((first, "first"), (replayed, "replayed")):
        if name not in df.columns:
            raise PenstockError.setting("weight", name, f"the column of weights in {which}: {', '.join(df.columns)}")
        if weight is None:
            refuse_another(df, name)
    return first.unionByName(replayed).withColumn(name, F.lit(1.0))


def _as_admitted(rows: DataFrame, sign: Sign) -> DataFrame:
    """The rows as the gate passes them without a plan."""
    plain = rows.drop(*ADDED)
    own = next((name for name in plain.columns if name.lower() == sign.weight.lower()), None)
    weight = F.lit(1.0) if own is None else F.coalesce(F.col(f"`{own}`").cast("double"), F.lit(1.0))
    return made_by(plain.withColumn(sign.weight, weight), sign.weight, sign.guard)


def started(made: DataFrame, checkpoint: Path, into: Any, trigger: dict[str, Any]) -> StreamingQuery:  # noqa: ANN401
    """A query into a place, or into a function for `foreachBatch`."""
    writer = made.writeStream.option("checkpointLocation", str(checkpoint)).trigger(**trigger)
    if not isinstance(into, Place):
        return writer.foreachBatch(into).start()
    if into.kind == "table":
        return writer.toTable(into.name)
    if into.kind == "kafka":
        return writer.foreachBatch(Topic(into, checkpoint)).start()
    return writer.format("parquet").option("path", into.name).start()


def _run(made: DataFrame, mark: Path, into: Any, when: Callable[[], bool] | None, counter: RowCounter) -> list[int]:  # noqa: ANN401
    """Run the query until no rows are left, only while there is capacity; the rows of its batches."""
    if when is None:
        query = started(made, mark, into, {"availableNow": True})
        query.awaitTermination()
        return counter.of(query)
    rows: list[int] = []
    while True:
        while not when():
            time.sleep(LOOK_S)
        query = started(made, mark, into, {"processingTime": "0 seconds"})
        over = _until_over(query, when, counter)
        query.stop()
        rows += counter.of(query)
        if over:
            return rows


def _until_over(query: StreamingQuery, when: Callable[[], bool], counter: RowCounter) -> bool:
    """Whether no rows are left; false if capacity is exhausted."""
    while when():
        status: dict[str, Any] = query.status
        if not query.isActive:
            query.awaitTermination()  # raises the query's error
            return True
        if counter.heard_of(query) and not status["isDataAvailable"] and not status["isTriggerActive"]:
            return True
        time.sleep(LOOK_S)
    return False


def _refuse_used(into: Path, folder: Path, mark: Path) -> None:
    """Two queries that write into one folder hide each other's files from Spark."""
    if (into / "x").is_relative_to(folder):
        raise PenstockError.setting("into", str(into), "a folder outside the quarantine")
    if (into / "_spark_metadata").exists() and not (mark / "commits").exists():
        raise PenstockError.setting("into", str(into), "a folder of its own", "another query writes into this one")


def refuse_shared(spark: SparkSession, name: str, checkpoint: Path, setting: str) -> None:
    """One line if the table is not empty and not filled by the query with this checkpoint.

    Spark keeps a log of what a stream has written beside the table's files. Spark skips a batch whose number is already
    in that log, even if another stream wrote it. Files that are not in the log, such as those of an INSERT, are no
    longer read.
    """
    if (checkpoint / "commits").exists():
        return
    about = {row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    if about.get("Provider", "").lower() not in FILE_FORMATS:
        return
    if _filled_by_a_stream(spark, about["Location"]):
        told = "another stream fills this one, and Spark would skip rows"
    elif not spark.table(name).isEmpty():
        told = "Spark would no longer show the rows that are in this one"
    else:
        return
    raise PenstockError.setting(setting, f"table:{name}", "a table of its own", told)


def _filled_by_a_stream(spark: SparkSession, location: str) -> bool:
    """Whether Spark's log of a stream exists, in any file system."""
    try:
        with quiet():
            # Spark shows none of its rows, but refuses one that is missing.
            spark.read.text(f"{location}/_spark_metadata")
    except PySparkException:
        return False
    return True


def _refuse_elsewhere(folder: Path, place: Place | None, mark: str = MARK) -> None:
    """Spark's file sink uses batch numbers, so batches of a replay that began elsewhere would be missing here."""
    store = FolderStore(folder / mark)
    now = "" if place is None else f"{place.kind}:{place.name}"
    if not (folder / mark / "commits").exists():
        store.remove(INTO)  # No batch is in the other place yet.
    store.create(INTO, now.encode())
    before = (store.read(INTO) or b"").decode()
    if now != before and now.startswith(("folder:", "table:")):
        told = "a function" if not before else before.removeprefix("folder:")
        raise PenstockError.setting(
            "into",
            place.name if place else "",
            f"{told}, into which this quarantine was replayed before",
            f"to replay all of it into another place, delete {folder / mark}",
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Only one replay of a quarantine at a time."""
    with (folder / ".replay.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PenstockError.setting(
                "folder", str(folder), "one that is not being replayed", "wait for it"
            ) from None
        yield
