"""A store in a folder, which processes and machines may share."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urlsplit

from penstock.errors import PenstockError
from penstock.store.interface import Part, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_UNFINISHED = re.compile(r"\..*\.[0-9a-f]{32}\.tmp")
_LOCK_NAME = ".lock"
#: After this time an unpublished file is assumed to be left by a dead writer.
STALE_S = 3600.0
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
#: What a process exits with if it does not get the lock that another one holds; anything else shows no such lock.
_HELD = 17
_TAKE_LOCK = f"""import fcntl, sys
try:
    fcntl.flock(open(sys.argv[1], 'ab'), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit({_HELD})"""
_NO_FOLDER_SYNC = {errno.EBADF, errno.EINVAL}
#: The most bytes of a part, so that a poll of a long journal stays short.
_PART_BYTES = 4 * 2**20
#: Folders in which this process may create names: their file systems were probed.
_probed: set[Path] = set()


class FolderStore:
    """A file a name.

    A new file is written and synced under a temporary name, then linked to its final name. The link fails if that name
    is taken; a rename would replace the file. Without hard links, one writer at a time checks and renames, under a lock
    that the system frees when its holder dies.
    """

    def __init__(self, folder: str | os.PathLike[str], *, make: bool = True) -> None:
        """Open the store in this folder, which is made if it is missing; a `file:` address is a folder too.

        The folder is also probed, once a process: a file system on which two processes could both create a name is
        refused. With `make=False` no folder is made or probed and nothing is deleted: for readers, and for other
        machines.
        """
        self.folder = local_folder("folder", folder)
        if not make:
            return
        with self._telling("made and read"):
            missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
            self.folder.mkdir(parents=True, exist_ok=True)
            for made in missing:
                _sync_folder(made.parent)
            self._sweep()
        if self.folder not in _probed:
            self._probe()

    @property
    def where(self) -> str:
        """The path of the folder."""
        return str(self.folder)

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a name and return true; false if the name is taken. Durable on return."""
        temp = self.unfinished(name)
        with self._telling("written"):
            try:
                with temp.open("xb") as file:
                    self._write(file, content)
                    self._sync(file)
                return self._published(temp, name)
            finally:
                self._discard(temp)

    def unfinished(self, name: str) -> Path:
        """The path of a file to write before it is adopted; no reader sees it."""
        return self.folder / f".{name}.{uuid.uuid4().hex}.tmp"

    def adopt(self, finished: Path, name: str) -> bool:
        """Store a finished file under a name, as `create` does."""
        with self._telling("written"):
            try:
                with finished.open("rb") as file:
                    self._sync(file)
                return self._published(finished, name)
            finally:
                self._discard(finished)

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, replacing the old content. Unless `durable`, a crash may lose it."""
        temp = self.unfinished(name)
        with self._telling("written"):
            try:
                with temp.open("xb") as file:
                    self._write(file, content)
                    if durable:
                        self._sync(file)
                temp.replace(self.folder / name)
            finally:
                temp.unlink(missing_ok=True)
            if durable:
                _sync_folder(self.folder)

    def read(self, name: str) -> bytes | None:
        """The content of a name; `None` if it is not taken."""
        with self._telling("read"), suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        return None

    def has(self, name: str) -> bool:
        """Whether a name is taken."""
        with self._telling("read"):
            return (self.folder / name).exists()

    def written_s(self, name: str) -> float | None:
        """When a name was written last; `None` if it is not taken."""
        with self._telling("read"), suppress(FileNotFoundError):
            return (self.folder / name).stat().st_mtime
        return None

    def changed_s(self, below: str) -> float:
        """When a name was last created or deleted below this one; 0 if there is none."""
        return self.written_s(below) or 0.0

    def names(self) -> list[str]:
        """Every name that is taken, ascending."""
        with self._telling("read"), os.scandir(self.folder) as found:
            return sorted(one.name for one in found if one.name != _LOCK_NAME and not _UNFINISHED.fullmatch(one.name))

    def remove(self, *names: str) -> None:
        """Delete names, those that are taken."""
        with self._telling("written"):
            for name in names:
                (self.folder / name).unlink(missing_ok=True)

    def append(self, name: str, line: bytes, most_bytes: int) -> None:
        """Add a line to a name's content, which is put aside first if it is full; the folder is made if missing."""
        path = self.folder / name
        with self._telling("written"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                if path.stat().st_size >= most_bytes:
                    path.replace(path.with_name(f"{name}.old"))
            with path.open("a+b") as file:
                torn = file.tell() > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
                file.write((b"\n" if torn else b"") + line + b"\n")  # in one piece

    def part(self, name: str, offset: int) -> Part | None:
        """The content of a name from an offset on; `None` if it is not taken or cannot be read."""
        try:
            with (self.folder / name).open("rb") as file:
                status = os.fstat(file.fileno())
                file.seek(offset)
                return Part(status.st_ino, status.st_size, file.read(_PART_BYTES))
        except OSError:
            return None

    def _probe(self) -> None:
        first, second = self.unfinished("probe"), self.unfinished("probe")
        try:
            first.touch()
        except OSError:  # It cannot be written now. The first write raises that, and a reader needs none.
            return
        try:
            os.link(first, second)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                return
            with self._telling("written"):
                self._probe_lock()
        finally:
            with suppress(OSError):
                first.unlink(missing_ok=True)
                second.unlink(missing_ok=True)
        _probed.add(self.folder)

    def _probe_lock(self) -> None:
        path = self.folder / _LOCK_NAME
        with path.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = [sys.executable or "python3", "-I", "-S", "-c", _TAKE_LOCK, str(path)]
            other = subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - our own code
        if other.returncode != _HELD:
            raise StoreError.setting(
                "folder",
                self.where,
                "a folder on a file system with hard links, or with locks that hold between processes",
                "two drivers could both decide the same batch there",
            )

    def _sweep(self) -> None:
        """Delete files of dead writers. A slow writer gets an error and may try again."""
        with os.scandir(self.folder) as found:
            for one in found:
                with suppress(OSError):
                    if _UNFINISHED.fullmatch(one.name) and one.stat().st_mtime < time.time() - STALE_S:
                        Path(one.path).unlink()

    def _published(self, temp: Path, name: str) -> bool:
        won = self._publish(temp, self.folder / name)
        # The loser syncs too: the winner may have died between publishing and syncing.
        _sync_folder(self.folder)
        return won

    def _write(self, file: BinaryIO, content: bytes) -> None:
        file.write(content)
        file.flush()

    def _sync(self, file: BinaryIO) -> None:
        os.fsync(file.fileno())

    def _publish(self, temp: Path, final: Path) -> bool:
        """Publish the finished file in one step that fails if the name is taken."""
        try:
            os.link(temp, final)
        except FileExistsError:
            # Over NFS a link whose answer is lost is retried and finds its own file.
            return temp.samefile(final)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # Without hard links: check and rename, one writer at a time.
            with (self.folder / _LOCK_NAME).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if final.exists():
                    return False
                temp.rename(final)
        return True

    def _discard(self, temp: Path) -> None:
        temp.unlink(missing_ok=True)

    @contextmanager
    def _telling(self, deed: str) -> Iterator[None]:
        """Turn an error of the system into one line."""
        try:
            yield
        except OSError as error:
            why = f"the system says: {error.strerror}"
            failure = StoreError.setting("folder", self.where, f"a folder that can be {deed}", why)
            failure.why = why
            raise failure from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot sync a folder; nothing more can be done then.
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


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
    """The scheme of an address; `None` if it is a path.

    >>> scheme_of("dbfs:/x"), scheme_of("/data/a:b")
    ('dbfs', None)
    """
    found = _SCHEME.match(given)
    return found[1].lower() if found else None
