"""A guard's folder on the server of Spark Connect, where its client cannot write.

The client sends a request as an option of a Python data source. When Spark analyses a data frame, it asks the source
for its schema in a Python process beside the server's driver. That process executes the request with the code of
classic Spark, and the schema returns the answer. An analysis is not a job and needs no task slot, so a plan is stored
even while a batch uses all of them.
"""

import json
import os
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, is_remote
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StringType, StructField, StructType

from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.messages.codec import Message
from penstock.messages.plan import Binding, Plan, Rules
from penstock.spark.expected_errors import quiet
from penstock.spark.plans.places import LocalStore, on_connect
from penstock.spark.plans.remote_reports import RemoteReports
from penstock.spark.plans.rules import Open
from penstock.store.folder import scheme_of
from penstock.store.logs import Skipped
from penstock.store.place import Place

#: The name of the data source for requests.
FORMAT = "penstock_errand"
#: Entries that a log remembers: they never change, and a report asks for the plan of a batch or two ago.
_REMEMBERED = 16
#: The requests that a log accepts.
_CALLS = (
    *("add", "get", "latest", "made_before", "next_version", "oldest", "purge", "renew", "renewed_s", "skipped"),
    "versions",
)

_M = TypeVar("_M", bound=Message)


def connect_session(spark: SparkSession | None = None) -> SparkSession | None:
    """The session, or else the active one, if it is a client of Spark Connect; None on classic Spark."""
    found = spark or SparkSession.getActiveSession()
    if found is None and is_remote():
        raise PenstockError("there is no Spark session yet: connect to the server first, which stores the plans")
    return found if on_connect(found) else None


class RemoteStore:
    """A folder of the server's file system."""

    def __init__(self, spark: SparkSession, checkpoint: str | os.PathLike[str] | None) -> None:
        """Under this checkpoint; without one, in a temporary folder, which stays until the server's are cleared."""
        self._spark = spark
        self._reports: RemoteReports | None = None
        spark.dataSource.register(Errands)
        self.place = Place(self._send("folder", checkpoint=None if checkpoint is None else os.fspath(checkpoint)))

    def serves(self, spark: SparkSession) -> bool:
        """Whether a query of that session finds the folder, which is on the server it is connected to."""
        return spark is self._spark

    def claim(self, own: Claim) -> str:
        """Sign the folder, or refuse one that was signed differently; its identity."""
        return cast("str", self._do("claim", own=own.to_json()))

    def begin(self, gate: str, rules: Rules) -> list[Open]:
        """Record the rules of a gate; returns the batches that Spark may run again."""
        return [Open.from_text(one) for one in self._do("begin", gate=gate, rules=rules.to_json())]

    def plans(self) -> "RemotePlans":
        """The plans in it."""
        return RemotePlans(Plan, self._log(None))

    def bindings(self, query: str) -> "RemoteLog[Binding]":
        """The bindings of a query in it."""
        return RemoteLog(Binding, self._log(query))

    def bound(self, but: str) -> dict[str, float]:
        """The queries but this one that have bound batches here, with the time of the last binding."""
        return cast("dict[str, float]", self._do("bound", but=but))

    def reports(self, query: str) -> RemoteReports:
        """Where the reports of a query are kept; they ride on other requests."""
        self._reports = RemoteReports(query, lambda errand: self._do(errand, query=query))
        return self._reports

    def query_id(self) -> str | None:
        """The query whose checkpoint the folder is in; None if it is in none."""
        return cast("str | None", self._do("query_id"))

    def control_row(self, place: str) -> list[int]:
        """The control row of a batch data frame."""
        return cast("list[int]", self._do("control_row", place=place))

    def _log(self, query: str | None) -> Callable[..., Any]:
        return lambda call, *given: self._do("log", query=query, call=call, given=given)

    def _do(self, errand: str, **given: Any) -> Any:  # noqa: ANN401 - each errand has its own
        return self._send(errand, folder=str(self.place), **given)

    def _send(self, errand: str, **given: Any) -> Any:  # noqa: ANN401 - each errand has its own
        reports = self._reports
        riding = None if reports is None else reports.board()
        try:
            answer = self._answer({"errand": errand, "given": given, "riding": riding})
        except BaseException:
            if reports is not None and riding is not None:
                reports.failed()
            raise
        if reports is not None and riding is not None:
            reports.arrived(answer.get("size"))
        if "refused" in answer:
            raise PenstockError(answer["refused"])
        return answer["done"]

    def _answer(self, order: dict[str, Any]) -> dict[str, Any]:
        # Each request is unique, so that Spark does not answer it from a cache.
        text = json.dumps({"id": uuid.uuid4().hex, **order})
        try:
            with quiet():
                schema = self._spark.read.format(FORMAT).option("errand", text).load().schema
        except PySparkException as error:
            raise PenstockError(_why(error)) from None
        return cast("dict[str, Any]", json.loads(schema["answer"].metadata["answer"]))


