"""The guarded run's plans and reports, kept beside the demo's report for `penstock dashboard`."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pathlib import Path

#: What a checkpoint has of a guard.
_LOG = "penstock"


class KeptLog:
    """A folder like the checkpoint of the guarded query, with only the guard's part."""

    def __init__(self, out: Path) -> None:
        """Refuse a folder whose `checkpoint` is that of a query: its plans would be lost."""
        self.checkpoint = out / "checkpoint"
        others = [path.name for path in self.checkpoint.glob("*") if path.name != _LOG]
        if others:
            raise PenstockError.setting(
                "--out", str(out), "another folder", f"{self.checkpoint} is not of a demo: it has {min(others)}"
            )

    @property
    def command(self) -> str:
        """What shows it."""
        return f"penstock dashboard {shlex.quote(str(self.checkpoint))}"

    def taken_from(self, checkpoint: Path) -> dict[Path, bytes]:
        """What is to be written, by its place, from the checkpoint of a query that has ended."""
        log = checkpoint / _LOG
        files = [path for path in sorted(log.rglob("*")) if path.is_file() and not path.name.startswith(".")]
        return {self.checkpoint / _LOG / path.relative_to(log): path.read_bytes() for path in files}

    def clear(self) -> None:
        """Remove the log of a demo before this one."""
        shutil.rmtree(self.checkpoint / _LOG, ignore_errors=True)
