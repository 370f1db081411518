r"""Online Shuffle Grouping as published: rows go where the estimated cumulated time is least.

Every instance tracks the cost of rows by key, and sends its matrices when they are stable (`OsgInstance`). The
scheduler sums the estimated cost of rows sent to each instance, and sends the next to the one with the least (Listing
3.2):

$$o = \mathrm{arg}\min_{i} \hat C_i, \qquad \hat C_o \leftarrow \hat C_o + \hat w_{t,o}, \qquad
\hat C_i \leftarrow \hat C_i + \Delta_i, \quad \Delta_i = C_i - \hat C_i$$

The last is the synchronisation that follows all new matrices. There is one request to each instance, one reply from
each, and the differences are added when all are in (Figure 3).

Where the paper is silent or contradicts itself:

- C of an instance is its own clock, busy or idle, as in LAS. With busy time alone an instance that was idle has to
  catch up after every synchronisation, and completion times are worse than Round-Robin's.
- An idle instance does not raise $\hat C$ to the current time. With `clamp` it does; each reading fits other numbers of
  the paper.
- New matrices that come while requests are out begin a new epoch. A reply of another epoch, or a second one of the same
  instance, changes nothing.
- Several schedulers (section 4.1) each use their own sums, but C contains the rows of all of them. So each of s
  schedulers corrects the whole of a difference, and together they overshoot s times: harmless for two, ruinous for ten.
- A key never seen costs the mean of the instance's sketch.

N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni, B. Sericola: Online Scheduling for Shuffle Grouping in Distributed
Stream Processing Systems, Middleware 2016, section 3.2.
"""

from dataclasses import dataclass
from enum import Enum

