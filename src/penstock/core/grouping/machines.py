"""The language of grouping: which of several equal instances a row goes to, row by row.

A scheduler is in front of k instances of one operator, each with its own queue. It processes every arriving row and
every message of an instance, and returns the instance for the row. The machine of an instance processes every executed
row and returns messages for the schedulers. Neither knows a clock, a queue or a network.

```
 Arrived ─► Scheduler ─► Assign(instance, request) ─► [queue] ─► instance ─► Done ─► Instance machine
                ▲                                                                          │
                └──────────── Received ◄─────────────── Send(message, scheduler) ◄─────────┘
```
"""

import math
from dataclasses import dataclass
from typing import Protocol

from penstock.core.row.machines import Arrived, Key
from penstock.core.settings import number
from penstock.errors import PenstockError

#: No row takes longer: milliseconds since 1970, given as seconds, are refused.
LONGEST_S = 1e11


@dataclass(frozen=True, slots=True)
class Assign:
    """Put the row into the queue of this instance, with a request to its machine if there is one."""

    instance: int
    request: object | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """An instance has executed a row."""

    key: Key
    assigned_s: float  #: when the scheduler sent it
    finish_s: float
    cost_s: float  #: work the row took at this instance
    waiting: int = 0  #: rows left in the instance's queue
    request: object | None = None  #: the scheduler's request with the row

    def __post_init__(self) -> None:
        """Refuse values that would distort all later decisions."""
        number("cost_s", self.cost_s, 0.0, LONGEST_S)
        if not -math.inf < self.assigned_s <= self.finish_s < math.inf:
            given = (self.assigned_s, self.finish_s)
            raise PenstockError.setting("assigned_s, finish_s", given, "moments in this order, by one clock")


@dataclass(frozen=True, slots=True)
class Send:
    """Carry this message from an instance to one scheduler, or to all."""

    message: object
    scheduler: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A message of an instance has reached a scheduler."""

    now_s: float
    instance: int
    message: object


class Scheduler(Protocol):
    """The machine in front of the instances."""

    @property
    def memory_bytes(self) -> int:
        """Size of the learned state, and of the maximum memory for rows in transit."""

    def assign(self, row: Arrived) -> Assign:
        """Return the instance for one row."""

    def receive(self, event: Received) -> None:
        """Process one message of an instance."""


class Instance(Protocol):
    """The machine beside an instance."""

    @property
    def memory_bytes(self) -> int:
        """Size of the learned state."""

    def executed(self, row: Done) -> list[Send]:
        """Process one executed row; answer with the messages to send."""
