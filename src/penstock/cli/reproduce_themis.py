"""`penstock reproduce themis`: which figures there are, and where traces of machines come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.sim.osg.streams import has_column
from penstock.sim.themis import figures as themis
from penstock.sim.themis.data import CPU_COLUMN, FREE_COLUMN, NODE_COLUMN, recorded_traces

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.sim.themis.data import Traces


def traces(figure: str | None, data: Path | None, node: str | None, cpu: str | None, seed: int) -> Traces | None:
    """Recorded traces of machines, if a file is given; refuses options that exclude each other."""
    reading = " or ".join(f"--figure {name}" for name in themis.WITH_TRACES)
    if data is None:
        if node is not None or cpu is not None:
            raise PenstockError("--node and --cpu name columns of --data: give --data as well")
        return None
    if figure is not None and figure not in themis.WITH_TRACES:
        raise PenstockError.setting("--data", str(data), f"it with {reading}, which read traces of machines")
    free_kb = FREE_COLUMN if has_column(data, FREE_COLUMN) else None
    return recorded_traces(data, node or NODE_COLUMN, cpu or CPU_COLUMN, free_kb, seed)
