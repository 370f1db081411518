r"""Load-Aware Shedding as published: two machines that keep the average queuing latency near a target.

The operator tracks the cost of rows by key in a sketch, and sends the sketch whenever it is stable (Figure 2, Listing
3.1). The shedder sums the estimated cost of admitted rows. The time by which that sum is ahead of the clock is the
estimated queuing latency of the next row. A `Check` decides whether the row may pass (Figure 3, Listing 3.2).

$$\hat q = \hat C - \text{elapsed}, \qquad \hat C \leftarrow \hat C + (1+\varepsilon)\,\hat w(t), \qquad
\hat C \leftarrow \hat C + \Delta, \quad \Delta = C - \hat C$$

Here $\hat C$ is kept as the time at which the operator is expected to be free (`free_s`), so $\hat q$ is
`free_s - now`. Where the paper is silent: an idle operator raises `free_s` to the current time, and C is the operator's
own clock, busy or idle. Without both the estimate diverges.

N. Rivetti, Y. Busnel, L. Querzoni: Load-Aware Shedding in Stream Processing Systems, DEBS 2016, section 3.
"""

import copy
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from penstock.core.row.carried_weight import CarriedWeight
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.latency_goals import Check
from penstock.core.row.machines import Arrived, Drop, Executed, Forward, Send
from penstock.core.settings import number, whole_number

#: `printed`: send when equation (1) holds; `first_check`: at the first check, as some of the paper's numbers imply.
Sending = Literal["printed", "first_check"]


@dataclass(frozen=True, slots=True)
class Matrices:
    """Operator to shedder: the cost sketch, now stable."""

    sketch: CostSketch


@dataclass(frozen=True, slots=True)
class Delta:
    """Operator to shedder: how far its clock was ahead of the estimate it was sent."""

    seconds: float


class OperatorState(Enum):
    """The states of Figure 2."""

    START = "start"
    STABILIZING = "stabilizing"


class ShedderState(Enum):
    """The states of Figure 3."""

    NOP = "nop"
    SEND = "send"
    RUN = "run"


class StableSketch:
    """Costs by key, sent when they are stable: the common part of Figure 2 of LAS and of OSG."""

    def __init__(
        self, sketch: CostSketch, *, window_rows: int = 1024, tolerance: float = 0.05, first_check: bool = False
    ) -> None:
        """Start in START with an empty sketch; check every `window_rows` executed rows (N), up to `tolerance` (mu).

        With `first_check` the sketch is sent at the first check, regardless of equation (1).
        """
        self.state = OperatorState.START
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

    def _one_more(self) -> list[Matrices]:
        """Count a row; every window either return the sketch (2.C) or check again later (2.A, 2.B)."""
        self._executed_rows += 1
        if self._executed_rows % self._window_rows:
            return []
        settled = self._first_check or self._sketch.relative_error(self._snapshot) <= self._tolerance
        if self.state is OperatorState.START or not settled:
            self._snapshot = self._sketch.snapshot()
            self.state = OperatorState.STABILIZING
            return []
        matrices = Matrices(copy.copy(self._sketch))
        self._sketch.reset()
        self.state = OperatorState.START
        return [matrices]


class LasOperator(StableSketch):
    """Learns costs by key and sends the sketch when it is stable (Listing 3.1).

    >>> operator = LasOperator(CostSketch(rows=1, columns=1), window_rows=1)
    >>> first, second = (Executed(key=1, arrived_s=0, start_s=t, finish_s=t + 1, cost_s=1) for t in (0, 1))
    >>> operator.executed(first), operator.state
    ([], <OperatorState.STABILIZING: 'stabilizing'>)
    """

    def executed(self, row: Executed) -> list[Send]:
        """Answer a request at once; every window either send the sketch (2.C) or check again later (2.A, 2.B)."""
        sends: list[Send] = []
        if row.request is not None:
            if not isinstance(row.request, float):
                raise TypeError(f"not a request of LAS: {row.request!r}")
            sends.append(Send(Delta(row.finish_s - row.request)))
        sends += map(Send, self._one_more())
        self._sketch.update(row.key, row.cost_s)
        return sends


class PredictiveShedder:
    """Admits a row unless a check refuses its predicted queuing latency: the common part of LAS and its baselines."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._free_s = 0.0
        self._carry = CarriedWeight()

    @property
    def carried_weight(self) -> float:
        """Weight of dropped rows that no kept row represents yet."""
        return self._carry.total

    def _judged(self, row: Arrived, cost_s: float, work_s: float) -> Forward | Drop:
        """The verdict on a row of this cost, which keeps the operator busy for `work_s`."""
        self._free_s = max(self._free_s, row.now_s)
        queuing_s = self._free_s - row.now_s
        if not row.must_keep and self._check.refuses(queuing_s):
            self._carry.drop(cost_s, row.weight)
            return Drop(self._check.reason)
        self._check.record(queuing_s)
        self._free_s += work_s
        return Forward(row.weight if row.must_keep else self._carry.keep(cost_s, row.weight))


class LasShedder(PredictiveShedder):
    """Drops a row when the check refuses its estimated queuing latency (Listing 3.2).

    >>> from penstock.core.row.latency_goals import Maximum
    >>> shedder = LasShedder(Maximum(target_s=1.0), epsilon=0.0)
    >>> shedder.judge(Arrived(now_s=0.0, key=7))  # NOP: nothing is known, nothing is dropped
    Forward(weight=1.0, request=None)
    >>> sketch = CostSketch(rows=1, columns=1)
    >>> sketch.update(7, 2.0)
    >>> shedder.receive(Matrices(sketch))
    >>> shedder.judge(Arrived(now_s=1.0, key=7))  # SEND: the estimate travels with the row
    Forward(weight=1.0, request=3.0)
    >>> shedder.judge(Arrived(now_s=1.0, key=7))  # RUN: it would wait 2 s
    Drop(reason='queuing latency over target')
    """

    def __init__(self, check: Check, *, epsilon: float = 0.05) -> None:
        """Start in NOP; `epsilon` is the factor by which estimates are raised."""
        super().__init__(check)
        self.state = ShedderState.NOP
        self._factor = 1.0 + number("epsilon", epsilon, 0.0)
        self._sketch: CostSketch | None = None

    @property
    def memory_bytes(self) -> int:
        """F, W and the carried weights; zero matrices before the first message."""
        return self._carry.memory_bytes + (self._sketch.nbytes if self._sketch else 0)

    def receive(self, message: object) -> None:
        """New matrices: use them and synchronise (3.A, 3.D). A delta: correct the estimate (3.C)."""
        match message:
            case Matrices(sketch):
                self._sketch = sketch
                self.state = ShedderState.SEND
            case Delta(seconds):
                self._free_s += seconds
            case _:
                raise TypeError(f"not a message of LAS: {message!r}")

    def judge(self, row: Arrived) -> Forward | Drop:
        """Admit the row unless the check refuses; the first row after new matrices carries a request (3.B)."""
        if self._sketch is None:
            return Forward(row.weight)
        cost_s = self._sketch.estimate(row.key)
        verdict = self._judged(row, cost_s, cost_s * self._factor)
        if isinstance(verdict, Drop) or self.state is not ShedderState.SEND:
            return verdict
        self.state = ShedderState.RUN
        return Forward(verdict.weight, self._free_s)
