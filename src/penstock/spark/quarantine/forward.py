"""Forwards the folder of a quarantine to a table or a topic: a small streaming query beside the guarded one."""

import logging
import threading
from contextlib import suppress
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.core.control.planner import SOURCE
from penstock.errors import PenstockError
from penstock.spark import file_log
from penstock.spark.expected_errors import quiet
from penstock.spark.plans.places import on_connect
from penstock.spark.plans.remote import Store
from penstock.spark.plans.rules import opened
from penstock.spark.quarantine import forwarded
from penstock.spark.quarantine.replay import FILE_FORMATS, refuse_shared, started
from penstock.spark.quarantine.rows import ADDED, SIGN, Place, Sign, Writer, stored_schema
from penstock.spark.quarantine.topic import as_json, refuse_unreachable

_logger = logging.getLogger("penstock")

#: How often rows are forwarded.
EVERY = "5 seconds"
#: The maximum number of files in one batch; a batch of the guarded query that sheds has two.
FILES = 100
#: Longest wait for the last rows when the guard is stopped.
STOP_S = 30.0
#: The query's checkpoint; Spark ignores a folder of such a name.
MARK = "_forward"
#: The beginning of a trace line that Penstock wrote.
_OWN = f"{PenstockError.__module__}.{PenstockError.__qualname__}: "


def refuse_unusable(spark: SparkSession, place: Place, folder: Path, schema: StructType) -> None:
    """Create a missing table or topic; raises one line if it cannot be used."""
    if place.kind == "kafka":
        refuse_unreachable(place, "quarantine")
        return
    try:
        with quiet():
            if not spark.catalog.tableExists(place.name):
                spark.catalog.createTable(place.name, schema=schema, source=_format(spark))
            refuse_shared(spark, place.name, folder / MARK, "quarantine")
    except PySparkException as error:
        accepted = "a table that is there or can be made"
        told = f"Spark says: {_first_line(error)}"
        raise PenstockError.setting("quarantine", f"table:{place.name}", accepted, told) from None


def _format(spark: SparkSession) -> str:
    """The format of a new table: the session's own if its tables know streams, such as `delta`."""
    usual = spark.conf.get("spark.sql.sources.default") or ""
    return "parquet" if usual.lower() in FILE_FORMATS else usual


class Forward:
    """The query, from its start to its end."""

    def __init__(self, spark: SparkSession, folder: Path, place: Place) -> None:
        sign = Sign.read(folder, "quarantine")
        archive = str(folder.parent / forwarded.FORWARDED)  # Spark moves files there after reading.
        options = {"maxFilesPerTrigger": str(FILES), "cleanSource": "archive", "sourceArchiveDir": archive}
        rows = spark.readStream.schema(stored_schema(sign)).options(**options).parquet(str(folder))
        if place.kind == "kafka":
            rows = as_json(rows)
        self._folder, self._place = folder, place
        file_log.shorten(folder / MARK)
        self._query = started(rows, folder / MARK, place, {"processingTime": EVERY})

    @property
    def alarm(self) -> str | None:
        """The error, in one line."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        why = "" if error is None else f": {_first_line(error)}"
        return f"shed rows stay in {self._folder}, because they are no longer forwarded to {self._place.name}{why}"

    def stop(self) -> None:
        """Forward what is left and end; after `STOP_S` without waiting for it."""
        ending = threading.Thread(target=self._end, name="penstock-forward", daemon=True)
        ending.start()
        ending.join(STOP_S)
        if ending.is_alive():
            _logger.warning(
                "shed rows in %s are still being forwarded to %s: the rest follow when the guard watches again",
                self._folder,
                self._place.name,
            )

    def _end(self) -> None:
        alarm = self.alarm
        if alarm is not None:
            _logger.warning("%s", alarm)
            return
        with suppress(PySparkException):
            self._query.processAllAvailable()
            self._query.stop()


def _first_line(error: Exception) -> str:
    """Penstock's own line in a trace; otherwise the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = (line.partition(_OWN)[2] for line in lines if line.startswith(_OWN))
    return next(own, lines[0] if lines else type(error).__name__)


class Quarantine:
    """Where the shed rows of a guard go: a folder, from which they are forwarded while the guard watches."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._session: SparkSession | None = None
        self._forward: Forward | None = None

    @property
    def alarm(self) -> str | None:
        """Why rows are not forwarded, in one line."""
        return None if self._forward is None else self._forward.alarm

    def folder(self, store: Store) -> Path:
        """The folder of shed rows; for a table or a topic, it is the guard's own."""
        return Path(self._place.name) if self._place.kind == "folder" else Path(str(store.place / "quarantine"))

    def to_finish(self, df: DataFrame, store: Store, gate: str) -> bool:
        """Whether Spark may replay a batch that sheds rows, although the guard sheds none any more."""
        self._session = df.sparkSession
        if not df.isStreaming or on_connect(df.sparkSession):
            return False
        return any(one.rules is not None and one.rules.mode == "enforce" for one in opened(store.place, gate))

    def writer(self, df: DataFrame, store: Store, weight: str, guard: str) -> Writer:
        """The writer of a stream's shed rows, for a checked place."""
        self._session = df.sparkSession
        if on_connect(df.sparkSession):
            raise PenstockError("quarantine needs classic Spark: a Spark Connect client cannot manage the folder")
        if not df.isStreaming:
            raise PenstockError("quarantine needs a stream: rows of a batch have no batch number to be written once by")
        taken = next((name for name in df.columns if name in ADDED), None)
        if taken is not None:
            raise PenstockError(f"the stream has a column {taken} already: rename it, the quarantine needs the name")
        sign, folder = Sign(guard, weight, df.schema.json()), self.folder(store)
        if self._place.kind != "folder":
            refuse_unusable(df.sparkSession, self._place, folder, stored_schema(sign))
        sign.put(folder)
        return Writer(str(folder), str(store.place), SOURCE)

    def start(self, store: Store) -> None:
        """Forward shed rows from their folder to a table or a topic."""
        folder = self.folder(store)
        # Without a sign none has ever been shed.
        if self._place.kind == "folder" or self._session is None or not (folder / SIGN).exists():
            return
        if self._forward is None or self._forward.alarm is not None:
            self._forward = Forward(self._session, folder, self._place)

    def stop(self) -> None:
        """Forward what is left and end."""
        forward, self._forward = self._forward, None
        if forward is not None:
            forward.stop()
