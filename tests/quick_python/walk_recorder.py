"""Notes which files of Penstock hand things to which, in this process and in copies of it."""

from __future__ import annotations

import builtins
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

FOLDER = os.environ.get("PENSTOCK_WALKS", "")
PACKAGE = f"{os.sep}penstock{os.sep}"


class Recorder:
    """Called when a Python function is called or returns; writes a line when a file hands a thing to another file.

    A line has the walk, the kind of thing, and the file that hands it on: as a result, or as an argument to a function
    of the file that is named last.
    """

    def __init__(self, folder: Path) -> None:
        self._walk = folder / "walk"
        self._folder = folder
        self._seen: set[tuple[int, str, str, str, str]] = set()

    def __call__(self, frame: FrameType, event: str, given: Any) -> None:
        """Note who hands what to whom."""
        code, caller = frame.f_code, frame.f_back
        file, before = code.co_filename, "" if caller is None else caller.f_code.co_filename
        if file == before:
            return  # it stays in the file
        if event == "return" and given is not None:
            for kind in {type(one).__name__ for one in _parts(given)}:
                self._note(kind, file, "", frame)
        elif event == "call" and PACKAGE in before and not frame.f_lasti > 0:
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            found = (frame.f_locals.get(name) for name in names if name != "self")
            for kind in {type(one).__name__ for each in found for one in _parts(each)}:
                self._note(kind, before, file, frame)

    def _note(self, kind: str, file: str, to: str, frame: FrameType) -> None:
        try:
            walk = self._walk.read_text()
        except OSError:
            return
        seen = os.getpid(), walk, kind, file, to
        if not walk or seen in self._seen:
            return
        self._seen.add(seen)
        if not _importing(frame):
            with (self._folder / f"{os.getpid()}.seen").open("a") as lines:
                lines.write(f"{walk}\t{kind}\t{file.rpartition(PACKAGE)[2]}\t{to.rpartition(PACKAGE)[2]}\n")


def _parts(given: Any) -> list[Any]:
    if isinstance(given, dict):
        given = [*given.values()]
    return list(given[:20]) if isinstance(given, list | tuple) and type(given) in (list, tuple) else [given]


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def start() -> None:
    """Note calls from now on, in all threads that start from now on."""
    recorder, imports = Recorder(Path(FOLDER)), builtins.__import__

    def told(frame: FrameType, event: str, given: Any) -> None:
        """Leave out what is not of the package: Python calls this very often, and a plain function is quick."""
        if event != "c_call" and event != "c_return" and PACKAGE in frame.f_code.co_filename:  # noqa: PLR1714 - quicker
            recorder(frame, event, given)

    def unrecorded(*what: Any, **how: Any) -> Any:
        """Import without the recorder: each of Spark's workers imports much, and nothing of it is noted."""
        if sys.getprofile() is None:  # within another import
            return imports(*what, **how)
        sys.setprofile(None)
        try:
            return imports(*what, **how)
        finally:
            sys.setprofile(told)

    builtins.__import__ = unrecorded
    threading.setprofile(told)
    sys.setprofile(told)


if FOLDER:
    start()
