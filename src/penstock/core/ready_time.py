r"""Penstock's own grouping: a row goes to the instance that is expected to be free first.

OSG adds up what it believes it sent and corrects the sum a few times in a whole stream. Here instances acknowledge rows
(`penstock.core.acknowledge`), and the scheduler remembers those not yet acknowledged. What it believes of an instance
is then never older than the way of one report: the last acknowledged row was done at $f$, and after it come the
rows $1 \dots n$ on their way, sent at $a_j$ and expected to cost $\hat w_j$:

$$r_0 = f, \qquad r_j = \max(r_{j-1}, a_j) + \chi + \hat w_j, \qquad
\text{free} = \max\Bigl(r_n,\ \text{now},\ \text{now} - d + \sum_{j=2}^{n} (\chi + \hat w_j)\Bigr)$$

Here $\chi$ is how long a row waits for rows of other schedulers that come between: the mean of what acknowledged rows
waited beyond the row before them. A scheduler alone sees none.

The last term is what silence tells: a report takes $d$ at most, so the oldest row on its way was not done before
$\text{now} - d$. A stalled instance looks as loaded as it is, whatever its rows were expected to cost. Among instances
free at the same time the one not used for longest is taken, so equal rows go in turn.

Costs are learned from every acknowledged row: exactly for `HEAVY_PLACES` frequent keys, from a sketch for the others;
nothing is sent but two numbers a row, and instances store nothing. A key never seen costs the mean. One cost model
serves all instances; how they differ is a factor each (`penstock.core.pace`), which starts from "not at all". Until the
first report rows go in turn, and count as mean ones when the mean is known.

Against a sum of estimates this has no state that stays wrong: an error of an estimate lives until its row is
acknowledged. With hopelessly wrong estimates (uniform keys) what is left is join-shortest-queue in units of mean work.
"""

from collections import deque
from dataclasses import dataclass

from penstock.core.acknowledge import Report, RowDone, Ticket
from penstock.core.grouping import Assign, Received
from penstock.core.hashing import xxhash64
from penstock.core.heavy import HeavyHitters
from penstock.core.pace import Pace
from penstock.core.settings import whole_number
from penstock.core.shedding import Arrived
from penstock.core.sketch import CostSketch

#: Places for frequent keys.
HEAVY_PLACES = 512
#: Shape of the sketch for all others: the paper's.
SKETCH_ROWS, SKETCH_COLUMNS = 4, 54
#: Acknowledged rows between two steps of forgetting, and how much of the past each step keeps.
FORGET_EVERY, REMEMBER = 4096, 0.8
#: How much of the longest way of a report is remembered from one report to the next.
WAY_MEMORY = 0.999
#: Weight of what a row waited for strange rows against the next one's.
STRANGE_MEMORY = 0.99
#: Rows on their way that are remembered for an instance; beyond, the oldest is taken as done when it was expected.
REMEMBERED_ROWS = 4096
_BYTES_A_ROW = 5 * 8


@dataclass(slots=True)
class _Sent:
    """A row on its way."""

    number: int
    key_hash: int
    sent_s: float
    expected_s: float | None  #: at an average instance; None: sent before anything was known
    estimate_s: float  #: at this one


