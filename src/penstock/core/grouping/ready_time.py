r"""Penstock's grouping: a row goes to the instance that is expected to be free first.

OSG sums its estimates of sent work and corrects the sum a few times per stream. Here instances acknowledge rows
(`AcknowledgingInstance`), and the scheduler remembers those not yet acknowledged. Its view of an instance is then never
older than one report delay. The last acknowledged row was done at $f$, and after it come the rows $1 \dots n$ in
transit, sent at $a_j$ and expected to cost $\hat w_j$:

$$r_0 = f, \qquad r_j = \max(r_{j-1}, a_j) + \chi + \hat w_j, \qquad
\text{free} = \max\Bigl(r_n,\ \text{now},\ \text{now} - d + \sum_{j=2}^{n} (\chi + \hat w_j)\Bigr)$$

Here $\chi$ is the wait for rows of other schedulers in between: the mean wait of acknowledged rows beyond the row
before them. It is 0 for a single scheduler.

The last term covers silence: a report takes at most $d$, so the oldest row on its way was not done before $\text{now} -
d$. A stalled instance shows its true load, even with wrong estimates. Among instances free at the same time the
least recently used is chosen, so equal rows are dealt round-robin.

Costs are learned from every acknowledged row: exactly for `HEAVY_PLACES` frequent keys, from a sketch for the others.
Nothing is sent but two numbers a row, and instances store nothing. A key never seen costs the mean. One cost model
serves all instances; each has a speed factor (`Pace`), which starts at 1. Until the first report rows are dealt
round-robin, and count with the mean cost once it is known.

It takes 16 KB for the table, 3.4 KB for the sketch, 80 bytes an instance and 64 a row on its way. OSG's scheduler takes
3.4 KB for each instance, and each instance 5.2 KB. It costs one message of 20 bytes a row, or fewer and larger ones
(`AcknowledgingInstance`, `report_rows`), where OSG sends some hundred in all.

Unlike a sum of estimates, no error persists: it lasts until its row is acknowledged. With useless estimates (uniform
keys) this becomes join-shortest-queue in units of mean work.
"""

import math
from collections import deque
from dataclasses import dataclass

from penstock.core.grouping.machines import LONGEST_S, Assign, Done, Received, Send
from penstock.core.hashing import xxhash64
from penstock.core.row.cost_model import HeavyHitters
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.machines import Arrived
from penstock.core.settings import number, whole_number


@dataclass(frozen=True, slots=True)
class Ticket:
    """Scheduler to instance, with a row: its scheduler and its number, counted from 1 at each instance."""

    scheduler: int
    number: int


@dataclass(frozen=True, slots=True)
class RowDone:
    """The report of one row: 20 bytes on the wire (a 4-byte number, two 8-byte lengths of time)."""

    number: int
    sojourn_s: float  #: from being sent until done
    cost_s: float

    def __post_init__(self) -> None:
        """Refuse values that would distort all later decisions."""
        number("sojourn_s", self.sojourn_s, 0.0, LONGEST_S)
        number("cost_s", self.cost_s, 0.0, LONGEST_S)


@dataclass(frozen=True, slots=True)
class Report:
    """Instance to scheduler: rows done, in order."""

    rows: tuple[RowDone, ...]


class AcknowledgingInstance:
    """Reports every `report_rows` executed rows of a scheduler, and all unreported rows when it becomes idle.

    A row carries a `Ticket`: its scheduler and its number among that scheduler's rows at that instance. Rows are
    executed in the order they were sent, so a later number implies that all earlier ones are done. Lost, late and
    repeated reports are harmless. Only lengths of time are reported, so instances and schedulers need no common clock.

    >>> instance = AcknowledgingInstance(report_rows=2)
    >>> instance.executed(Done(key="a", assigned_s=0.0, finish_s=2.0, cost_s=2.0, waiting=1, request=Ticket(0, 1)))
    []
    >>> instance.executed(Done(key="a", assigned_s=1.0, finish_s=4.0, cost_s=2.0, waiting=1, request=Ticket(0, 2)))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Send(message=Report(rows=(RowDone(number=1, sojourn_s=2.0, cost_s=2.0),
                               RowDone(number=2, sojourn_s=3.0, cost_s=2.0))), scheduler=0)]
    """

    def __init__(self, *, report_rows: int = 1) -> None:
        """Start with nothing to report; one row per report is the fastest."""
        self._report_rows = whole_number("report_rows", report_rows, 1)
        self._unreported: dict[int, list[RowDone]] = {}

    @property
    def memory_bytes(self) -> int:
        """The rows that may be unreported."""
        return 24 * self._report_rows * max(1, len(self._unreported))

    def executed(self, row: Done) -> list[Send]:
        """Record the row; report if enough rows are recorded or the instance is idle."""
        if not isinstance(row.request, Ticket):
            raise TypeError(f"not a ticket: {row.request!r}")
        mine = self._unreported.setdefault(row.request.scheduler, [])
        mine.append(RowDone(row.request.number, row.finish_s - row.assigned_s, row.cost_s))
        if row.waiting and len(mine) < self._report_rows:
            return []
        sends = []
        for scheduler in [row.request.scheduler] if row.waiting else sorted(self._unreported):
            if rows := self._unreported[scheduler]:
                sends.append(Send(Report(tuple(rows)), scheduler))
                self._unreported[scheduler] = []
        return sends


