"""Everything the page shows: the logs in the given folders, searched again at every poll."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.federation.account import ACCOUNT
from penstock.store.report_log import FOLDER
from penstock.web.followed import Cursor, Followed, Json
from penstock.web.guarded import FollowedSite, GuardedQuery
from penstock.web.network import FollowedNetwork, has_drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: How deep below a folder the search for logs goes.
DEPTH = 3
#: The most folders that are searched, and the most logs that are followed.
MOST_FOLDERS, MOST_LOGS = 2000, 50
#: Folders of a checkpoint that hold no log.
SPARKS_OWN = {"state", "offsets", "commits", "sources", "metadata"}
#: Time between two searches for new logs.
SEARCH_S = 2.0


class Board:
    """Follows all logs below some folders."""

    def __init__(self, folders: Sequence[Path], clock: Callable[[], float] = time.time) -> None:
        self.folders = list(folders)
        self._clock = clock
        self._followed: dict[Path, Followed] = {}
        self._searched_s: float | None = None
        self.lock = threading.Lock()  #: held while the followed logs change

    @property
    def without_log(self) -> list[Path]:
        """The folders without a log."""
        return [folder for folder in self.folders if next(_logs(folder.absolute()), None) is None]

    def refuse_nothing(self, *, wait: bool) -> None:
        """Raise an error if one of the folders has no log or, with `wait`, if none can appear in it."""
        accepted = "the checkpoint of a guarded query, that of penstock run or of a site, or a folder with such in it"
        fix = "there is no log of plans here; start the query first, or wait for it with --wait"
        if wait:
            accepted = "a folder, or the name of one to come in a folder that is there"
            fix = "there is nothing to wait for here"
        for folder in self.without_log:
            to_come = folder.is_dir() or (not folder.exists() and folder.absolute().parent.is_dir())
            if not (wait and to_come):
                raise PenstockError.setting("CHECKPOINT", str(folder), accepted, fix)

    def look(self) -> None:
        """Poll once."""
        with self.lock:
            now_s = self._clock()
            if self._searched_s is None or not 0.0 <= now_s - self._searched_s < SEARCH_S:
                self._searched_s = now_s
                self._search()
            for one in self._followed.values():
                one.look(now_s)

    def _search(self) -> None:
        for given in self.folders:
            root = given.absolute()
            for folder, kind in _logs(root):
                if folder not in self._followed and len(self._followed) < MOST_LOGS:
                    identity = hashlib.blake2s(str(folder).encode(errors="replace"), digest_size=6).hexdigest()
                    shown_as = str(given / _checkpoint(folder, root).relative_to(root))
                    name = _name(folder, root)
                    if any(one.name == name for one in self._followed.values()):
                        name = shown_as  # a/ck and b/ck are both called ck
                    self._followed[folder] = made = kind(identity, name, folder)
                    made.shown_as = shown_as

    def news(self, cursors: dict[str, Cursor]) -> list[Json]:
        """What a reader has not seen yet, by its cursors, which advance."""
        with self.lock:
            found = [one.news(cursors.setdefault(one.identity, Cursor())) for one in self._followed.values()]
            return [one for one in found if one is not None]

    def guarded(self, identity: str) -> GuardedQuery:
        """The guarded query of that identity."""
        for one in self._followed.values():
            if one.identity == identity and isinstance(one, GuardedQuery) and not isinstance(one, FollowedSite):
                return one
        raise PenstockError.setting("id", identity[:40], "a guarded query that is shown")


def _logs(root: Path) -> Iterator[tuple[Path, type[Followed]]]:
    """The logs in a folder and below it."""
    level, seen = [root], 0
    for _ in range(DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            seen += 1
            if seen > MOST_FOLDERS:
                return
            # A checkpoint has many folders of Spark and one of the guard.
            own = next(((path, kind) for path in (folder, folder / "penstock") if (kind := _kind(path))), None)
            if own is not None:
                yield own
                continue
            try:
                below += sorted(Path(one.path) for one in os.scandir(folder) if _is_worth_a_look(one))
            except OSError:
                continue
        level = below


def _is_worth_a_look(one: os.DirEntry[str]) -> bool:
    return one.is_dir(follow_symlinks=False) and not one.name.startswith((".", "_")) and one.name not in SPARKS_OWN


def _kind(folder: Path) -> type[Followed] | None:
    if has_drawing(folder):
        return FollowedNetwork
    if (folder / ACCOUNT).is_dir() and (folder / FOLDER).is_dir():
        return FollowedSite
    if (folder / "plans").is_dir() and ((folder / "guard.json").is_file() or (folder / FOLDER).is_dir()):
        return GuardedQuery
    return None


def _name(folder: Path, root: Path) -> str:
    """What identifies a log: the checkpoint's name, or its path below the given folder."""
    below = _checkpoint(folder, root).relative_to(root).as_posix()
    return _checkpoint(folder).name if below == "." else below


def _checkpoint(folder: Path, root: Path | None = None) -> Path:
    """The checkpoint that holds a guard's folder, unless it is above the given folder."""
    return folder.parent if folder.name == "penstock" and folder != root else folder