class _Queue:
    """What a scheduler believes of one instance."""

    __slots__ = ("done_s", "free_s", "pace", "rest_s", "rows", "sent", "used")

    def __init__(self) -> None:
        self.rows: deque[_Sent] = deque()
        self.pace = Pace()
        self.done_s = 0.0  # when the last row known to be done was
        self.free_s = 0.0
        self.rest_s = 0.0  # estimates of all rows on their way but the oldest
        self.sent = 0
        self.used = -1

    def look_again(self, mean_s: float, strange_s: float) -> None:
        """Work out anew when the instance is free, after rows have left."""
        self.free_s, self.rest_s = self.done_s, 0.0
        for j, row in enumerate(self.rows):
            if row.expected_s is None:
                row.estimate_s = mean_s
            self.free_s = max(self.free_s, row.sent_s) + (strange_s + row.estimate_s)
            if j:
                self.rest_s += strange_s + row.estimate_s


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
        """Start knowing nothing; `scheduler` is this one's number among several side by side."""
        self._queues = [_Queue() for _ in range(whole_number("instances", instances, 1))]
        self._scheduler = whole_number("scheduler", scheduler, 0)
        self._heavy = HeavyHitters(HEAVY_PLACES)
        self._sketch = CostSketch(SKETCH_ROWS, SKETCH_COLUMNS, seed)
        self._submitted = 0
        self._learned = 0
        self._way_s = 0.0
        self._strange_s = 0.0

    @property
    def memory_bytes(self) -> int:
        """Table, sketch and what is known of each instance, and the rows on their way just now."""
        on_their_way = sum(len(queue.rows) for queue in self._queues)
        fixed = self._heavy.memory_bytes + self._sketch.nbytes + len(self._queues) * 9 * 8
        return fixed + _BYTES_A_ROW * on_their_way

    def assign(self, row: Arrived) -> Assign:
        """The instance free first; before anything is known, the next in turn."""
        key_hash = xxhash64(row.key)
        if self._learned:
            queue = min(self._queues, key=lambda queue: (self._free_s(queue, row.now_s), queue.used))
            exact = self._heavy.mean(key_hash)
            expected_s = self._sketch.estimate(key_hash) if exact is None else exact
            sent = _Sent(queue.sent + 1, key_hash, row.now_s, expected_s, expected_s * queue.pace.factor)
        else:
            queue = self._queues[self._submitted % len(self._queues)]
            sent = _Sent(queue.sent + 1, key_hash, row.now_s, None, 0.0)
        queue.used = self._submitted
        self._submitted += 1
        queue.sent += 1
        if queue.rows:
            queue.rest_s += self._strange_s + sent.estimate_s
        queue.rows.append(sent)
        queue.free_s = max(queue.free_s, row.now_s) + (self._strange_s + sent.estimate_s)
        if len(queue.rows) > REMEMBERED_ROWS:
            oldest = queue.rows.popleft()
            queue.done_s = max(queue.done_s, oldest.sent_s) + (self._strange_s + oldest.estimate_s)
            queue.rest_s -= self._strange_s + queue.rows[0].estimate_s
        return Assign(self._queues.index(queue), Ticket(self._scheduler, sent.number))

    def _free_s(self, queue: _Queue, now_s: float) -> float:
        free_s = max(queue.free_s, now_s)
        return max(free_s, now_s - self._way_s + queue.rest_s) if queue.rows else free_s

    def receive(self, event: Received) -> None:
        """Rows are done: learn their costs, and look again at what is left."""
        if not isinstance(event.message, Report):
            raise TypeError(f"not a report: {event.message!r}")
        queue = self._queues[event.instance]
        knew_nothing = not self._learned
        longest_s = 0.0
        for done in event.message.rows:
            next_in_line = bool(queue.rows) and queue.rows[0].number == done.number
            sent = _leave(queue, done)
            if sent is not None:
                done_s = sent.sent_s + done.sojourn_s
                if next_in_line:
                    strange_s = max(done_s - done.cost_s - max(queue.done_s, sent.sent_s), 0.0)
                    self._strange_s = STRANGE_MEMORY * self._strange_s + (1.0 - STRANGE_MEMORY) * strange_s
                queue.done_s = done_s
                longest_s = max(longest_s, event.now_s - done_s)
                self._learn(queue.pace, sent, done.cost_s)
        self._way_s = max(longest_s, self._way_s * WAY_MEMORY)
        for other in self._queues if knew_nothing else [queue]:
            other.look_again(self._sketch.mean, self._strange_s)

    def _learn(self, pace: Pace, sent: _Sent, cost_s: float) -> None:
        if sent.expected_s is not None:
            pace.learn(sent.expected_s, cost_s)
        self._heavy.add(sent.key_hash, cost_s / pace.factor)
        self._sketch.update(sent.key_hash, cost_s / pace.factor)
        self._learned += 1
        if self._learned % FORGET_EVERY == 0:
            self._heavy.decay(REMEMBER)
            self._sketch.decay(REMEMBER)


def _leave(queue: _Queue, done: RowDone) -> _Sent | None:
    """Take the row out, with all before it: they are done too. None if it has left already."""
    while queue.rows and queue.rows[0].number <= done.number:
        sent = queue.rows.popleft()
        if sent.number == done.number:
            return sent
    return None