from penstock.core.grouping.machines import Assign, Done, Received, Send
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.las import Matrices, StableSketch
from penstock.core.row.machines import Arrived
from penstock.core.settings import whole_number


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Scheduler to instance, with a row: the scheduler's estimate of the instance's cumulated time."""

    scheduler: int
    epoch: int
    cumulated_s: float  #: the estimate up to and including this row


@dataclass(frozen=True, slots=True)
class SyncReply:
    """Instance to the scheduler that asked: how far its own clock was ahead of that estimate."""

    epoch: int
    delta_s: float


class OsgInstance(StableSketch):
    """Learns the cost of rows here and sends the sketch when it is stable (Figure 2 and Listing 3.1).

    The rule is that of LAS's operator, with two differences of the print. A row counts in the matrices before the check
    of its window, and a reply names the epoch it belongs to.

    >>> from penstock.core.row.cost_sketch import CostSketch
    >>> instance = OsgInstance(CostSketch(rows=1, columns=1), window_rows=1)
    >>> instance.executed(Done(key=1, assigned_s=0, finish_s=1, cost_s=1)), instance.state
    ([], <OperatorState.STABILIZING: 'stabilizing'>)
    >>> [send.message for send in instance.executed(Done(key=1, assigned_s=1, finish_s=2, cost_s=1))]
    [Matrices(sketch=CostSketch(rows=1, columns=1, seed=0, count=2.0, total_cost=2.0))]
    >>> instance.state
    <OperatorState.START: 'start'>
    """

    def executed(self, row: Done) -> list[Send]:
        """Count the row, answer its request; every window send the matrices (2.C) or check again later (2.A, 2.B)."""
        self._sketch.update(row.key, row.cost_s)
        sends: list[Send] = []
        match row.request:
            case None:
                pass
            case SyncRequest(scheduler, epoch, cumulated_s):
                sends.append(Send(SyncReply(epoch, row.finish_s - cumulated_s), scheduler))
            case _:
                raise TypeError(f"not a request of OSG: {row.request!r}")
        return [*sends, *map(Send, self._one_more())]


class SchedulerState(Enum):
    """The states of Figure 3."""

    ROUND_ROBIN = "round_robin"
    SEND_ALL = "send_all"
    WAIT_ALL = "wait_all"
    RUN = "run"


class OsgScheduler:
    """Round-Robin until every instance has sent matrices, then greedy by estimated cumulated time.

    >>> scheduler = OsgScheduler(instances=1)
    >>> scheduler.assign(Arrived(now_s=0.0, key=7))
    Assign(instance=0, request=None)
    >>> from penstock.core.row.cost_sketch import CostSketch
    >>> sketch = CostSketch(rows=1, columns=1)
    >>> sketch.update(7, 2.0)
    >>> scheduler.receive(Received(1.0, 0, Matrices(sketch)))
    >>> scheduler.assign(Arrived(now_s=1.0, key=7))
    Assign(instance=0, request=SyncRequest(scheduler=0, epoch=1, cumulated_s=2.0))
    >>> scheduler.receive(Received(3.0, 0, SyncReply(epoch=1, delta_s=1.0)))
    >>> scheduler.state, scheduler.cumulated_s
    (<SchedulerState.RUN: 'run'>, (3.0,))
    """

    def __init__(self, instances: int, *, scheduler: int = 0, clamp: bool = False) -> None:
        """Start in ROUND_ROBIN; `scheduler` is this one's number among several side by side."""
        self.state = SchedulerState.ROUND_ROBIN
        self._instances = whole_number("instances", instances, 1)
        self._scheduler = whole_number("scheduler", scheduler, 0)
        self._clamp = clamp
        self._cumulated_s = [0.0] * self._instances
        self._sketches = dict[int, CostSketch]()
        self._deltas_s: dict[int, float] = {}
        self._submitted = self._requested = self._epoch = 0

    @property
    def cumulated_s(self) -> tuple[float, ...]:
        """The estimated cumulated time of every instance."""
        return tuple(self._cumulated_s)

    @property
    def memory_bytes(self) -> int:
        """A pair of matrices, an estimate and a difference for each instance."""
        return sum(sketch.nbytes for sketch in self._sketches.values()) + 16 * self._instances

    def receive(self, event: Received) -> None:
        """New matrices: use them, synchronise once all are there (3.A, 3.B, 3.F). A reply: collect it (3.D, 3.E)."""
        match event.message:
            case Matrices(sketch):
                self._sketches[event.instance] = sketch
                if len(self._sketches) == self._instances:
                    self.state = SchedulerState.SEND_ALL
                    self._epoch += 1
                    self._requested = 0
                    self._deltas_s.clear()
            case SyncReply(epoch, delta_s):
                if epoch == self._epoch:
                    self._collect(event.instance, delta_s)
            case _:
                raise TypeError(f"not a message of OSG: {event.message!r}")

    def _collect(self, instance: int, delta_s: float) -> None:
        self._deltas_s.setdefault(instance, delta_s)
        if self.state is SchedulerState.WAIT_ALL and len(self._deltas_s) == self._instances:
            for i, delta in self._deltas_s.items():
                self._cumulated_s[i] += delta
            self.state = SchedulerState.RUN

    def assign(self, row: Arrived) -> Assign:
        """The instance in turn until requests are out (3.C), from then on the one with the least cumulated time."""
        turn = self._submitted % self._instances
        self._submitted += 1
        if self.state is SchedulerState.ROUND_ROBIN:
            return Assign(turn)
        if self._clamp:
            self._cumulated_s = [max(cumulated_s, row.now_s) for cumulated_s in self._cumulated_s]
        if self.state is not SchedulerState.SEND_ALL:
            chosen = self._cumulated_s.index(min(self._cumulated_s))
            self._cumulated_s[chosen] += self._sketches[chosen].estimate(row.key)
            return Assign(chosen)
        self._cumulated_s[turn] += self._sketches[turn].estimate(row.key)
        self._requested += 1
        if self._requested == self._instances:
            self.state = SchedulerState.WAIT_ALL
        return Assign(turn, SyncRequest(self._scheduler, self._epoch, self._cumulated_s[turn]))
