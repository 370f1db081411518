"""Logs under a query's checkpoint: the plans that were in force, and which batch was judged by which plan.

One file an entry. An entry is written once and never changes: the first writer wins and all others are told so. That
holds between threads and processes, and after a crash at any moment an entry is either whole or absent. Old entries may
be purged.
"""

import errno
import fcntl
import logging
import os
import re
import time
import uuid
from bisect import bisect_left
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import xxhash

from penstock.errors import PenstockError
from penstock.message import Message
from penstock.plan import Binding, Plan, Rules

_logger = logging.getLogger(__name__)

_M = TypeVar("_M", bound=Message)

_TEMP_NAME = re.compile(r"\.[0-9]{20}\.[0-9a-f]{32}\.tmp")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCK_NAME = ".lock"
_LEASE_NAMES = _LEASE_NAME, _NEW_LEASE_NAME = ".lease", ".lease.new"
_STALE_S = 3600.0
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_FOLDER_SYNC = {errno.EBADF, errno.EINVAL}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file of the log's folder that holds no readable entry, and why not."""

    path_name: str
    why: str


class PlanStore(Protocol):
    """What a plan log is, wherever it keeps its plans: put-if-absent by version, never changed."""

    def add(self, version: int, plan: Plan) -> bool:
        """Keep the plan and return true; false if that version was already taken."""

    def get(self, version: int) -> Plan | None:
        """The plan of that version; `None` if there is none to read."""

    def versions(self) -> list[int]:
        """Every version taken, ascending."""

    def latest(self) -> Plan | None:
        """The newest readable plan; `None` if there is none."""

    def plans(self) -> Iterator[Plan]:
        """Every readable plan, oldest first."""

    def next_version(self) -> int:
        """The version after the newest one taken."""

    def skipped(self) -> list[Skipped]:
        """What lies in the log and cannot be read."""

    def renew(self, version: int, now_s: float) -> None:
        """Let the plan of that version act for another lease from now on."""

    def renewed_s(self, version: int) -> float:
        """When the plan of that version was last renewed; 0 if it never was."""


