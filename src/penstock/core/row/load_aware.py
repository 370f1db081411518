"""Penstock's load-aware shedder: LAS corrected by measured latency.

Like LAS it predicts how long a row will wait from the estimated cost of the rows before it. It differs in its feedback,
which is frequent and small instead of rare and complete:

- every `SYNC_EVERY`-th row, and at least one per target interval, carries a request. The reply has the (key, cost) of
  the rows executed since the last one;
- the reply says by how much clock and total waiting time differ from the shedder's own sums *at the request*. The
  operator's free time is the sum of estimated work plus the clock's error, and idle time belongs to the error. The
  difference replaces the previous one, so a late or repeated reply never corrects twice;
- an unanswered request is information too: the operator has not finished that row, or had not when the last reply was
  sent. So rows that passed after it still wait. While silence closes the gate, one probe row passes per target
  interval; after `SILENCE_TARGETS` targets of silence reports count as broken, and the estimates decide;
- after `SILENCE_TARGETS` targets without a passed row, one row passes regardless of the estimates, so that a wrong
  clock recovers;
- the check is a `LatencyBudget` in measured waits, so a wrong estimate costs rows rather than the target;
- costs come from a `CostModel`: exact for frequent keys, and quick to follow a common change of all costs;
- with `prefer="cheap"` a `Price` refuses the rows that cost most for their weight first.

It can shed after one reply instead of thousands of rows. Rows that passed before that do not count against later ones.
No state refuses all rows permanently.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple

from penstock.core.hashing import unit_interval, xxhash64
from penstock.core.row.carried_weight import CarriedWeight
from penstock.core.row.cost_model import HEAVY_PLACES, CostModel
from penstock.core.row.latency_budget import LatencyBudget
from penstock.core.row.machines import Arrived, Drop, Executed, Forward, Send
from penstock.core.row.price import FLOOR, Price
from penstock.errors import PenstockError

#: Admitted rows between two requests; the first ones each carry one, and so does a row after a target without.
SYNC_EVERY = 8
#: If a request stays unanswered for this many targets, the operator has stopped reporting: use the estimates alone.
SILENCE_TARGETS = 64.0
#: The decay of the longest delay of a reply, from one reply to the next.
REPLY_MEMORY = 0.95
#: The maximum number of unanswered requests in memory: the oldest, which matter most.
UNANSWERED_REQUESTS = 64
#: The maximum number of executed rows in memory for the next reply; up to `SYNC_EVERY` lie between two requests.
UNREPORTED_ROWS = 64

Prefer = Literal["any", "cheap"]


@dataclass(frozen=True, slots=True)
class Request:
    """Shedder to operator, with a row: the shedder's own sums up to and including this row."""

    number: int
    work_s: float  #: estimated work of all admitted rows
    queued_s: float  #: predicted waiting time of all admitted rows


@dataclass(frozen=True, slots=True)
class Feedback:
    """Operator to shedder, when that row is done: the costs of rows, and the errors of the sums."""

    number: int
    finished_s: float  #: when that row was done, by the operator's clock
    key_hashes: tuple[int, ...]  #: `xxhash64` of each row's key: keys may be long, a machine's memory may not
    costs_s: tuple[float, ...]
    clock_error_s: float
    queued_error_s: float

    def __post_init__(self) -> None:
        """Refuse values that would distort all later verdicts."""
        for name in ("finished_s", "clock_error_s", "queued_error_s"):
            if not math.isfinite(getattr(self, name)):
                raise PenstockError.setting(name, getattr(self, name), "a finite number of seconds")
        if len(self.key_hashes) != len(self.costs_s):
            raise PenstockError.setting("costs_s", self.costs_s, f"one cost for each of {len(self.key_hashes)} keys")


class _Sent(NamedTuple):
    """An unanswered request, as the shedder remembers it."""

    number: int
    work_s: float
    sent_s: float


