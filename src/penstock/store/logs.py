"""Logs under a query's checkpoint: plans, and which batch was judged by which plan.

An entry is written once and never changes: the first writer wins and `add` returns false to all others. After a crash
an entry is whole or absent. Old entries may be purged.
"""

import logging
import os
from bisect import bisect_left
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import xxhash

from penstock.errors import PenstockError
from penstock.messages.codec import Message
from penstock.messages.plan import Binding, Plan, Rules
from penstock.store.folder import FolderStore
from penstock.store.interface import Store

_logger = logging.getLogger(__name__)

_M = TypeVar("_M", bound=Message)

_LEASE_NAME = ".lease"
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Skipped:
    """An unreadable file of a log, and why it is unreadable."""

    path_name: str
    why: str


class Entries(Protocol[_M]):
    """What a log is, wherever it keeps its entries: put-if-absent by number, never changed."""

    def add(self, version: int, entry: _M, /) -> bool:
        """Store the entry and return true; false if that number is taken."""

    def get(self, version: int, /) -> _M | None:
        """The entry of that number; `None` if there is none to read."""

    def versions(self) -> list[int]:
        """Every number taken, ascending."""

    def latest(self) -> _M | None:
        """The newest readable entry; `None` if there is none."""

    def oldest(self) -> _M | None:
        """The oldest readable entry; `None` if there is none."""

    def next_version(self) -> int:
        """The number after the newest one taken."""

    def made_before(self, time_s: float) -> int | None:
        """The number of the newest entry made before that time; `None` if there is none."""

    def purge(self, before: int) -> None:
        """Delete every entry with a lower number, except that the newest one always stays."""

    def skipped(self) -> list[Skipped]:
        """Unreadable files of the log."""


class PlanStore(Entries[Plan], Protocol):
    """A log of plans."""

    def plans(self) -> Iterator[Plan]:
        """Every readable plan, oldest first."""

    def renew(self, version: int, now_s: float) -> None:
        """Renew the lease of the plan of that version."""

    def renewed_s(self, version: int) -> float:
        """When the plan of that version was last renewed; 0 if it never was."""


class Log(Generic[_M]):
    """Entries of one kind in a store, which readers and writers of many processes may share.

    Each entry has two lines: the xxHash64 of its JSON, and that JSON. An entry whose checksum fails is skipped, listed
    by `skipped` and logged once; its number stays taken.
    """

    _kind: type[_M]  #: what an entry is
    _word: str  #: what an entry is called, also the ending of its name
    _number: str  #: the field that numbers the entries
    _time: str  #: the field that says when an entry was made

    def __init__(self, place: str | os.PathLike[str] | Store, *, make: bool = True) -> None:
        """Open the log in a store or in a folder, which is made if it is missing; a `file:` address is a folder too.

        With `make=False` no folder is made: readers, and processes on other machines, must not create one.
        """
        self.store: Store = FolderStore(place, make=make) if isinstance(place, str | os.PathLike) else place
        self._warned: set[str] = set()

    @property
    def folder(self) -> Path:
        """The folder of the log, if it is in one."""
        return Path(self.store.where)

    def add(self, version: int, entry: _M) -> bool:
        """Store the entry and return true; false if that number is taken.

        Either way the entry is durable on return. If it raises, the number may or may not be taken; adding it again
        shows which.
        """
        if (own := getattr(entry, self._number)) != version:
            raise PenstockError.setting(self._number, version, f"the {self._number} of the {self._word}, {own}")
        return self.store.create(self._name(version), self._content(entry))

    def get(self, version: int) -> _M | None:
        """The entry of that number; `None` if it is absent or cannot be read."""
        found = self._look(self._name(version)) if version >= 0 else None
        return found if isinstance(found, self._kind) else None

    def taken(self, version: int) -> bool:
        """Whether that number is taken, readable or not; unlike `versions`, as fast in a long log as in a short one."""
        return version >= 0 and self.store.has(self._name(version))

    def versions(self) -> list[int]:
        """Every number taken, ascending; also one whose entry cannot be read."""
        found = []
        for name in self.store.names():
            if (number := _number_of(name, self._word)) is not None:
                found.append(number)
            else:
                self._look(name)
        return found

    def latest(self) -> _M | None:
        """The newest readable entry, an older one if the newest is damaged; `None` if there is none."""
        return next((entry for version in reversed(self.versions()) if (entry := self.get(version))), None)

    def entries(self) -> Iterator[_M]:
        """Every readable entry, oldest first."""
        for version in self.versions():
            if entry := self.get(version):
                yield entry

    def next_version(self) -> int:
        """The number after the newest one taken, readable or not."""
        return max(self.versions(), default=-1) + 1

    def purge(self, before: int) -> None:
        """Delete every entry with a lower number, except that the newest one always stays."""
        self.retain((), before)

    def retain(self, needed: Container[int], since: int) -> None:
        """Delete every entry that is not needed, except for those from a number on and the newest one."""
        old = [version for version in self.versions()[:-1] if version < since and version not in needed]
        if old:
            self.remove(*old)

    def oldest(self) -> _M | None:
        """The oldest readable entry; `None` if there is none."""
        return next(self.entries(), None)

    def made_before(self, time_s: float) -> int | None:
        """The number of the newest entry made before that time; `None` if there is none.

        Only a few entries are read: later entries have later times. One that cannot be read counts as old.
        """
        versions = self.versions()
        if not versions or not self._is_older(versions[0], time_s):
            return None  # as usual: where a read is a request, one is enough
        old = bisect_left(versions, x=True, key=lambda version: not self._is_older(version, time_s))
        return versions[old - 1]

    def _is_older(self, version: int, time_s: float) -> bool:
        entry = self.get(version)
        return entry is None or getattr(entry, self._time) < time_s

    def remove(self, *versions: int) -> None:
        """Delete entries, those that are there."""
        self.store.remove(*map(self._name, versions))

    def skipped(self) -> list[Skipped]:
        """Unreadable files with the reason, without those still being written."""
        found = [self._look(name) for name in self.store.names()]
        return [skipped for skipped in found if isinstance(skipped, Skipped)]

    def _name(self, number: int) -> str:
        return f"{number:0{_DIGITS}d}.{self._word}"

    def _look(self, name: str) -> _M | Skipped | None:
        """What is kept under this name; `None` for nothing at all."""
        found = self._read(name)
        if isinstance(found, Skipped) and name not in self._warned:
            self._warned.add(name)
            _logger.warning("%s log %s: %s is skipped: %s", self._word, self.store.where, name, found.why)
        return found

    def _read(self, name: str) -> _M | Skipped | None:
        if name == _LEASE_NAME:
            return None
        if _number_of(name, self._word) is None:
            return Skipped(name, f"it is not named as a {self._word} is")
        try:
            content = self.store.read(name)
            return None if content is None else self._entry(name, content)
        except ValueError as error:  # it is damaged, or the store cannot read it
            return Skipped(name, getattr(error, "why", "") or str(error))

    def _content(self, entry: _M) -> bytes:
        return _sealed(entry.to_json().encode())

    def _entry(self, name: str, content: bytes) -> _M | Skipped:
        entry = self._kind.from_json(_unsealed(content).decode())
        if self._name(number := getattr(entry, self._number)) != name:
            return Skipped(name, f"it holds {self._number} {number}")
        return entry


