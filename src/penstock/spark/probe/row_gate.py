"""The row gate: inside a task, the row-by-row shedder in front of the function, which bounds the length of a batch.

It uses the core machines of the simulator. A row is judged by its wait so far and by the cost of the rows before it.
Its verdicts depend on the clock, so unlike the gate's they may differ at a replay.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.control.backlog import MOST_AGE_S
from penstock.core.row.machines import Arrived, Drop, Executed
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.core.control.policies import Machines

#: Why the row gate sheds a row.
TOO_LATE = "too late within its batch"


class Passed(NamedTuple):
    """An admitted row: its new weight, and the data for the machines when it is done."""

    weight: float
    bucket: int
    arrived_s: float
    request: object | None


class RowGate:
    """Judges the rows of one worker, batch after batch."""

    def __init__(self, machines: Machines) -> None:
        self._shedder, self._operator = machines
        self._rows = 0

    def judge(self, bucket: int, arrival_s: float, now_s: float, *, must_keep: bool, weight: float) -> Passed | None:
        """Whether to process a row now."""
        # A row without a plausible arrival time counts as just arrived.
        arrived_s = min(arrival_s, now_s) if now_s - MOST_AGE_S <= arrival_s < math.inf else now_s
        self._rows += 1
        try:
            verdict = self._shedder.judge(Arrived(arrived_s, bucket, self._rows, must_keep=must_keep, weight=weight))
        except PenstockError:  # an invalid weight, for example: such a row passes
            return Passed(weight, bucket, arrived_s, None)
        return None if isinstance(verdict, Drop) else Passed(verdict.weight, bucket, arrived_s, verdict.request)

    def executed(self, row: Passed, start_s: float, cost_s: float) -> None:
        """Learn from a row that is done."""
        start_s = max(start_s, row.arrived_s)
        done = Executed(row.bucket, row.arrived_s, start_s, start_s + cost_s, cost_s, row.request)
        for send in self._operator.executed(done):
            self._shedder.receive(send.message)
