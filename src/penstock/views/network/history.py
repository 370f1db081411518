"""The history of a network run: the last snapshots, and the sums of all.

Neither grows with the number of batches, because a network may run for months.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, overload

from penstock.store.retention import AGE_S, BATCHES
from penstock.views.network import formatting as fmt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.messages.snapshot import Snapshot


@dataclass
class Numbers:
    """Statistics of a number that each batch has.

    >>> numbers = Numbers()
    >>> for number in (0.5, 1.0):
    ...     numbers.add(number)
    >>> numbers.mean, numbers.least, numbers.last
    (0.75, 0.5, 1.0)
    """

    count: int = 0
    total: float = 0.0
    least: float | None = None
    last: float | None = None

    def add(self, number: float) -> None:
        """Add the number of one batch."""
        self.count += 1
        self.total += number
        self.least = number if self.least is None else min(self.least, number)
        self.last = number

    @property
    def mean(self) -> float | None:
        """Their mean; None if there are none."""
        return self.total / self.count if self.count else None


@dataclass
class Drops:
    """The drops at a place: the number of batches with one, and the text of the last."""

    batches: int = 0
    words: str | None = None


@dataclass
class Sums:
    """The sums of all snapshots of a run.

    Attributes:
        batches: How many there were.
        seconds: The time that they cover.
        overloaded: Batches whose load without drops is above headroom.
        above_headroom: Batches whose load with drops is.
        highest: The batch with the highest load.
        last: The newest one.
        rows: Rows by input and arc.
        shed: Rows dropped by place.
        drops: Drops by place.
        utilities: By output.
        delivered: Percent of rows delivered by output.
        alarms: Alarms and how often each was raised; of those that differ in numbers only, the newest.
    """

    batches: int = 0
    seconds: float = 0.0
    overloaded: int = 0
    above_headroom: int = 0
    highest: Snapshot | None = None
    last: Snapshot | None = None
    rows: Counter[str] = field(default_factory=Counter)
    shed: Counter[str] = field(default_factory=Counter)
    drops: dict[str, Drops] = field(default_factory=dict)
    utilities: dict[str, Numbers] = field(default_factory=dict)
    delivered: dict[str, Numbers] = field(default_factory=dict)
    _alarms: dict[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshots: Sequence[Snapshot]) -> Sums:
        """The sums of these snapshots."""
        found = cls()
        for one in snapshots:
            found.add(one)
        return found

    @property
    def alarms(self) -> dict[str, int]:
        """Alarms and how often each was raised."""
        return dict(self._alarms.values())

    def add(self, one: Snapshot) -> None:
        """Add the snapshot of the next batch."""
        self.batches += 1
        self.seconds += period_s(self.last, one)
        self.overloaded += one.load > fmt.limit(one)
        self.above_headroom += fmt.carried(one) > fmt.limit(one)
        if self.highest is None or load(one) > load(self.highest):
            self.highest = one
        self.last = one
        self.rows.update(one.rows)
        self.shed.update(one.shed)
        for place, told in one.drops.items():
            drops = self.drops.setdefault(place, Drops())
            drops.batches, drops.words = drops.batches + 1, told
        _add_known(self.utilities, one.utilities)
        _add_known(self.delivered, one.delivered)
        for alarm in one.alarms:
            gist = re.sub(r"\d[\d.]*", "#", alarm)
            self._alarms[gist] = alarm, self._alarms.get(gist, ("", 0))[1] + 1


class History(Sequence["Snapshot"]):
    """The last snapshots of a run, oldest first, and the sums of all."""

    def __init__(self) -> None:
        """Start empty."""
        self._last: deque[Snapshot] = deque(maxlen=BATCHES)
        self.sums = Sums()

    def append(self, snapshot: Snapshot) -> None:
        """Add the newest."""
        self.sums.add(snapshot)
        self._last.append(snapshot)
        while self._last[0].time_s < snapshot.time_s - AGE_S:
            self._last.popleft()

    def add_rows(self, more: Mapping[str, int]) -> None:
        """Rows that were counted after the newest snapshot belong to it."""
        self.sums.rows.update(more)
        last = self._last[-1]
        self._last[-1] = replace(last, rows=dict(Counter(last.rows) + Counter(more)))

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._last)

    @overload
    def __getitem__(self, at: int) -> Snapshot: ...

    @overload
    def __getitem__(self, at: slice) -> list[Snapshot]: ...

    def __getitem__(self, at: int | slice) -> Snapshot | list[Snapshot]:
        """Some of them."""
        return list(self._last)[at] if isinstance(at, slice) else self._last[at]


def load(snapshot: Snapshot) -> float:
    """The load of a batch, for comparisons; an unknown load is the lowest."""
    return snapshot.load if math.isfinite(snapshot.load) else -math.inf


def period_s(before: Snapshot | None, after: Snapshot) -> float:
    """The time that a snapshot's rates cover: since the previous batch ended; for the first, its own length."""
    gap_s = 0.0 if before is None else after.time_s - before.time_s
    return gap_s if gap_s > 0.0 else after.duration_s


def _add_known(sums: dict[str, Numbers], found: Mapping[str, float]) -> None:
    for name in found:
        if (number := fmt.known(found, name)) is not None:
            sums.setdefault(name, Numbers()).add(number)
