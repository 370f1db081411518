"""Penstock's own load-aware shedder: LAS's idea, held to the latency actually measured.

Like LAS it predicts how long a row will wait from the estimated cost of the rows before it. It differs in what it does
with feedback, which comes often and small instead of rarely and whole:

- every `SYNC_EVERY`-th row carries a request; the reply brings the (key, cost) of the rows executed since the last one;
- the reply says by how much clock and total waiting time differ from the shedder's own sums *at the request*: its free
  time is the sum of estimated work plus the clock's error, and idle time belongs to the error. The
  difference replaces the previous one and is not added to it, so late, lost or repeated replies never correct twice;
- the check is a `LatencyBudget` booked in measured waiting time, so errors of the estimate cost rows, not the target;
- costs come from a `CostModel`: exact for frequent keys, quick to follow a change of everything at once;
- with `prefer="cheap"` a `Price` refuses the rows that cost most for their weight first.

It can shed after one reply instead of thousands of rows, and there is no state in which everything is refused.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

from penstock.core.budget import LatencyBudget
from penstock.core.carry import CarriedWeight
from penstock.core.costs import HEAVY_PLACES, CostModel
from penstock.core.hashing import unit_interval, xxhash64
from penstock.core.price import FLOOR, Price
from penstock.core.shedding import Arrived, Drop, Executed, Forward, Send

#: Rows let through between two requests; the first ones each carry a request.
SYNC_EVERY = 16
#: Executed rows an operator remembers for the next reply, at most: between two requests there are `SYNC_EVERY`.
UNREPORTED_ROWS = 64

Prefer = Literal["any", "cheap"]


@dataclass(frozen=True, slots=True)
class Request:
    """Shedder to operator, with a row: the shedder's own sums up to and including this row."""

    number: int
    work_s: float  #: estimated work of all rows let through so far
    queued_s: float  #: predicted waiting time of all rows let through so far


@dataclass(frozen=True, slots=True)
class Feedback:
    """Operator to shedder, when that row is done: what rows cost, and how wrong the sums were."""

    number: int
    key_hashes: tuple[int, ...]  #: `xxhash64` of each row's key: keys may be long, a machine's memory may not
    costs_s: tuple[float, ...]
    clock_error_s: float
    queued_error_s: float


class LoadAwareOperator:
    """Remembers the rows executed since the last request and answers the next one with them."""

    def __init__(self) -> None:
        """Start with nothing executed."""
        self._rows: deque[tuple[int, float]] = deque(maxlen=UNREPORTED_ROWS)
        self._queued_s = 0.0

    @property
    def memory_bytes(self) -> int:
        """A key hash and a cost for each row that may be remembered."""
        return UNREPORTED_ROWS * 16

    def executed(self, row: Executed) -> list[Send]:
        """Note the row; answer its request if it carries one."""
        self._rows.append((xxhash64(row.key), row.cost_s))
        self._queued_s += row.start_s - row.arrived_s
        if not isinstance(row.request, Request):
            return []
        feedback = Feedback(
            number=row.request.number,
            key_hashes=tuple(key_hash for key_hash, _ in self._rows),
            costs_s=tuple(cost_s for _, cost_s in self._rows),
            clock_error_s=row.finish_s - row.request.work_s,
            queued_error_s=self._queued_s - row.request.queued_s,
        )
        self._rows.clear()
        return [Send(feedback)]


class LoadAwareShedder:
    """Keeps the mean queuing latency within the target by measured waiting time.

    >>> shedder = LoadAwareShedder(target_s=1.0)
    >>> shedder.judge(Arrived(now_s=0.0, key="a"))
    Forward(weight=1.0, request=Request(number=1, work_s=0.0, queued_s=0.0))
    >>> shedder.receive(Feedback(1, (xxhash64("a"),), (30.0,), clock_error_s=30.0, queued_error_s=0.0))
    >>> shedder.judge(Arrived(now_s=5.0, key="a"))  # the operator is busy until t = 30 s
    Drop(reason='latency budget spent')
    """

    def __init__(
        self, target_s: float, *, prefer: Prefer = "any", seed: int = 0, heavy_places: int = HEAVY_PLACES
    ) -> None:
        """Hold the mean queuing latency within `target_s`; know the costs of `heavy_places` frequent keys exactly."""
        self._budget = LatencyBudget(target_s)
        self._price = Price(target_s) if prefer == "cheap" else None
        self._costs = CostModel(seed, heavy_places=heavy_places)
        self._carry = CarriedWeight()
        self._seed = seed
        self._work_s = 0.0
        self._queued_s = 0.0
        self._clock_error_s = 0.0
        self._queued_error_s = 0.0
        self._forwarded = 0
        self._requests = 0
        self._answered = 0

    @property
    def carried_weight(self) -> float:
        """Weight of dropped rows that no kept row stands for yet."""
        return self._carry.total

    @property
    def memory_bytes(self) -> int:
        """Cost model and carried weights."""
        return self._costs.memory_bytes + self._carry.memory_bytes

    def receive(self, message: object) -> None:
        """Take in a reply, unless a newer one is in already."""
        if not isinstance(message, Feedback):
            raise TypeError(f"not a message of the load-aware operator: {message!r}")
        if message.number <= self._answered:
            return
        self._answered = message.number
        self._costs.learn(message.key_hashes, message.costs_s)
        self._clock_error_s = message.clock_error_s
        self._budget.correct(message.queued_error_s - self._queued_error_s)
        self._queued_error_s = message.queued_error_s

    def judge(self, row: Arrived) -> Forward | Drop:
        """Refuse what is too dear at this queue, then what the latency budget cannot pay for."""
        queuing_s = self._work_s + self._clock_error_s - row.now_s
        if queuing_s < 0.0:  # idle: the clock went on without work
            self._clock_error_s = row.now_s - self._work_s
            queuing_s = 0.0
        cost_s = self._costs.estimate(xxhash64(row.key))
        weight = row.weight
        if self._price is not None and self._too_dear(self._price, row, cost_s, queuing_s):
            if unit_interval(xxhash64(row.row, self._seed)) >= FLOOR:
                return Drop(self._price.reason)
            weight /= FLOOR  # it stands for the others that were as dear
        if not row.must_keep:
            if self._budget.refuses(queuing_s):
                self._carry.drop(cost_s, weight)
                return Drop(self._budget.reason)
            weight = self._carry.keep(cost_s, weight)
        self._budget.record(queuing_s)
        self._work_s += cost_s
        self._queued_s += queuing_s
        return Forward(weight, self._next_request())

    def _too_dear(self, price: Price, row: Arrived, cost_s: float, queuing_s: float) -> bool:
        price.follow(queuing_s)
        mean_s = self._costs.mean
        if row.must_keep or mean_s <= 0.0:
            return False
        return price.refuses(cost_s / (mean_s * row.weight), queuing_s)

    def _next_request(self) -> Request | None:
        self._forwarded += 1
        if self._forwarded > SYNC_EVERY and self._forwarded % SYNC_EVERY:
            return None
        self._requests += 1
        return Request(self._requests, self._work_s, self._queued_s)