class Log(Generic[_M]):
    """Entries of one kind in a folder, which readers and writers of many processes may share.

    Each file holds two lines: the xxHash64 of the entry's JSON, and that JSON. A file that does not check out
    is skipped, named by `skipped` and warned about once; its number stays taken.
    """

    _kind: type[_M]  #: what an entry is
    _word: str  #: what an entry is called, also the ending of its file's name
    _number: str  #: the field that numbers the entries
    _time: str  #: the field that says when an entry was made

    def __init__(self, folder: str | os.PathLike[str], *, make: bool = True) -> None:
        """Open the log in this folder, which is made if it is missing; a `file:` address is a folder too.

        With `make=False` no folder is made: whoever only looks, or runs on another machine, must not leave one behind.
        """
        self.folder = local_folder("folder", folder)
        self._warned: set[str] = set()
        if not make:
            return
        with self._telling("made and read"):
            missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
            self.folder.mkdir(parents=True, exist_ok=True)
            for made in missing:
                self._sync_folder(made.parent)
            os.scandir(self.folder).close()

    def add(self, version: int, entry: _M) -> bool:
        """Keep the entry and return true; false if that number was already taken.

        Either way the entry is durable when this returns. If it raises instead, the number may or may not
        have been taken: adding it again tells.
        """
        if (own := getattr(entry, self._number)) != version:
            raise PenstockError.setting(self._number, version, f"the {self._number} of the {self._word}, {own}")
        final = self.folder / self._name(version)
        temp = self.folder / f".{version:020d}.{uuid.uuid4().hex}.tmp"
        with self._telling("written"):
            try:
                with temp.open("xb") as file:
                    self._write(file, _sealed(entry.to_json().encode()))
                    self._sync(file)
                added = self._publish(temp, final)
            finally:
                self._discard(temp)
            # Also for the loser: the winner may have published and not yet synced, or have died there.
            self._sync_folder(self.folder)
        return added

    def get(self, version: int) -> _M | None:
        """The entry of that number; `None` if it is absent or cannot be read."""
        found = self._look(self._name(version)) if version >= 0 else None
        return found if isinstance(found, self._kind) else None

    def taken(self, version: int) -> bool:
        """Whether that number is taken, readable or not; unlike `versions`, as fast in a long log as in a short one."""
        return version >= 0 and (self.folder / self._name(version)).exists()

    def versions(self) -> list[int]:
        """Every number taken, ascending; also one whose file cannot be read."""
        found = []
        for name in self._names():
            if self._is_entry(name):
                found.append(int(name.partition(".")[0]))
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
        for version in self.versions()[:-1]:
            if version >= before:
                return
            (self.folder / self._name(version)).unlink(missing_ok=True)

    def retain(self, needed: Container[int], since: int) -> None:
        """Delete every entry that is not needed, except for those from a number on and the newest one."""
        for version in self.versions()[:-1]:
            if version >= since:
                return
            if version not in needed:
                (self.folder / self._name(version)).unlink(missing_ok=True)

    def oldest(self) -> _M | None:
        """The oldest readable entry; `None` if there is none."""
        return next(self.entries(), None)

    def made_before(self, time_s: float) -> int | None:
        """The number of the newest entry made before that time; `None` if there is none.

        Only a few entries are read: later entries have later times. One that cannot be read counts as old.
        """
        versions = self.versions()
        old = bisect_left(versions, x=True, key=lambda version: not self._is_older(version, time_s))
        return versions[old - 1] if old else None

    def _is_older(self, version: int, time_s: float) -> bool:
        entry = self.get(version)
        return entry is None or getattr(entry, self._time) < time_s

    def remove(self, version: int) -> None:
        """Delete one entry, if it is there."""
        with self._telling("written"):
            (self.folder / self._name(version)).unlink(missing_ok=True)

    def skipped(self) -> list[Skipped]:
        """Every file that holds no readable entry, with the reason; not what a writer is still busy with."""
        found = [self._look(name) for name in self._names()]
        return [skipped for skipped in found if isinstance(skipped, Skipped)]

    def _write(self, file: BinaryIO, content: bytes) -> None:
        file.write(content)
        file.flush()

    def _sync(self, file: BinaryIO) -> None:
        os.fsync(file.fileno())

    def _publish(self, temp: Path, final: Path) -> bool:
        """Give the finished file its name in one step that fails if the name is taken."""
        try:
            # A rename would replace a plan that is already there; a link is refused.
            os.link(temp, final)
        except FileExistsError:
            # Over NFS a link whose answer got lost is tried again, and meets itself.
            return temp.samefile(final)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            return self._publish_locked(temp, final)
        return True

    def _publish_locked(self, temp: Path, final: Path) -> bool:
        """Publish where files cannot be linked: look and rename, one writer at a time.

        The system frees the lock of a writer that dies, so none can leave a version half taken.
        """
        with (self.folder / _LOCK_NAME).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if final.exists():
                return False
            temp.rename(final)
            return True

    def _discard(self, temp: Path) -> None:
        temp.unlink(missing_ok=True)

    def _sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some file systems cannot sync a folder and say so; there is nothing more to be done then.
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(descriptor)

    def _names(self) -> list[str]:
        with self._telling("read"):
            return sorted(path.name for path in self.folder.iterdir())

    def _name(self, number: int) -> str:
        return f"{number:020d}.{self._word}"

    def _is_entry(self, name: str) -> bool:
        return re.fullmatch(rf"[0-9]{{20}}\.{self._word}", name) is not None

    def _look(self, name: str) -> _M | Skipped | None:
        """What lies under this name: `None` for nothing at all, or for what a writer is busy with."""
        path = self.folder / name
        found = self._read(path) if self._is_entry(name) else _read_other(path, self._word)
        if isinstance(found, Skipped) and name not in self._warned:
            self._warned.add(name)
            _logger.warning("%s log %s: %s is skipped: %s", self._word, self.folder, name, found.why)
        return found

    def _read(self, path: Path) -> _M | Skipped | None:
        try:
            entry = self._kind.from_json(_unsealed(path.read_bytes()).decode())
        except FileNotFoundError:
            return None
        except OSError as error:
            return Skipped(path.name, f"the system says: {error.strerror}")
        except ValueError as error:
            return Skipped(path.name, str(error))
        if self._name(number := getattr(entry, self._number)) != path.name:
            return Skipped(path.name, f"it holds {self._number} {number}")
        return entry

    @contextmanager
    def _telling(self, deed: str) -> Iterator[None]:
        """Tell in one line what the system does not allow the log to do."""
        try:
            yield
        except OSError as error:
            raise PenstockError.setting(
                "folder",
                str(self.folder),
                f"a folder that can be {deed}",
                f"the system says: {error.strerror}",
            ) from error


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
        """Let the plan of that version act for another lease from now on.

        That is one small file, replaced each time. It need not survive a crash: without it rows flow.
        """
        with self._telling("written"):
            (self.folder / _NEW_LEASE_NAME).write_bytes(_sealed(f"{version} {now_s!r}".encode()))
            (self.folder / _NEW_LEASE_NAME).replace(self.folder / _LEASE_NAME)

    def renewed_s(self, version: int) -> float:
        """When the plan of that version was last renewed; 0 if it never was."""
        try:
            renewed, renewed_s = _unsealed((self.folder / _LEASE_NAME).read_bytes()).split()
        except (OSError, ValueError):  # none was ever renewed, or the file is torn
            return 0.0
        return float(renewed_s) if int(renewed) == version else 0.0


