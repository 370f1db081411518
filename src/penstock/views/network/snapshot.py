"""What a running network looks like after a batch: its report, the plan that judged it, and what the planner says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.messages.report import PlaceRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.network.planner import NetworkPlanner
    from penstock.core.network.roadmap import Entry
    from penstock.messages.plan import Plan
    from penstock.messages.report import Report


@dataclass(frozen=True)
class Snapshot:
    """A network after a batch."""

    batch: int  #: number of the micro-batch
    time_s: float  #: when it ended, in seconds since 1970
    duration_s: float  #: how long it took
    #: Rows that came from each input, before any drop, and that went along each arc, behind its drop.
    rows: Mapping[str, int]
    rates: Mapping[str, float]  #: rows a second that came from each input, before any drop
    flows: Mapping[str, float]  #: rows a second on each arc, behind its drop
    loads: Mapping[str, float]  #: work a second that the rows on each arc caused in the box they went to
    load: float  #: work a second that would be due without drops; in seconds of a task
    capacity: float  #: work a second that can be done
    headroom: float  #: the share of capacity that may be used
    drops: Mapping[str, str]  #: the drops in force, by place (the name of an input or an arc): what they do, in words
    shed: Mapping[str, int]  #: rows dropped at each place in this batch
    delivered: Mapping[str, float]  #: percent of its rows that each output got: its QoS cursor
    utilities: Mapping[str, float]  #: what that is worth, by output
    entry: int = 0  #: index of the road map's entry in force; 0 drops nothing
    entries: int = 0  #: how many entries the road map has
    rebuilt: int = 0  #: how often the road map was built
    alarms: tuple[str, ...] = field(default=())  #: alarms


def taken(
    report: Report, plan: Plan, planner: NetworkPlanner, in_force: tuple[Entry, int], alarms: tuple[str, ...]
) -> Snapshot:
    """The network after a batch.

    Args:
        report: What happened in the batch.
        plan: The plan that judged it.
        planner: The planner, which has learned from it.
        in_force: The road map's entry that was in force, and how many entries that map has.
        alarms: Alarms beside the planner's.
    """
    entry, entries = in_force
    network, span_s = planner.known.network, report.elapsed_s or report.duration_s or 1.0
    rows = {name: one.rows_kept for name, one in report.links.items()}
    came = {name: one.rows_in for name, one in report.sources.items()}
    places, flows = report.places, {name: count / span_s for name, count in rows.items()}
    utilities = {one.name: one.loss_tolerance.utility(entry.delivered.get(one.name, 100.0)) for one in network.outputs}
    return Snapshot(
        batch=report.sequence,
        time_s=report.end_s,
        duration_s=report.duration_s,
        rows={**rows, **came},
        rates={name: count / span_s for name, count in came.items()},
        flows=flows,
        loads={arc.name: flows.get(arc.name, 0.0) * arc.cost for arc in network.arcs},
        load=planner.last.load,
        capacity=planner.last.capacity,
        headroom=planner.headroom,
        drops={drop.place: drop.words for drop in plan.drops},
        shed={drop.place: places.get(drop.place, PlaceRows()).rows_shed for drop in plan.drops},
        delivered=entry.delivered,
        utilities=utilities,
        entry=plan.entry,
        entries=entries,
        rebuilt=planner.rebuilt,
        alarms=(*planner.alarms, *alarms),
    )