@dataclass(slots=True)
class SentRow:
    """A row on its way."""

    number: int
    key_hash: int
    sent_s: float
    expected_s: float | None  #: cost at an average instance; None: sent before anything was known
    takes_s: float  #: e, what it is expected to take here
    work_s: float = 0.0  #: P up to and including this row


class ExpectedQueue:
    r"""The rows on their way to one instance.

    The time at which an instance is expected to have done its rows, from the reports so far.

    The last row known to be done was done at $f$; after it come rows $1 \dots n$, sent at $a_j$ and expected to take
    $e_j$. They are executed in order, so the instance is free at $r_n$:

    $$r_0 = f, \qquad r_j = \max(r_{j-1}, a_j) + e_j \qquad\Rightarrow\qquad
    r_n = P_n + \max\Bigl(f - P_0,\ \max_{1 \le j \le n} (a_j - P_{j-1})\Bigr), \quad P_j = P_0 + e_1 + \dots + e_j$$

    The running sum P and the largest $a_j - P_{j-1}$ are kept, of rows that might still become the largest. A row sent
    and a row done each take constant time, for any length of the queue.

    >>> queue = ExpectedQueue()
    >>> for number, sent_s in enumerate([0.0, 1.0, 9.0], start=1):
    ...     queue.send(SentRow(number, key_hash=0, sent_s=sent_s, expected_s=3.0, takes_s=3.0))
    >>> queue.free_s  # 0 to 3, 3 to 6, 9 to 12
    12.0
    >>> queue.leave(1, sojourn_s=8.0).number, queue.free_s  # the first took until 8, so the second goes to 11
    (1, 14.0)
    """

    __slots__ = ("_leads", "_offset_s", "_work_s", "done_s", "rows")

    def __init__(self) -> None:
        self.rows: deque[SentRow] = deque()
        self.done_s = 0.0  #: when the last row known to be done was
        self._work_s = self._offset_s = 0.0
        self._leads: deque[tuple[int, float]] = deque()  # number and a - P before it, descending

    @property
    def free_s(self) -> float:
        """When all rows sent are expected to be done."""
        return self._work_s + (max(self._offset_s, self._leads[0][1]) if self._leads else self._offset_s)

    @property
    def behind_oldest_s(self) -> float:
        """The expected time of all rows except the oldest."""
        return self._work_s - self.rows[0].work_s if self.rows else 0.0

    def send(self, row: SentRow) -> None:
        """Add a row in transit."""
        self.rows.append(row)
        self._count(row)

    def leave(self, number: int, sojourn_s: float) -> SentRow | None:
        """A row is done, and with it all before it. None if it was already removed."""
        while self.rows and self.rows[0].number <= number:
            row = self.rows.popleft()
            if row.number == number:
                self._after(row, row.sent_s + sojourn_s)
                return row
        return None

    def forget_oldest(self) -> None:
        """Assume that the oldest row is done when expected."""
        row = self.rows.popleft()
        self._after(row, row.work_s + max(self._offset_s, row.sent_s - (row.work_s - row.takes_s)))

    def recount(self, takes_s: float) -> None:
        """Set the expected time of rows sent before any cost was known, which are the oldest."""
        self._work_s, self._offset_s = 0.0, self.done_s
        self._leads.clear()
        for row in self.rows:
            if row.expected_s is None:
                row.takes_s = takes_s
            self._count(row)

    def _count(self, row: SentRow) -> None:
        lead_s = row.sent_s - self._work_s
        while self._leads and self._leads[-1][1] <= lead_s:
            self._leads.pop()
        self._leads.append((row.number, lead_s))
        self._work_s += row.takes_s
        row.work_s = self._work_s

    def _after(self, row: SentRow, done_s: float) -> None:
        self.done_s = done_s
        self._offset_s = done_s - row.work_s
        while self._leads and self._leads[0][0] <= row.number:
            self._leads.popleft()


