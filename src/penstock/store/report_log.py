"""A query's reports on disk, beside its plans: for the dashboard and for later analysis.

One journal a query, under `reports` in the guard's folder. A line is a word and a message. A guard writes `watch` when
it began to plan for the query, `report` for each batch, and `missing` for a batch without one. It writes `alarms` when
they change, `alive` after a while without a line, `end` when the guard ends.

Costs by class of keys are most of a report's bytes and change slowly, so only some reports have them.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, get_args

from penstock.errors import PenstockError
from penstock.messages.codec import Count, Int64, Message, Name, Seconds, Text
from penstock.messages.report import Report
from penstock.store.interface import Store
from penstock.store.journal import MOST_BYTES, Journal, at

FOLDER = "reports"
ENDING = ".journal"
#: Reports from which a guard that starts again learns what its query costs.
RECENT = 50
#: Time between two reports with costs.
COSTS_EVERY_S = 10.0
#: After this time without a line a guard writes `alive`: at most 400 KB a day.
ALIVE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Message):
    """A guard has begun to plan for a query."""

    guard: Name  #: its name
    query: Text  #: identity of the query
    began_s: Seconds  #: when it began
    mode: Name  #: `enforce` or `dry_run`
    policy: Text = ""  #: the policy that chooses the rows to shed
    target: Text = ""  #: the target, in words
    target_s: Seconds | None = None  #: the latency to hold, if it is one
    target_rows_per_s: Seconds | None = None  #: the rate to hold, if it is one
    key: tuple[Name, ...] = ()  #: columns that determine a row's cost
    key_types: tuple[Name, ...] = ()  #: their types, as Spark spells them; empty if not known
    row: tuple[Name, ...] = ()  #: columns that identify rows, if given
    row_types: tuple[Name, ...] = ()  #: their types
    keep: Text = ""  #: which rows must be kept; empty if none
    salt: Int64 | None = None  #: seed of the hash by which its gate chooses rows; `None` if its plans have it


@dataclass(frozen=True, slots=True)
class Alarms(Message):
    """The alarms from now on, and how many errors the guard has caught."""

    told_s: Seconds
    alarms: tuple[Text, ...] = ()
    errors: Count = 0


@dataclass(frozen=True, slots=True)
class Missing(Message):
    """Batches from one number to another have no report, and why; totals omit their rows."""

    told_s: Seconds
    first: Count
    last: Count
    note: Text = ""


@dataclass(frozen=True, slots=True)
class Alive(Message):
    """The guard watches its query and has nothing else to report."""

    told_s: Seconds  #: when it looked
    batch: Count | None = None  #: the batch that ran without a row at the gate, if one has


@dataclass(frozen=True, slots=True)
class End(Message):
    """The guard has ended, and why."""

    ended_s: Seconds
    note: Text = ""


Line = Watch | Report | Missing | Alarms | Alive | End
_KINDS: dict[str, type[Line]] = {kind.__name__.lower(): kind for kind in get_args(Line)}
_WORDS = {kind: word for word, kind in _KINDS.items()}


class LineText:
    """Writes messages as lines, of reports only some with their costs."""

    def __init__(self) -> None:
        self._costs_s: float | None = None  # when costs were written last

    def of(self, message: Line) -> str:
        """The line of a message."""
        if isinstance(message, Report) and message.cost_sketch:
            if self._costs_s is not None and 0.0 <= message.end_s - self._costs_s < COSTS_EVERY_S:
                message = replace(message, cost_sketch=None)
            else:
                self._costs_s = message.end_s
        return f"{_WORDS[type(message)]} {message.to_json()}"


class ReportLog:
    """Writes the journal of one query."""

    rides = False

    def __init__(self, place: Path | Store, query: str, most_bytes: int = MOST_BYTES) -> None:
        store, name = at(journal_path(place, query)) if isinstance(place, Path) else (place, f"{query}{ENDING}")
        self.journal = Journal(store, name, most_bytes)
        self._text = LineText()

    def write(self, message: Line) -> None:
        """Append a message; if that fails, the message is lost and the journal counts it."""
        self.journal.append(self._text.of(message))

    def accounted(self) -> int:
        """The newest batch that the journal accounts for; -1 if there is none."""
        batches = (_batch(line_of(text)) for text in reversed(self.journal.tail().news()))
        return next((batch for batch in batches if batch is not None), -1)

    def recent(self) -> list[Report]:
        """The last reports in the journal, oldest first; from the first one with costs on, if any has them."""
        texts = [text for text in self.journal.tail().news() if text.startswith(f"{_WORDS[Report]} ")]
        found = [line for text in texts[-RECENT:] if isinstance(line := line_of(text), Report)]
        with_costs = (number for number, report in enumerate(found) if report.cost_sketch is not None)
        return found[next(with_costs, 0) :]


class NoReports:
    """Writes nothing: for a controller without a journal."""

    rides = False

    def write(self, message: Line) -> None:
        """Forget it."""

    def accounted(self) -> None:
        """Unknown."""

    def recent(self) -> list[Report]:
        """None."""
        return []


class ReportSink(Protocol):
    """Where a controller writes its messages."""

    rides: bool  #: whether a report travels with the plan that follows from it, so it is written first

    def write(self, message: Line) -> None:
        """Append a message."""

    def accounted(self) -> int | None:
        """The newest batch in the journal; -1 if there is none, `None` if that is not known."""

    def recent(self) -> list[Report]:
        """The last reports, oldest first."""


def _batch(line: Line | None) -> int | None:
    """The batch that a message accounts for."""
    match line:
        case Report():
            return line.sequence
        case Missing():
            return line.last
        case Alive():
            return line.batch
    return None


def journal_path(folder: Path, query: str) -> Path:
    """Where the reports of a query are kept."""
    return folder / FOLDER / f"{query}{ENDING}"


def line_of(text: str) -> Line | None:
    """The message of a line; `None` if it holds none that this release can read."""
    word, _, document = text.partition(" ")
    kind = _KINDS.get(word)
    if kind is None:
        return None
    try:
        return kind.from_json(document)
    except PenstockError:
        return None
