"""What a running network looks like after a batch, for people to see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Snapshot:
    """A network after a batch.

    Attributes:
        batch: Number of the micro-batch.
        time_s: When it ended, in seconds since 1970.
        duration_s: How long it took.
        rows: Rows that came from each input, before any drop, and that went along each arc, behind its drop.
        rates: Rows a second that came from each input, before any drop.
        flows: Rows a second on each arc, behind its drop.
        loads: Work a second that the rows on each arc caused in the box they went to.
        load: Work a second that would be due without drops; in seconds of a task.
        capacity: Work a second that can be done.
        headroom: The share of capacity that may be used.
        drops: The drops in force, by place (the name of an input or an arc): what they do, in words.
        shed: Rows dropped at each place in this batch.
        delivered: Percent of its rows that each output got: its QoS cursor.
        utilities: What that is worth, by output.
        entry: Index of the road map's entry in force; 0 drops nothing.
        entries: How many entries the road map has.
        rebuilt: How often the road map was built.
        alarms: Alarms.
    """

    batch: int
    time_s: float
    duration_s: float
    rows: Mapping[str, int]
    rates: Mapping[str, float]
    flows: Mapping[str, float]
    loads: Mapping[str, float]
    load: float
    capacity: float
    headroom: float
    drops: Mapping[str, str]
    shed: Mapping[str, int]
    delivered: Mapping[str, float]
    utilities: Mapping[str, float]
    entry: int = 0
    entries: int = 0
    rebuilt: int = 0
    alarms: tuple[str, ...] = field(default=())
