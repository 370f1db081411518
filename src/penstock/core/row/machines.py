"""The language of per-row shedding: events go into a machine, instructions come out.

A shedder is in front of an operator. It processes every arriving row and every message of the operator, and returns an
instruction. The operator's machine processes every executed row and returns messages for the shedder. Neither knows a
clock, a queue or a network: the simulator and Spark carry out the instructions.

```
 Arrived ─► Shedder ─► Forward(request) ─► [queue] ─► operator ─► Executed ─► Operator machine
               ▲   └─► Drop(reason)                                                  │
               └───────────────────────── Send(message) ◄────────────────────────────┘
```
"""

from dataclasses import dataclass
from typing import Protocol

from penstock.errors import PenstockError

Key = int | str

#: No moment lies further from 0 and no row takes longer: milliseconds since 1970, given as seconds, are refused.
_LONGEST_S = 1e11


_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-9, 1e15


def _check_cost(given_s: float) -> None:
    if not 0.0 <= given_s <= _LONGEST_S:
        raise PenstockError.setting("cost_s", given_s, f"seconds from 0 to {_LONGEST_S:g}")


def _check_moment(name: str, given_s: float) -> None:
    if not -_LONGEST_S <= given_s <= _LONGEST_S:
        raise PenstockError.setting(name, given_s, "a moment in seconds, such as seconds since 1970")


@dataclass(frozen=True, slots=True)
class Arrived:
    """A row has reached the shedder."""

    now_s: float
    key: Key
    row: int = 0  #: identity of the row: the same row under the same state gets the same verdict
    must_keep: bool = False
    weight: float = 1.0  #: the number of rows that this one already represents
    cost_s: float | None = None  #: the true cost, which only the oracle of an evaluation knows

    def __post_init__(self) -> None:
        """Refuse what would poison every later verdict."""
        _check_moment("now_s", self.now_s)
        if not _LEAST_WEIGHT <= self.weight <= _LARGEST_WEIGHT:
            raise PenstockError.setting(
                "weight", self.weight, f"a number from {_LEAST_WEIGHT:g} to {_LARGEST_WEIGHT:g}"
            )
        if self.cost_s is not None:
            _check_cost(self.cost_s)


@dataclass(frozen=True, slots=True)
class Executed:
    """The operator has finished a row."""

    key: Key
    arrived_s: float
    start_s: float
    finish_s: float
    cost_s: float  #: work of the row: finish - start, as a separate field to avoid rounding
    request: object | None = None  #: the shedder's request with the row

    def __post_init__(self) -> None:
        """Refuse what would poison every later verdict."""
        for name in ("arrived_s", "start_s", "finish_s"):
            _check_moment(name, getattr(self, name))
        if not self.arrived_s <= self.start_s <= self.finish_s:
            given = (self.arrived_s, self.start_s, self.finish_s)
            raise PenstockError.setting("arrived_s, start_s, finish_s", given, "moments in this order, by one clock")
        _check_cost(self.cost_s)


@dataclass(frozen=True, slots=True)
class Forward:
    """Admit the row, with its new weight and, occasionally, a request to the operator."""

    weight: float
    request: object | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Refuse the row, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Send:
    """Carry this message from the operator to the shedder."""

    message: object


class Shedder(Protocol):
    """The machine in front of the operator."""

    @property
    def carried_weight(self) -> float:
        """Weight of dropped rows that no kept row represents yet."""

    @property
    def memory_bytes(self) -> int:
        """Size of what the machine has learned; it grows no more once the first messages are in."""

    def judge(self, row: Arrived) -> Forward | Drop:
        """Return the verdict on one row."""

    def receive(self, message: object) -> None:
        """Process one message of the operator."""


class Operator(Protocol):
    """The machine beside the operator."""

    @property
    def memory_bytes(self) -> int:
        """Size of what the machine has learned; it grows no more once the first messages are in."""

    def executed(self, row: Executed) -> list[Send]:
        """Process one executed row; answer with the messages to send."""