#: Weight of a row against the next one: about the last thousand rows count.
PACE_MEMORY = 0.999
#: A difference below this many standard errors counts as noise.
STANDARD_ERRORS = 3.0
#: The largest assumed speed difference between instances.
WIDEST_PACE = 1000.0


class Pace:
    r"""How much slower than the estimates an instance is.

    The ratio of actual to expected costs is noisy, and a false difference between equal
    instances is harmful until the next reports arrive. So only a difference beyond `STANDARD_ERRORS` standard errors
    counts:

    $$q = \frac{\sum w}{\sum \hat w}, \qquad e = \frac{\sqrt{\sum (w - q\,\hat w)^2}}{\sum \hat w}, \qquad
    \text{pace} = 1 + \operatorname{sign}(q-1)\,\max(|q-1| - 3e,\ 0)$$

    All sums forget: each row weighs `PACE_MEMORY` times as much as the one after it.

    >>> pace = Pace()
    >>> for _ in range(100):
    ...     pace.learn(expected_s=2.0, cost_s=3.0)
    >>> round(pace.factor, 2)
    1.49
    """

    __slots__ = ("_cost_s", "_expected_s", "_squares", "factor")

    def __init__(self) -> None:
        self.factor = 1.0
        self._expected_s = self._cost_s = self._squares = 0.0

    def learn(self, expected_s: float, cost_s: float) -> None:
        """A row expected to cost `expected_s` at an average instance cost `cost_s` here."""
        error = cost_s - self._ratio() * expected_s
        self._squares = self._squares * PACE_MEMORY + error * error
        self._expected_s = self._expected_s * PACE_MEMORY + expected_s
        self._cost_s = self._cost_s * PACE_MEMORY + cost_s
        if self._expected_s > 0.0:
            beyond = self._ratio() - 1.0
            noise = STANDARD_ERRORS * math.sqrt(self._squares) / self._expected_s
            self.factor = 1.0 + math.copysign(max(abs(beyond) - noise, 0.0), beyond)

    def _ratio(self) -> float:
        if self._expected_s <= 0.0:
            return 1.0
        return min(max(self._cost_s / self._expected_s, 1.0 / WIDEST_PACE), WIDEST_PACE)


#: Places for frequent keys.
HEAVY_PLACES = 512
#: Shape of the sketch for all others: the paper's.
SKETCH_ROWS, SKETCH_COLUMNS = 4, 54
#: Acknowledged rows between two steps of forgetting, and how much of the past each step keeps.
FORGET_EVERY, REMEMBER = 4096, 0.8
#: How much of the longest way of a report is remembered from one report to the next.
WAY_MEMORY = 0.999
#: Decay of the wait for other schedulers' rows, from row to row.
STRANGE_MEMORY = 0.99
#: Rows on their way that are remembered for an instance; beyond, the oldest is assumed to be done when expected.
REMEMBERED_ROWS = 4096
#: A row on its way: five numbers and a key hash, and two more numbers if the instance may idle before it.
_BYTES_A_ROW = 8 * 8
#: The state of each instance: four numbers of its queue, four of its pace, two counts.
_BYTES_AN_INSTANCE = 10 * 8


class _Target:
    """An instance as the scheduler sees it."""

    __slots__ = ("pace", "queue", "sent", "used")

    def __init__(self) -> None:
        self.queue, self.pace = ExpectedQueue(), Pace()
        self.sent, self.used = 0, -1


