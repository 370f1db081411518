"""What a running network looks like after a batch, for people to see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


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