class BindingLog(Log[Binding]):
    """Batches by number, each bound for good to the plan that judges it."""

    _kind, _word, _number, _time = Binding, "binding", "batch", "bound_s"


class RulesLog(Log[Rules]):
    """Rules by number, each written when a gate was made."""

    _kind, _word, _number, _time = Rules, "rules", "number", "number"


def local_folder(setting: str, folder: str | os.PathLike[str]) -> Path:
    """The absolute path of a folder given as a path or a `file:` address; an address elsewhere is refused."""
    given = os.fspath(folder) if isinstance(folder, str | os.PathLike) else folder
    if not isinstance(given, str) or not given:
        raise PenstockError.setting(setting, given, "the path of a folder")
    scheme = scheme_of(given)
    if scheme == "file":
        return Path(unquote(urlsplit(given).path)).absolute()
    if scheme is not None:
        raise PenstockError.setting(setting, given, "a folder of a file system that is mounted here")
    if given.startswith("~"):
        raise PenstockError.setting(setting, given, "the whole path", "~ is not replaced here")
    return Path(given).absolute()


def scheme_of(given: str) -> str | None:
    """What an address begins with, up to its colon; `None` if it is a path.

    >>> scheme_of("dbfs:/x"), scheme_of("/data/a:b")
    ('dbfs', None)
    """
    found = _SCHEME.match(given)
    return found[1].lower() if found else None


def _sealed(text: bytes) -> bytes:
    return xxhash.xxh64_hexdigest(text).encode() + b"\n" + text + b"\n"


def _unsealed(content: bytes) -> bytes:
    text = content[len(_sealed(b"")) - 1 : -1]
    if content != _sealed(text):
        raise PenstockError("its checksum does not match: it is torn or altered")
    return text


def _read_other(path: Path, word: str) -> Skipped | None:
    if path.name in (_LOCK_NAME, *_LEASE_NAMES):
        return None
    if not _TEMP_NAME.fullmatch(path.name):
        return Skipped(path.name, f"it is not named as a {word} is")
    try:
        status = path.stat()
    except OSError:
        return None  # published or discarded in the meantime
    if status.st_nlink > 1:
        return None  # published: its writer stopped just before it threw this name away
    age_s = time.time() - status.st_mtime
    # It is left in place: to delete it under a writer that is only slow would cost that writer its plan.
    return Skipped(path.name, "its writer stopped before it was published") if age_s > _STALE_S else None
