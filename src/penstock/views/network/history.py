"""The history of a network run: the last snapshots, and the sums of all.

Neither grows with the number of batches, because a network may run for months.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from penstock.core.network.drops import places
from penstock.store.retention import AGE_S, BATCHES
from penstock.views.network import formatting as fmt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.network.model import Network
    from penstock.views.network.snapshot import Snapshot


@dataclass
class Numbers:
    """Statistics of a number that each batch has."""

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
class Sums:
    """The sums of all snapshots of a run."""

    batches: int = 0  #: how many there were
    seconds: float = 0.0  #: the time that they cover
    overloaded: int = 0  #: batches whose load without drops is above headroom
    above_headroom: int = 0  #: batches whose load with drops is
    highest: Snapshot | None = None  #: the batch with the highest load
    last: Snapshot | None = None  #: the newest one
    rows: Counter[str] = field(default_factory=Counter)  #: rows by input and arc
    shed: Counter[str] = field(default_factory=Counter)  #: rows dropped by place
    drops: Counter[str] = field(default_factory=Counter)  #: batches with a drop, by place
    words: dict[str, str] = field(default_factory=dict)  #: the text of the last drop at a place
    utilities: dict[str, Numbers] = field(default_factory=dict)  #: by output
    delivered: dict[str, Numbers] = field(default_factory=dict)  #: percent of rows delivered by output
    #: The last alarm and how often there was such a one, by its text without numbers.
    alarms: dict[str, tuple[str, int]] = field(default_factory=dict)

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
        self.drops.update(one.drops.keys())
        self.words.update(one.drops)
        _add_known(self.utilities, one.utilities)
        _add_known(self.delivered, one.delivered)
        for alarm in one.alarms:
            gist = re.sub(r"\d[\d.]*", "#", alarm)
            self.alarms[gist] = alarm, self.alarms.get(gist, ("", 0))[1] + 1


class History(Sequence["Snapshot"]):
    """The last snapshots of a run, oldest first, and the sums of all."""

    def __init__(self) -> None:
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


Facts = dict[str, Any]


def summary(network: Network, snapshots: Sequence[Snapshot]) -> Facts:
    """A run in numbers, as plain data for JSON.

    All rows are counted by the query. A row that goes to several boxes counts on each arc. Unknown values are None. A
    run's `History` also covers batches whose snapshots are discarded.

    Returns:
        `batches`, `seconds`, `batches_overloaded` (load without drops above headroom), `batches_above_headroom` (load
        with drops above it), `highest_load` (batch, load and what was allowed). `road_maps_built`, `rows_in`,
        `rows_shed`, `mean_utility` and `worst_utility` over outputs, `alarms` with how often each was raised. By name
        `inputs`, `places` (rows in, kept, shed, batches in force, the last text of the drop) and `outputs`.
    """
    if isinstance(snapshots, History):
        sums = snapshots.sums
    else:
        sums = Sums()
        for one in snapshots:
            sums.add(one)
    # The candidate places, and other places with a drop.
    all_places = dict.fromkeys([*(place.name for place in places(network)), *sums.drops, *sums.shed])
    by_place = {place: _place(network, place, sums) for place in all_places}
    inputs = {one.name: {"rows_in": sums.rows[one.name]} for one in network.inputs}
    outputs = {one.name: _output(network, one.name, sums) for one in network.outputs}
    means = [one["mean_utility"] for one in outputs.values() if one["mean_utility"] is not None]
    worst = [one["worst_utility"] for one in outputs.values() if one["worst_utility"] is not None]
    highest = sums.highest
    return {
        "batches": sums.batches,
        "seconds": _finite(sums.seconds),
        "batches_overloaded": sums.overloaded,
        "batches_above_headroom": sums.above_headroom,
        "highest_load": highest
        and {"batch": highest.batch, "load": _finite(highest.load), "allowed": _finite(fmt.limit(highest))},
        "road_maps_built": sums.last.rebuilt if sums.last else 0,
        "rows_in": sum(one["rows_in"] for one in inputs.values()),
        "rows_shed": sum(one["shed"] for one in by_place.values()),
        "mean_utility": sum(means) / len(means) if means else None,
        "worst_utility": min(worst, default=None),
        "inputs": inputs,
        "places": by_place,
        "outputs": outputs,
        "alarms": dict(sums.alarms.values()),
    }


def _place(network: Network, place: str, sums: Sums) -> Facts:
    shed, drop = sums.shed[place], sums.words.get(place)
    rows_in = sums.rows[place] + (0 if place in network.rates else shed)
    return {"rows_in": rows_in, "kept": rows_in - shed, "shed": shed, "batches": sums.drops[place], "drop": drop}


def _output(network: Network, name: str, sums: Sums) -> Facts:
    utilities, delivered = sums.utilities.get(name, Numbers()), sums.delivered.get(name, Numbers())
    return {
        "rows": sums.rows[network.into[name][0].name],
        "mean_utility": utilities.mean,
        "worst_utility": utilities.least,
        "mean_delivered": delivered.mean,
        "worst_delivered": delivered.least,
        "last_delivered": delivered.last,
        "last_utility": utilities.last,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
