"""A run of a network in numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock.core.drops import places
from penstock.spark.network import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.network import Network
    from penstock.spark.network.snapshot import Snapshot

Facts = dict[str, Any]


def periods_s(snapshots: Sequence[Snapshot]) -> list[float]:
    """The time that each snapshot's rates are counted over: since the batch before ended; of the first, its own."""
    found = [one.duration_s for one in snapshots[:1]]
    for before, after in pairwise(snapshots):
        gap_s = after.time_s - before.time_s
        found.append(gap_s if gap_s > 0.0 else after.duration_s)
    return found


def summary(network: Network, snapshots: Sequence[Snapshot]) -> Facts:
    """A run in numbers, as plain data for JSON.

    All rows are counted by the query. A row that goes to several boxes counts on each arc. What is not known is None.

    Returns:
        `batches`, `seconds`, `batches_overloaded` (load without drops above headroom), `batches_above_headroom` (load
        with drops above it), `highest_load` (batch, load and what was allowed), `road_maps_built`, `rows_in`,
        `rows_shed`, `mean_utility` and `worst_utility` over outputs, `alarms` with how often each was raised; by name
        `inputs`, `places` (rows in, kept, shed, batches in force, the drop's last words) and `outputs`.
    """
    seconds = periods_s(snapshots)
    highest = max(snapshots, key=_load, default=None)
    by_place = {place: _place(network, place, snapshots) for place in _all_places(network, snapshots)}
    inputs = {one.name: {"rows_in": _rows(snapshots, one.name)} for one in network.inputs}
    outputs = {one.name: _output(network, one.name, snapshots) for one in network.outputs}
    means = [one["mean_utility"] for one in outputs.values() if one["mean_utility"] is not None]
    worst = [one["worst_utility"] for one in outputs.values() if one["worst_utility"] is not None]
    alarms = dict.fromkeys((alarm for one in snapshots for alarm in one.alarms), 0)
    for one in snapshots:
        for alarm in one.alarms:
            alarms[alarm] += 1
    return {
        "batches": len(snapshots),
        "seconds": _finite(sum(seconds)),
        "batches_overloaded": sum(one.load > words.limit(one) for one in snapshots),
        "batches_above_headroom": sum(words.carried(one) > words.limit(one) for one in snapshots),
        "highest_load": highest
        and {"batch": highest.batch, "load": _finite(highest.load), "allowed": _finite(words.limit(highest))},
        "road_maps_built": snapshots[-1].rebuilt if snapshots else 0,
        "rows_in": sum(one["rows_in"] for one in inputs.values()),
        "rows_shed": sum(one["shed"] for one in by_place.values()),
        "mean_utility": _mean(means),
        "worst_utility": min(worst, default=None),
        "inputs": inputs,
        "places": by_place,
        "outputs": outputs,
        "alarms": alarms,
    }


def peak(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The batch with the highest load."""
    return max(snapshots, key=_load)


def _load(snapshot: Snapshot) -> float:
    return snapshot.load if math.isfinite(snapshot.load) else -math.inf


def _all_places(network: Network, snapshots: Sequence[Snapshot]) -> list[str]:
    """Where drops may stand, and wherever else one stood."""
    found = dict.fromkeys(place.name for place in places(network))
    for one in snapshots:
        found |= dict.fromkeys([*one.drops, *one.shed])
    return list(found)


def _place(network: Network, place: str, snapshots: Sequence[Snapshot]) -> Facts:
    shed = sum(one.shed.get(place, 0) for one in snapshots)
    told = [one.drops[place] for one in snapshots if place in one.drops]
    rows_in = _rows(snapshots, place) + (0 if place in network.rates else shed)
    return {
        "rows_in": rows_in,
        "kept": rows_in - shed,
        "shed": shed,
        "batches": len(told),
        "drop": told[-1] if told else None,
    }


def _output(network: Network, name: str, snapshots: Sequence[Snapshot]) -> Facts:
    arc = network.into[name][0].name
    utilities = [known for one in snapshots if (known := words.known(one.utilities, name)) is not None]
    delivered = [known for one in snapshots if (known := words.known(one.delivered, name)) is not None]
    return {
        "rows": _rows(snapshots, arc),
        "mean_utility": _mean(utilities),
        "worst_utility": min(utilities, default=None),
        "mean_delivered": _mean(delivered),
        "worst_delivered": min(delivered, default=None),
        "last_delivered": delivered[-1] if delivered else None,
        "last_utility": utilities[-1] if utilities else None,
    }


def _rows(snapshots: Sequence[Snapshot], name: str) -> int:
    return sum(one.rows.get(name, 0) for one in snapshots)


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