class LoadAwareOperator:
    """Remembers the rows executed since the last request and answers the next one with them."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, float]] = deque(maxlen=UNREPORTED_ROWS)
        self._queued_s = 0.0

    @property
    def memory_bytes(self) -> int:
        """A key hash and a cost for each row that may be remembered."""
        return UNREPORTED_ROWS * 16

    def executed(self, row: Executed) -> list[Send]:
        """Record the row; answer its request if it carries one."""
        self._rows.append((xxhash64(row.key), row.cost_s))
        self._queued_s += row.start_s - row.arrived_s
        if not isinstance(row.request, Request):
            return []
        feedback = Feedback(
            number=row.request.number,
            finished_s=row.finish_s,
            key_hashes=tuple(key_hash for key_hash, _ in self._rows),
            costs_s=tuple(cost_s for _, cost_s in self._rows),
            clock_error_s=row.finish_s - row.request.work_s,
            queued_error_s=self._queued_s - row.request.queued_s,
        )
        self._rows.clear()
        return [Send(feedback)]


class Requests:
    """The requests to one operator: the time of the next, the unanswered ones, and the wait that silence implies.

    Attributes:
        sent: The number of requests sent.
    """

    def __init__(self, target_s: float) -> None:
        """Start with none; silence is long after `SILENCE_TARGETS` of these targets."""
        self.sent = 0
        self._target_s, self._silence_s = target_s, target_s * SILENCE_TARGETS
        self._forwarded = self._answered = 0
        self._judged_s = self._forwarded_s = self._sent_s = 0.0
        self._unanswered: deque[_Sent] = deque()
        self._reporting = True
        self._finished_s: float | None = None
        self._reply_way_s = 0.0

    def is_news(self, reply: Feedback) -> bool:
        """Whether no newer reply is in already."""
        return reply.number > self._answered

    def answered(self, reply: Feedback) -> None:
        """Process a reply."""
        self._answered, self._finished_s, self._reporting = reply.number, reply.finished_s, True
        while self._unanswered and self._unanswered[0].number <= reply.number:
            self._unanswered.popleft()

    def long_closed(self, now_s: float) -> bool:
        """Whether no row has passed for too long, so that one must pass."""
        return abs(now_s - self._forwarded_s) > self._silence_s

    def least_wait_s(self, now_s: float, work_s: float) -> float:
        """The minimum wait of a row that arrives now, given the silence; `work_s` is the work of all admitted rows."""
        if self._finished_s is not None:
            # It came after the previous row was judged, which bounds its delay from below.
            self._reply_way_s = max(self._judged_s - self._finished_s, self._reply_way_s * REPLY_MEMORY)
            self._finished_s = None
        self._judged_s = now_s
        if self._unanswered and now_s - self._unanswered[0].sent_s > self._silence_s:
            self._reporting = False  # until the next reply, silence means nothing
        # After a target without an admitted row, one passes as a probe; its reply replaces a lost one.
        if self._unanswered and self._reporting and abs(now_s - self._forwarded_s) <= self._target_s:
            return max(work_s - self._unanswered[0].work_s - self._reply_way_s, 0.0)
        return 0.0

    def next(self, now_s: float, work_s: float, queued_s: float) -> Request | None:
        """The request of a row that passes now, if one is due."""
        self._forwarded += 1
        self._forwarded_s = now_s
        recent = abs(now_s - self._sent_s) <= self._target_s
        if self._forwarded > SYNC_EVERY and self._forwarded % SYNC_EVERY and recent:
            return None
        self.sent += 1
        self._sent_s = now_s
        if len(self._unanswered) < UNANSWERED_REQUESTS:
            self._unanswered.append(_Sent(self.sent, work_s, now_s))
        return Request(self.sent, work_s, queued_s)


class LoadAwareShedder:
    """Keeps the mean queuing latency within the target by measured waiting time.

    >>> shedder = LoadAwareShedder(target_s=1.0)
    >>> shedder.judge(Arrived(now_s=0.0, key="a"))
    Forward(weight=1.0, request=Request(number=1, work_s=0.0, queued_s=0.0))
    >>> shedder.receive(Feedback(1, 90.0, (xxhash64("a"),), (90.0,), clock_error_s=90.0, queued_error_s=0.0))
    >>> shedder.judge(Arrived(now_s=5.0, key="a"))  # the operator is busy until t = 90 s
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
        self._work_s = self._queued_s = 0.0
        self._clock_error_s = self._queued_error_s = 0.0
        self._requests = Requests(target_s)
        self._blind_requests: int | None = None  # sent before the first reply

    @property
    def carried_weight(self) -> float:
        """Weight of dropped rows that no kept row represents yet."""
        return self._carry.total

    @property
    def memory_bytes(self) -> int:
        """Cost model, carried weights and the requests that may be unanswered."""
        return self._costs.memory_bytes + self._carry.memory_bytes + UNANSWERED_REQUESTS * 24

    def receive(self, message: object) -> None:
        """Process a reply, unless a newer one is in already."""
        if not isinstance(message, Feedback):
            raise TypeError(f"not a message of the load-aware operator: {message!r}")
        if not self._requests.is_news(message):
            return
        self._costs.learn(message.key_hashes, message.costs_s)
        self._requests.answered(message)
        self._clock_error_s = message.clock_error_s
        if self._blind_requests is None:
            self._blind_requests = self._requests.sent
        if message.number > self._blind_requests:
            self._budget.correct(message.queued_error_s - self._queued_error_s)
        self._queued_error_s = message.queued_error_s

    def judge(self, row: Arrived) -> Forward | Drop:
        """Refuse rows that are too expensive for this queue, then those that exceed the latency budget."""
        queuing_s = self._predict(row.now_s)
        cost_s = self._costs.estimate(xxhash64(row.key))
        weight = row.weight
        if self._price is not None and self._too_dear(self._price, row, cost_s, queuing_s):
            if unit_interval(xxhash64(row.row, self._seed)) >= FLOOR:
                return Drop(self._price.reason)
            weight /= FLOOR  # it represents the others of this cost
        if not row.must_keep:
            if self._budget.refuses(queuing_s) and not self._requests.long_closed(row.now_s):
                self._carry.drop(cost_s, weight)
                return Drop(self._budget.reason)
            weight = self._carry.keep(cost_s, weight)
        self._budget.record(queuing_s)
        self._work_s += cost_s
        self._queued_s += queuing_s
        return Forward(weight, self._requests.next(row.now_s, self._work_s, self._queued_s))

    def _predict(self, now_s: float) -> float:
        """The wait of a row that arrives now: by the estimates, and at least as long as silence implies."""
        least_s = self._requests.least_wait_s(now_s, self._work_s)
        queuing_s = self._work_s + self._clock_error_s - now_s
        if queuing_s < least_s:  # idle or late: the clock advanced without work
            self._clock_error_s = now_s + least_s - self._work_s
            queuing_s = least_s
        return queuing_s

    def _too_dear(self, price: Price, row: Arrived, cost_s: float, queuing_s: float) -> bool:
        price.follow(queuing_s)
        mean_s = self._costs.mean
        if row.must_keep or mean_s <= 0.0:
            return False
        return price.refuses(cost_s / (mean_s * row.weight), queuing_s)