#: A guard's folder, wherever it is.
Store = LocalStore | RemoteStore


def store_for(spark: SparkSession | None, checkpoint: str | os.PathLike[str] | None) -> Store:
    """Where plans are kept under a checkpoint: as the session needs it, or the active one if none was seen yet."""
    connect = connect_session(spark)
    if connect is not None:
        return RemoteStore(connect, checkpoint)
    return LocalStore(checkpoint)


class RemoteLog(Generic[_M]):
    """The log of `penstock.store.logs` in that folder: each call is a request."""

    def __init__(self, kind: type[_M], do: Callable[..., Any]) -> None:
        """Entries of this kind; `do` sends a method's name and arguments."""
        self._kind, self._do = kind, do
        self._recent: deque[tuple[int, _M]] = deque(maxlen=_REMEMBERED)

    def add(self, version: int, entry: _M) -> bool:
        """Store the entry and return true; false if that number is taken."""
        added: bool = self._do("add", version, entry.to_json())
        if added:
            self._recent.append((version, entry))
        return added

    def get(self, version: int) -> _M | None:
        """The entry of that number; `None` if it is absent or cannot be read."""
        known = dict(self._recent).get(version)
        if known is not None or version < 0:
            return known
        found = self._entry(self._do("get", version))
        if found is not None:
            self._recent.append((version, found))
        return found

    def versions(self) -> list[int]:
        """Every number taken, ascending; also one whose file cannot be read."""
        return cast("list[int]", self._do("versions"))

    def latest(self) -> _M | None:
        """The newest readable entry, an older one if the newest is damaged; `None` if there is none."""
        return self._entry(self._do("latest"))

    def next_version(self) -> int:
        """The number after the newest one taken, readable or not."""
        return cast("int", self._do("next_version"))

    def purge(self, before: int) -> None:
        """Delete every entry with a lower number, except that the newest one always stays."""
        if before > 0:
            self._do("purge", before)

    def oldest(self) -> _M | None:
        """The oldest readable entry; `None` if there is none."""
        return self._entry(self._do("oldest"))

    def made_before(self, time_s: float) -> int | None:
        """The number of the newest entry made before that time; `None` if there is none."""
        return cast("int | None", self._do("made_before", time_s))

    def skipped(self) -> list[Skipped]:
        """Every file that holds no readable entry, with the reason."""
        return [Skipped(*one) for one in self._do("skipped")]

    def _entry(self, text: str | None) -> _M | None:
        return None if text is None else self._kind.from_json(text)


class RemotePlans(RemoteLog[Plan]):
    """Plans by version."""

    def plans(self) -> Iterator[Plan]:
        """Every readable plan, oldest first."""
        return (plan for version in self.versions() if (plan := self.get(version)))

    def renew(self, version: int, now_s: float) -> None:
        """Renew the lease of the plan of that version."""
        self._do("renew", version, now_s)

    def renewed_s(self, version: int) -> float:
        """When the plan of that version was last renewed; 0 if it never was."""
        return cast("float", self._do("renewed_s", version))


