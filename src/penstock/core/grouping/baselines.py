"""Baselines of grouping by cost: in turn, with all costs known, and by the number of rows in a queue."""

from collections.abc import Callable

from penstock.core.grouping.machines import Assign, Done, Received, Send
from penstock.core.grouping.ready_time import Report, Ticket
from penstock.core.row.machines import Arrived
from penstock.core.settings import whole_number


class RoundRobin:
    """Row i goes to instance i mod k.

    >>> scheduler = RoundRobin(instances=2)
    >>> [scheduler.assign(Arrived(now_s=0.0, key=key)).instance for key in "aba"]
    [0, 1, 0]
    """

    memory_bytes = 8

    def __init__(self, instances: int) -> None:
        self._instances = whole_number("instances", instances, 1)
        self._next = 0

    def assign(self, row: Arrived) -> Assign:  # noqa: ARG002 - every row is alike
        """The next instance in turn."""
        chosen = self._next
        self._next = (chosen + 1) % self._instances
        return Assign(chosen)

    def receive(self, event: Received) -> None:
        """Nothing is learned."""


class FullKnowledge:
    """The greedy scheduler with exact costs: the row goes where the cumulated cost of rows sent is least (section 5.1).

    >>> scheduler = FullKnowledge(instances=2, cost_s=lambda row, instance: 10.0 if row.key == "a" else 1.0)
    >>> [scheduler.assign(Arrived(now_s=now, key=key)).instance for now, key in enumerate("aba")]
    [0, 1, 1]
    """

    def __init__(self, instances: int, cost_s: Callable[[Arrived, int], float], *, clamp: bool = False) -> None:
        """`cost_s` gives the cost of a row at an instance; `clamp` raises an idle instance's sum to the present."""
        self._cumulated_s = [0.0] * whole_number("instances", instances, 1)
        self._cost_s = cost_s
        self._clamp = clamp

    @property
    def memory_bytes(self) -> int:
        """A sum for each instance; the memory for all costs is not counted."""
        return 8 * len(self._cumulated_s)

    def assign(self, row: Arrived) -> Assign:
        """The first instance with the least cumulated cost."""
        if self._clamp:
            self._cumulated_s = [max(cumulated_s, row.now_s) for cumulated_s in self._cumulated_s]
        chosen = self._cumulated_s.index(min(self._cumulated_s))
        self._cumulated_s[chosen] += self._cost_s(row, chosen)
        return Assign(chosen)

    def receive(self, event: Received) -> None:
        """Nothing is left to learn."""


class JoinShortestQueue:
    """The row goes to the instance with the fewest rows in transit, regardless of cost; among equals to the first.

    A row is in transit until its acknowledgement arrives, so with slow reports the counts are outdated. Taking equals
    in turn instead would gain a few percent; this is the plain rule.

    >>> from penstock.core.grouping.ready_time import RowDone
    >>> scheduler = JoinShortestQueue(instances=2)
    >>> [scheduler.assign(Arrived(now_s=0.0, key="a")).instance for _ in range(2)]
    [0, 1]
    >>> scheduler.receive(Received(1.0, 1, Report((RowDone(1, 0.5, 0.5),))))
    >>> scheduler.assign(Arrived(now_s=1.0, key="a"))
    Assign(instance=1, request=Ticket(scheduler=0, number=2))
    """

    def __init__(self, instances: int, *, scheduler: int = 0) -> None:
        """Start with empty queues; `scheduler` is this one's number among several side by side."""
        self._sent = [0] * whole_number("instances", instances, 1)
        self._done = [0] * instances
        self._scheduler = whole_number("scheduler", scheduler, 0)

    @property
    def memory_bytes(self) -> int:
        """Two counts for each instance."""
        return 16 * len(self._sent)

    def assign(self, row: Arrived) -> Assign:  # noqa: ARG002 - every row is alike
        """The first instance with the fewest rows in transit."""
        on_their_way = [sent - done for sent, done in zip(self._sent, self._done, strict=True)]
        chosen = on_their_way.index(min(on_their_way))
        self._sent[chosen] += 1
        return Assign(chosen, Ticket(self._scheduler, self._sent[chosen]))

    def receive(self, event: Received) -> None:
        """Rows are done in the order they were sent, so the highest number suffices."""
        if not isinstance(event.message, Report):
            raise TypeError(f"not a report: {event.message!r}")
        for row in event.message.rows:
            self._done[event.instance] = max(self._done[event.instance], row.number)


class SilentInstance:
    """An instance that reports nothing."""

    memory_bytes = 0

    def executed(self, row: Done) -> list[Send]:  # noqa: ARG002 - nothing is learned
        """Nothing to send."""
        return []