class PlanLog(Log[Plan]):
    """Plans by version.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     log = PlanLog(folder)
    ...     plan = Plan.keep_all(log.next_version(), "start", decided_s=0.0)
    ...     log.add(plan.version, plan), log.add(plan.version, plan), log.latest() == plan
    (True, False, True)
    """

    _kind, _word, _number, _time = Plan, "plan", "version", "decided_s"

    def plans(self) -> Iterator[Plan]:
        """Every readable plan, oldest first."""
        return self.entries()

    def renew(self, version: int, now_s: float) -> None:
        """Renew the lease of the plan of that version.

        That is one small piece, replaced each time. It need not survive a crash: without it rows flow.
        """
        self.store.replace(_LEASE_NAME, _sealed(f"{version} {now_s!r}".encode()))

    def renewed_s(self, version: int) -> float:
        """When the plan of that version was last renewed; 0 if it never was."""
        try:
            renewed, renewed_s = _unsealed(self.store.read(_LEASE_NAME) or b"").split()
        except ValueError:  # none was ever renewed, or it is torn
            return 0.0
        return float(renewed_s) if int(renewed) == version else 0.0


class BindingLog(Log[Binding]):
    """Batches by number, each bound permanently to the plan that judges it."""

    _kind, _word, _number, _time = Binding, "binding", "batch", "bound_s"


class RulesLog(Log[Rules]):
    """Rules by number, each written when a gate was made."""

    _kind, _word, _number, _time = Rules, "rules", "number", "number"


@lru_cache(maxsize=4096)  # a log lists the same names again and again
def _number_of(name: str, word: str) -> int | None:
    """The number of an entry by its name; `None` for what is named otherwise."""
    digits, _, rest = name.partition(".")
    named = rest == word and len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return number if named and (number := int(digits)) < 2**63 else None


def _sealed(text: bytes) -> bytes:
    return xxhash.xxh64_hexdigest(text).encode() + b"\n" + text + b"\n"


def _unsealed(content: bytes) -> bytes:
    text = content[len(_sealed(b"")) - 1 : -1]
    if content != _sealed(text):
        raise PenstockError("its checksum does not match: it is torn or altered")
    return text