class Errands(DataSource):
    """Executes the request in its option, and answers in its schema; it has no rows."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """The answer."""
        return StructType([StructField("answer", StringType(), metadata={"answer": done(self.options["errand"])})])


def done(text: str) -> str:
    """Execute a request on the server, then write the lines that ride on it; its result, or why it was refused."""
    order = json.loads(text)
    answer: dict[str, Any]
    try:
        answer = {"done": _ERRANDS[order["errand"]](**order["given"])}
    except PenstockError as error:
        answer = {"refused": str(error)}
    except OSError as error:
        answer = {"refused": f"the server says: {error}"}
    if order.get("riding"):
        answer["size"] = _written(order["given"]["folder"], **order["riding"])
    return json.dumps(answer)


def _written(folder: str, query: str, size: int, lines: list[str]) -> int | None:
    try:
        return _store(folder).reports(query).journal.append_once(size, lines)
    except (PenstockError, OSError):
        return None  # a report that cannot be stored must not spoil the plan


def _journal(folder: str, query: str) -> dict[str, Any]:
    log = _store(folder).reports(query)
    recent = [report.to_json() for report in log.recent()]
    return {"size": log.journal.size, "accounted": log.accounted(), "recent": recent}


def _folder(checkpoint: str | None) -> str:
    if checkpoint is None:
        return str(Path(tempfile.mkdtemp(prefix="penstock-")) / "penstock")
    if scheme_of(checkpoint) is None and not Path(checkpoint).is_absolute():
        # A Python process of Spark's works in another folder than the server does.
        raise PenstockError.setting("checkpoint", checkpoint, "the whole path of a folder on the server of Connect")
    return str(Place.of(checkpoint, "checkpoint") / "penstock")


def _log(folder: str, query: str | None, call: str, given: list[Any]) -> Any:  # noqa: ANN401 - each method has its own
    if call not in _CALLS:
        raise PenstockError.setting("call", call, f"one of {', '.join(sorted(_CALLS))}")
    try:
        log = _store(folder).plans() if query is None else _store(folder).bindings(query)
    except PenstockError:
        if call == "get":
            return None  # the error of a log whose folder was deleted
        raise
    if call == "add":
        version, text = given
        given = [version, (Plan if query is None else Binding).from_json(text)]
    found = getattr(log, call)(*given)
    if call == "add" and not found:
        # Spark may ask twice, or its client may send an unanswered request twice.
        found = log.get(given[0]) == given[1]
    if isinstance(found, Message):
        return found.to_json()
    return [[one.path_name, one.why] for one in found] if call == "skipped" else found


def _store(folder: str) -> LocalStore:
    return LocalStore(Place.of(folder).parent)


_ERRANDS: dict[str, Callable[..., Any]] = {
    "begin": lambda folder, gate, rules: [one.to_text() for one in _store(folder).begin(gate, Rules.from_json(rules))],
    "bound": lambda folder, but="": _store(folder).bound(but),
    "claim": lambda folder, own: _store(folder).claim(Claim.from_json(own)),
    "control_row": lambda folder, place: _store(folder).control_row(place),
    "folder": _folder,
    "journal": _journal,
    "log": _log,
    "nothing": lambda **_: None,
    "query_id": lambda folder: _store(folder).query_id(),
}


def _why(error: PySparkException) -> str:
    """An error of the server, in one line."""
    text = " ".join(str(error).split("JVM stacktrace")[0].split())
    if "No module named 'penstock" in text:
        return "penstock is missing on the Spark Connect server: install it in the Python of PYSPARK_PYTHON"
    return f"the Spark Connect server failed to serve the guard: {text[:300]}"
