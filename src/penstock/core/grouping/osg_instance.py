"""The instance's half of Online Shuffle Grouping (OSG, Figure 2 and Listing 3.1): learn costs by key, send when stable.

The rule is that of LAS's operator, with two differences of the print: a row counts in the matrices before the check of
its window, and a reply names the epoch it belongs to. Notes on the readings are with `penstock.core.grouping.osg`.
"""

import copy
from dataclasses import dataclass
from enum import Enum

from penstock.core.grouping.machines import Done, Send
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.settings import number, whole_number


@dataclass(frozen=True, slots=True)
class Matrices:
    """Instance to all schedulers: F and W, now stable."""

    sketch: CostSketch


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Scheduler to instance, with a row: what the scheduler believes of the instance's cumulated time."""

    scheduler: int
    epoch: int
    cumulated_s: float  #: the estimate up to and including this row


@dataclass(frozen=True, slots=True)
class SyncReply:
    """Instance to the scheduler that asked: how far its own clock was ahead of that estimate."""

    epoch: int
    delta_s: float


class InstanceState(Enum):
    """The states of Figure 2."""

    START = "start"
    STABILIZING = "stabilizing"


class OsgInstance:
    """Learns what rows cost here and sends the sketch when it has settled.

    >>> instance = OsgInstance(CostSketch(rows=1, columns=1), window_rows=1)
    >>> instance.executed(Done(key=1, assigned_s=0, finish_s=1, cost_s=1)), instance.state
    ([], <InstanceState.STABILIZING: 'stabilizing'>)
    >>> [send.message for send in instance.executed(Done(key=1, assigned_s=1, finish_s=2, cost_s=1))]
    [Matrices(sketch=CostSketch(rows=1, columns=1, seed=0, count=2.0, total_cost=2.0))]
    >>> instance.state
    <InstanceState.START: 'start'>
    """

    def __init__(
        self, sketch: CostSketch, *, window_rows: int = 1024, tolerance: float = 0.05, first_check: bool = False
    ) -> None:
        """Start in START with an empty sketch; check every `window_rows` rows (N), up to `tolerance` (mu).

        With `first_check` the matrices go out at the first check, whatever equation (1) says.
        """
        self.state = InstanceState.START
        self._window_rows = whole_number("window_rows", window_rows, 1)
        self._tolerance = number("tolerance", tolerance, 0.0)
        self._first_check = first_check
        self._sketch = sketch
        self._snapshot = sketch.snapshot()
        self._executed_rows = 0

    @property
    def memory_bytes(self) -> int:
        """F, W and the snapshot S."""
        return self._sketch.nbytes + self._snapshot.nbytes

    def executed(self, row: Done) -> list[Send]:
        """Count the row, answer its request; every window send the matrices (2.C) or look again later (2.A, 2.B)."""
        self._sketch.update(row.key, row.cost_s)
        self._executed_rows += 1
        sends: list[Send] = []
        match row.request:
            case None:
                pass
            case SyncRequest(scheduler, epoch, cumulated_s):
                sends.append(Send(SyncReply(epoch, row.finish_s - cumulated_s), scheduler))
            case _:
                raise TypeError(f"not a request of OSG: {row.request!r}")
        if self._executed_rows % self._window_rows == 0:
            if self.state is InstanceState.STABILIZING and self._settled():
                sends.append(Send(Matrices(copy.copy(self._sketch))))
                self._sketch.reset()
                self.state = InstanceState.START
            else:
                self._snapshot = self._sketch.snapshot()
                self.state = InstanceState.STABILIZING
        return sends

    def _settled(self) -> bool:
        return self._first_check or self._sketch.relative_error(self._snapshot) <= self._tolerance
