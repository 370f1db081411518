"""Quarantine: the rows that a gate sheds, on disk, each once, with the reason, the plan and the batch.

The gate's frame is split in two. Kept rows pass as without a quarantine. Shed rows are split into a few parts by their
coin. Each part of a batch is one Parquet file, written by a Python function that returns no rows. So the union of both
branches is the kept rows. A file's name says query, batch and part, and the first file of a name stays. A rerun task or
a replayed batch finds exactly the rows that it would write. The file has a fingerprint of its rows; other rows belong
to another batch with the same number, and are refused.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.core.control.batch_size import TOO_MANY
from penstock.core.control.gate import BACKLOG_NUMBER, SIZE_NUMBER, TOO_OLD, reasons
from penstock.errors import PenstockError
from penstock.messages.plan import Plan
from penstock.spark.quarantine import forwarded
from penstock.store.folder import FolderStore, local_folder, scheme_of
from penstock.store.interface import StoreError
from penstock.store.logs import PlanLog
from penstock.store.place import Place as StorePlace

#: Files per batch: shed rows are shuffled to this many tasks.
PARTS = 2
#: The gate's columns of a shed row, for the writer.
REASON_NUMBER, PLAN_VERSION, PART, COIN = "__penstock_reason", "__penstock_plan", "__penstock_part", "__penstock_coin"
#: The columns that a quarantine adds to a row.
REASON, PLAN, BATCH, QUERY = "penstock_reason", "penstock_plan", "penstock_batch", "penstock_query"
ADDED = (REASON, PLAN, BATCH, QUERY)
#: The file that marks a folder as a quarantine; Spark does not read such a name as data.
SIGN = "_penstock.json"
#: Under this key a file's metadata has the fingerprint of its rows.
FINGERPRINT = b"penstock_rows"
#: The reason of a shed row whose plan can no longer be read.
UNTOLD = "shed by a plan that is gone"


class Place(NamedTuple):
    """Where shed rows go: into a folder, and from there into a table or a topic if one is named."""

    kind: str  #: `folder`, `table` or `kafka`
    name: str  #: of the folder, table or topic
    servers: str = ""  #: Kafka's bootstrap servers

    @classmethod
    def of(cls, given: object, setting: str = "quarantine") -> Self:
        """Read a setting.

        >>> Place.of("table:shed_rows")
        Place(kind='table', name='shed_rows', servers='')
        >>> Place.of("kafka:shed@localhost:9092")
        Place(kind='kafka', name='shed', servers='localhost:9092')
        """
        accepted = "a folder, 'table:NAME' or 'kafka:TOPIC@HOST:PORT'"
        if not isinstance(given, str | os.PathLike) or not os.fspath(given):
            raise PenstockError.setting(setting, given, accepted)
        text = os.fspath(given)
        if text.startswith("table:"):
            name = text.removeprefix("table:").strip()
            if not name:
                raise PenstockError.setting(setting, given, "the table's name as well, such as 'table:shed_rows'")
            return cls("table", name)
        if text.startswith("kafka:"):
            topic, _, servers = text.removeprefix("kafka:").strip("/").partition("@")
            if not topic or not servers:
                fix = "a topic needs bootstrap servers"
                raise PenstockError.setting(setting, given, "'kafka:TOPIC@HOST:PORT'", fix)
            return cls("kafka", topic, servers)
        if scheme_of(text) not in (None, "file") and "://" not in text:
            raise PenstockError.setting(setting, given, accepted)
        return cls("folder", str(local_folder(setting, text)))

    def refuse_inside(self, checkpoint: str | os.PathLike[str] | None) -> None:
        """A quarantine needs a checkpoint, and must be outside of it."""
        if checkpoint is None:
            raise PenstockError(
                "quarantine is given without checkpoint: give the query's checkpoint folder as well, or a restarted "
                "query may shed other rows than those in quarantine"
            )
        place = StorePlace.of(checkpoint, "checkpoint")
        if place.in_bucket:
            if self.kind != "folder":
                accepted = "a folder, or this one together with a checkpoint that is mounted"
                fix = "shed rows are written beside the checkpoint first, and this one is in a bucket"
                raise PenstockError.setting("quarantine", f"{self.kind}:{self.name}", accepted, fix)
            return
        if self.kind == "folder" and (Path(self.name).resolve() / "x").is_relative_to(Path(str(place)).resolve()):
            raise PenstockError.setting(
                "quarantine", self.name, "a folder outside the checkpoint", "it would be deleted with the checkpoint"
            )


@dataclass(frozen=True)
class Sign:
    """The sign of a quarantine."""

    guard: str  #: name of the guard that fills it
    weight: str  #: its column of weights
    schema: str  #: columns of the rows, as Spark's JSON, without the added ones
    parts: int = PARTS  #: files a batch

    def put(self, folder: Path) -> None:
        """Make the folder a quarantine; refuse a non-empty folder that is not one, or has other columns."""
        try:
            store = FolderStore(folder)
            there = next((one.name for one in folder.iterdir() if not one.name.startswith((".", "_"))), None)
            if there is not None and not (folder / SIGN).exists():
                raise PenstockError.setting(
                    "quarantine", str(folder), "an empty folder, or a quarantine", f"there is {there}"
                )
            store.create(SIGN, json.dumps(asdict(self)).encode())  # Fails if nothing can be written.
        except OSError as error:
            raise _unwritable(folder, f"the system says: {error.strerror}") from None
        except StoreError as error:
            raise (_unwritable(folder, error.why) if error.why else error) from None
        found = Sign.read(folder, "quarantine")
        if found != self:
            differs = [name for name, value in asdict(self).items() if getattr(found, name) != value]
            raise PenstockError.setting(
                "quarantine", str(folder), "a folder of its own", f"rows there have another {' and '.join(differs)}"
            )

    @classmethod
    def read(cls, folder: Path, setting: str) -> Self:
        """The sign of a folder; one line if it is no quarantine."""
        try:
            return cls(**json.loads((folder / SIGN).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise PenstockError.setting(
                setting, str(folder), "the quarantine of a guard", f"there is no usable {SIGN} in it"
            ) from None


def file_names(query: str, batch: int) -> list[str]:
    """The files that the shed rows of a batch may be in."""
    return [_file_name(query, batch, part) for part in range(PARTS)]


def _file_name(query: str, batch: int, part: int) -> str:
    return f"{query}-{batch:012d}-{part}.parquet"


def reason_names(plan: Plan | None, place: str) -> dict[int, str]:
    """Why rows are shed at a place, by the numbers that a gate has for the reasons."""
    table = plan.gate(place) if plan else None
    return dict(enumerate(reasons(table) if table else ())) | {BACKLOG_NUMBER: TOO_OLD, SIZE_NUMBER: TOO_MANY}


class Writer:
    """Writes the shed rows of a task's parts, for `mapInArrow`; returns no rows."""

    def __init__(self, folder: str, store: str, place: str) -> None:
        """Into this folder; reasons are looked up in the plans of this store, in the table of this place."""
        self._folder, self._store, self._place = folder, store, place
        self._reasons: dict[int, dict[int, str]] = {}  # by version

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Write all rows of a task."""
        from pyspark import TaskContext  # noqa: PLC0415 - on a worker

        context = TaskContext.get()
        assert context is not None  # noqa: S101 - tasks have one
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        self.write(batches, batch, context.getLocalProperty("sql.streaming.queryId") or "")
        return iter(())

    def write(self, batches: Iterable[Any], batch: int, query: str) -> None:
        """Write rows that a batch of a query has shed."""
        if not (Path(self._folder) / SIGN).exists():  # Another disk at the same path must not receive rows.
            raise PenstockError.setting(
                "quarantine", self._folder, "a folder that executors see, as the driver does", f"there is no {SIGN}"
            )
        parts: dict[int, _Part] = {}
        try:
            for rows in batches:
                for part in sorted(set(rows.column(PART).to_pylist())):
                    if part not in parts:
                        parts[part] = _Part(Path(self._folder), _file_name(query, batch, part))
                    parts[part].write(*self._named(rows, part, batch, query))
            for one in parts.values():
                one.publish()
            forwarded.purge(Path(self._folder), query, batch, time.time())
        except OSError as error:
            # A row that cannot be stored must not be lost silently: the batch fails, as with a full sink.
            raise PenstockError.setting(
                "quarantine", self._folder, "a folder that can be written", f"the system says: {error.strerror}"
            ) from None
        finally:
            for one in parts.values():
                one.discard()

    def _named(self, rows: Any, part: int, batch: int, query: str) -> tuple[Any, Any]:  # noqa: ANN401 - Arrow has no types
        """The rows of a part with their reason as text, and their coins."""
        import pyarrow as pa  # noqa: PLC0415 - on a worker
        import pyarrow.compute as pc  # noqa: PLC0415

        rows = rows.filter(pc.equal(rows.column(PART), part))
        versions, numbers = rows.column(PLAN_VERSION).to_pylist(), rows.column(REASON_NUMBER).to_pylist()
        reasons = [self._reason(*one) for one in zip(versions, numbers, strict=True)]
        plans = [None if version < 0 else version for version in versions]
        own = [name for name in rows.schema.names if name not in (REASON_NUMBER, PLAN_VERSION, PART, COIN)]
        added = {
            REASON: pa.array(reasons, pa.string()),
            PLAN: pa.array(plans, pa.int64()),
            BATCH: pa.array([batch] * len(reasons), pa.int64()),
            QUERY: pa.array([query] * len(reasons), pa.string()),
        }
        columns = [*(rows.column(name) for name in own), *added.values()]
        return pa.Table.from_arrays(columns, names=[*own, *added]), rows.column(COIN)

    def _reason(self, version: int, number: int) -> str:
        if version not in self._reasons:
            plan = PlanLog((StorePlace.of(self._store) / "plans").store(make=False)).get(version)
            self._reasons[version] = reason_names(plan, self._place)
        return self._reasons[version].get(number, UNTOLD)


class _Part:
    """One file that is being written."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._there = forwarded.found(folder, name) is not None
        self._store = FolderStore(folder, make=False)
        self._temporary = self._store.unfinished(name)
        self._writer: Any = None
        self._rows, self._sum = 0, 0

    def write(self, table: Any, coins: Any) -> None:  # noqa: ANN401 - Arrow has no types
        self._rows += len(coins)
        self._sum = (self._sum + int(coins.to_numpy(zero_copy_only=False).sum())) % 2**64
        if self._there:
            return
        if self._writer is None:
            import pyarrow.parquet as pq  # noqa: PLC0415 - on a worker

            self._writer = pq.ParquetWriter(self._temporary, table.schema)
        self._writer.write_table(table)

    @property
    def _fingerprint(self) -> bytes:
        """Number of rows and sum of their coins, in any order."""
        return f"{self._rows}-{self._sum:016x}".encode()

    def publish(self) -> None:
        if self._writer is not None:
            self._writer.add_key_value_metadata({FINGERPRINT: self._fingerprint})
            self._writer.close()
            self._writer = None
            self._store.adopt(self._temporary, self._name)
        self._refuse_others()

    def _refuse_others(self) -> None:
        """The file must hold these rows, whichever writer was first."""
        import pyarrow as pa  # noqa: PLC0415 - on a worker
        import pyarrow.parquet as pq  # noqa: PLC0415

        final = forwarded.found(self._folder, self._name) or self._folder / self._name
        try:
            try:
                found = pq.read_metadata(final)
            except FileNotFoundError:  # Spark has just archived it.
                final = forwarded.kept_in(self._folder) / self._name
                found = pq.read_metadata(final)
        except pa.ArrowInvalid:
            raise PenstockError.setting(
                "quarantine", str(final), "a file that can be read", "it is damaged: delete it"
            ) from None
        before = (found.metadata or {}).get(FINGERPRINT, f"{found.num_rows}".encode())
        if self._fingerprint != before and self._fingerprint.partition(b"-")[0] != before:
            raise PenstockError(
                f"quarantine: {final} holds other rows of a batch with the same number, so offsets were reset: move it "
                "and the files of later batches out of the folder and restart the query"
            )

    def discard(self) -> None:
        if self._writer is not None:
            with suppress(OSError):  # On a full disk it cannot be completed either, and must be removed.
                self._writer.close()
        self._temporary.unlink(missing_ok=True)


def _unwritable(folder: Path, why: str) -> PenstockError:
    return PenstockError.setting("quarantine", str(folder), "a folder that can be written", why)


def stored_schema(sign: Sign) -> StructType:
    """The columns of the files."""
    kinds = (StringType(), LongType(), LongType(), StringType())
    added = [StructField(name, kind) for name, kind in zip(ADDED, kinds, strict=True)]
    return StructType([*StructType.fromJson(json.loads(sign.schema)).fields, *added])
