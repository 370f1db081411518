"""The control row: what a micro-batch is judged by, as the whole numbers that reach its gate."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.thresholds import KEEP_ALL

#: Where each number is, behind the threshold of every bucket: the plan's version or a code below; the microseconds it
#: took to find out; in microseconds too, when the batch was bound and the grace and freshness by which a backlog is
#: thinned, or zeros; which of the gate's rules apply; then what a row of each source carries.
VERSION_AT = BUCKETS
READ_AT = BUCKETS + 1
BACKLOG_AT = BUCKETS + 2, BUCKETS + 3, BUCKETS + 4
RULES_AT = BUCKETS + 5
SIC_AT = BUCKETS + 6

#: In what unit the row says what rows carry: 1 is 10**18 of it.
SIC_UNIT = 1e-18

#: What stands in place of a version if no plan is in force; and if the plan in force is one for another query.
NO_PLAN, ANOTHERS = -1, -6
#: What stands there if the newest plan could not be used when the batch was bound, so that it keeps every row for good.
UNUSABLE = -8
#: What stands there if the batch cannot be judged as it should be. Every row is kept then, and may not be at a replay;
#: with a quarantine the batch fails.
UNREADABLE, ELSEWHERE, UNBOUND, REUSED, UNKNOWN_RULES = UNJUDGED = -2, -3, -4, -5, -7
#: The reason in words; `{folder}` is the guard's folder.
WHY = {
    UNUSABLE: "its plan could not be read",
    UNREADABLE: "its plan could not be read",
    ELSEWHERE: "executors do not see {folder}: mount the driver's folder there, under the same path",
    UNBOUND: "it could not be bound to a plan: see to the disk of {folder}, and whether it can be written",
    REUSED: "its number was used before, for other offsets: stop the query and delete {folder}/bindings",
    UNKNOWN_RULES: "it was bound by a guard with other settings: stop the query and start it from a new guard.admit",
}

_KEEP_ALL = (KEEP_ALL,) * BUCKETS


class ControlRow(NamedTuple):
    """What a batch is judged by; of itself, nothing: every row is kept."""

    version: int = NO_PLAN
    limits: tuple[int, ...] = _KEEP_ALL  #: the threshold of every bucket
    backlog_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rules: int = 0  #: the place of its rules among those of the gate
    sic: tuple[float, ...] = ()

    def to_numbers(self, read_s: float) -> list[int]:
        """As it reaches the gate, with the time it took to find out."""
        sic = (round(one / SIC_UNIT) for one in self.sic)
        return [*self.limits, self.version, microseconds(read_s), *map(microseconds, self.backlog_s), self.rules, *sic]


def microseconds(time_s: float) -> int:
    """Seconds as whole microseconds."""
    return round(1e6 * time_s)
