r"""Penstock's own grouping: a row goes to the instance that is expected to be free first.

OSG adds up what it believes it sent and corrects the sum a few times in a whole stream. Here instances acknowledge rows
(`penstock.core.grouping.acknowledgements`), and the scheduler remembers those not yet acknowledged. What it believes of
an instance is then never older than the way of one report: the last acknowledged row was done at $f$, and after it come
the rows $1 \dots n$ on their way, sent at $a_j$ and expected to cost $\hat w_j$:

$$r_0 = f, \qquad r_j = \max(r_{j-1}, a_j) + \chi + \hat w_j, \qquad
\text{free} = \max\Bigl(r_n,\ \text{now},\ \text{now} - d + \sum_{j=2}^{n} (\chi + \hat w_j)\Bigr)$$

Here $\chi$ is how long a row waits for rows of other schedulers that come between: the mean of what acknowledged rows
waited beyond the row before them. A scheduler alone sees none.

The last term is what silence tells: a report takes $d$ at most, so the oldest row on its way was not done before
$\text{now} - d$. A stalled instance looks as loaded as it is, whatever its rows were expected to cost. Among instances
free at the same time the one not used for longest is taken, so equal rows go in turn.

Costs are learned from every acknowledged row: exactly for `HEAVY_PLACES` frequent keys, from a sketch for the others;
nothing is sent but two numbers a row, and instances store nothing. A key never seen costs the mean. One cost model
serves all instances; how they differ is a factor each (`penstock.core.grouping.pace`), which starts from "not at all".
Until the first report rows go in turn, and count as mean ones when the mean is known.

It takes 16 KB for the table, 3.4 KB for the sketch, 80 bytes an instance and 64 a row on its way; OSG's scheduler
takes 3.4 KB for each instance, and each instance 5.2 KB. It costs one message of 20 bytes a row, or fewer and larger
ones (`AcknowledgingInstance`, `report_rows`), where OSG sends some hundred in all.

Against a sum of estimates this has no state that stays wrong: an error of an estimate lives until its row is
acknowledged. With hopelessly wrong estimates (uniform keys) what is left is join-shortest-queue in units of mean work.
"""

from penstock.core.grouping.acknowledgements import Report, RowDone, Ticket
from penstock.core.grouping.expected_queue import ExpectedQueue, SentRow
from penstock.core.grouping.machines import Assign, Received
from penstock.core.grouping.pace import Pace
from penstock.core.hashing import xxhash64
from penstock.core.row.cost_sketch import CostSketch
from penstock.core.row.heavy_hitters import HeavyHitters
from penstock.core.row.machines import Arrived
from penstock.core.settings import whole_number

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
#: A row on its way: five numbers and a key hash, and two more numbers if the instance may idle before it.
_BYTES_A_ROW = 8 * 8
#: What is kept of each instance: four numbers of its queue, four of its pace, two counts.
_BYTES_AN_INSTANCE = 10 * 8


class _Target:
    """An instance as the scheduler sees it."""

    __slots__ = ("pace", "queue", "sent", "used")

    def __init__(self) -> None:
        self.queue = ExpectedQueue()
        self.pace = Pace()
        self.sent = 0
        self.used = -1


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
        self._targets = [_Target() for _ in range(whole_number("instances", instances, 1))]
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
        """Rows are done: learn their costs, and what was on its way before anything was known."""
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
        """Take out a row that is done and learn from it; how long its report was on the way."""
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
