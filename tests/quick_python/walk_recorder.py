"""Notes which files of Penstock are entered by calls, in this process and in copies of it."""

from __future__ import annotations

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
    """Called when a Python function returns; writes a line when a file hands a kind of thing to another file."""

    def __init__(self, folder: Path) -> None:
        self._walk = folder / "walk"
        self._folder = folder
        self._seen: set[tuple[int, str, str, str]] = set()

    def __call__(self, frame: FrameType, event: str, given: Any) -> None:
        """Note the file of a function that returns or yields, and what."""
        code = frame.f_code
        if event != "return" or given is None or PACKAGE not in code.co_filename:
            return
        if frame.f_back is not None and frame.f_back.f_code.co_filename == code.co_filename:
            return  # it stays in the file
        for kind in {type(one).__name__ for one in _parts(given)}:
            self._note(kind, frame)

    def _note(self, kind: str, frame: FrameType) -> None:
        try:
            walk = self._walk.read_text()
        except OSError:
            return
        file = frame.f_code.co_filename
        seen = os.getpid(), walk, kind, file
        if not walk or seen in self._seen:
            return
        self._seen.add(seen)
        if not _importing(frame):
            with (self._folder / f"{os.getpid()}.seen").open("a") as lines:
                lines.write(f"{walk}\t{kind}\t{file.rpartition(PACKAGE)[2]}\n")


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
    recorder = Recorder(Path(FOLDER))
    threading.setprofile(recorder)
    sys.setprofile(recorder)


if FOLDER:
    start()