class ReadyTimeScheduler:
    """Sends each row to the instance expected to be free first.

    >>> scheduler = ReadyTimeScheduler(instances=2)
    >>> [scheduler.assign(Arrived(now_s=now, key=key)).instance for now, key in [(0.0, "a"), (1.0, "b")]]
    [0, 1]
    >>> scheduler.receive(Received(2.0, 1, Report((RowDone(1, sojourn_s=1.0, cost_s=1.0),))))
    >>> scheduler.receive(Received(10.0, 0, Report((RowDone(1, sojourn_s=10.0, cost_s=10.0),))))
    >>> [scheduler.assign(Arrived(now_s=10.0, key=key)).instance for key in "abbb"]  # a is as much work as ten b
    [0, 1, 1, 1]
    """

    def __init__(self, instances: int, *, scheduler: int = 0, seed: int = 0) -> None:
        """Start without knowledge; `scheduler` is the number of this one among several."""
        self._targets = [_Target() for _ in range(whole_number("instances", instances, 1))]
        self._scheduler = whole_number("scheduler", scheduler, 0)
        self._heavy = HeavyHitters(HEAVY_PLACES)
        self._sketch = CostSketch(SKETCH_ROWS, SKETCH_COLUMNS, seed)
        self._submitted = self._learned = 0
        self._way_s = self._strange_s = 0.0

    @property
    def memory_bytes(self) -> int:
        """Table, sketch, the state of each instance, and the rows in transit."""
        on_their_way = sum(len(target.queue.rows) for target in self._targets)
        fixed = self._heavy.memory_bytes + self._sketch.nbytes + len(self._targets) * _BYTES_AN_INSTANCE
        return fixed + _BYTES_A_ROW * on_their_way

    def assign(self, row: Arrived) -> Assign:
        """The instance free first; before anything is known, the next in turn."""
        key_hash = xxhash64(row.key)
        expected_s: float | None = None
        takes_s = 0.0
        chosen = self._submitted % len(self._targets)
        if self._learned:
            chosen = self._free_first(row.now_s)
            exact = self._heavy.mean(key_hash)
            expected_s = self._sketch.estimate(key_hash) if exact is None else exact
            takes_s = self._strange_s + expected_s * self._targets[chosen].pace.factor
        target = self._targets[chosen]
        target.used = self._submitted
        target.sent += 1
        self._submitted += 1
        target.queue.send(SentRow(target.sent, key_hash, row.now_s, expected_s, takes_s))
        if len(target.queue.rows) > REMEMBERED_ROWS:
            target.queue.forget_oldest()
        return Assign(chosen, Ticket(self._scheduler, target.sent))

    def _free_first(self, now_s: float) -> int:
        order = []
        for instance, target in enumerate(self._targets):
            free_s = max(target.queue.free_s, now_s)
            if target.queue.rows:
                free_s = max(free_s, now_s - self._way_s + target.queue.behind_oldest_s)
            order.append((free_s, target.used, instance))
        return min(order)[2]

    def receive(self, event: Received) -> None:
        """Rows are done: learn their costs, and those of rows sent before any cost was known."""
        if not isinstance(event.message, Report):
            raise TypeError(f"not a report: {event.message!r}")
        target = self._targets[event.instance]
        knew_nothing = not self._learned
        longest_s = 0.0
        for done in event.message.rows:
            longest_s = max(longest_s, self._leave(target, done, event.now_s))
        self._way_s = max(longest_s, self._way_s * WAY_MEMORY)
        for other in self._targets if knew_nothing else [target]:
            if other.queue.rows and other.queue.rows[0].expected_s is None:
                other.queue.recount(self._strange_s + self._sketch.mean)

    def _leave(self, target: _Target, done: RowDone, now_s: float) -> float:
        """Remove a done row and learn from it; returns the delay of its report."""
        queue = target.queue
        next_in_line = bool(queue.rows) and queue.rows[0].number == done.number
        before_s = queue.done_s
        sent = queue.leave(done.number, done.sojourn_s)
        if sent is None:
            return 0.0
        if next_in_line:
            waited_s = max(queue.done_s - done.cost_s - max(before_s, sent.sent_s), 0.0)
            self._strange_s = STRANGE_MEMORY * self._strange_s + (1.0 - STRANGE_MEMORY) * waited_s
        self._learn(target.pace, sent, done.cost_s)
        return now_s - queue.done_s

    def _learn(self, pace: Pace, sent: SentRow, cost_s: float) -> None:
        if sent.expected_s is not None:
            pace.learn(sent.expected_s, cost_s)
        self._heavy.add(sent.key_hash, cost_s / pace.factor)
        self._sketch.update(sent.key_hash, cost_s / pace.factor)
        self._learned += 1
        if self._learned % FORGET_EVERY == 0:
            self._heavy.decay(REMEMBER)
            self._sketch.decay(REMEMBER)
