"""A run of a network in numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock.core.network.drops import places
from penstock.views.network import formatting as fmt
from penstock.views.network.history import Drops, History, Numbers, Sums, load, period_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.network.model import Network
    from penstock.messages.snapshot import Snapshot

Facts = dict[str, Any]


def periods_s(snapshots: Sequence[Snapshot]) -> list[float]:
    """The time that each snapshot's rates are counted over: since the batch before ended; of the first, its own."""
    first = [period_s(None, one) for one in snapshots[:1]]
    return [*first, *(period_s(before, after) for before, after in pairwise(snapshots))]


def summary(network: Network, snapshots: Sequence[Snapshot]) -> Facts:
    """A run in numbers, as plain data for JSON.

    All rows are counted by the query. A row that goes to several boxes counts on each arc. What is not known is None. A
    run's `History` also covers batches whose snapshots are discarded.

    Returns:
        `batches`, `seconds`, `batches_overloaded` (load without drops above headroom), `batches_above_headroom` (load
        with drops above it), `highest_load` (batch, load and what was allowed), `road_maps_built`, `rows_in`,
        `rows_shed`, `mean_utility` and `worst_utility` over outputs, `alarms` with how often each was raised; by name
        `inputs`, `places` (rows in, kept, shed, batches in force, the drop's last words) and `outputs`.
    """
    sums = snapshots.sums if isinstance(snapshots, History) else Sums.of(snapshots)
    by_place = {place: _place(network, place, sums) for place in _all_places(network, sums)}
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
        "alarms": sums.alarms,
    }


def peak(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The batch with the highest load."""
    return max(snapshots, key=load)


def _all_places(network: Network, sums: Sums) -> list[str]:
    """Where drops may stand, and wherever else one stood."""
    return list(dict.fromkeys([*(place.name for place in places(network)), *sums.drops, *sums.shed]))


def _place(network: Network, place: str, sums: Sums) -> Facts:
    shed, drops = sums.shed[place], sums.drops.get(place, Drops())
    rows_in = sums.rows[place] + (0 if place in network.rates else shed)
    return {"rows_in": rows_in, "kept": rows_in - shed, "shed": shed, "batches": drops.batches, "drop": drops.words}


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
