"""The control row: the plan of a micro-batch as the integers that its gate reads.

`ControlRow` writes the numbers, `ControlColumns` reads them in Catalyst. No other module knows the layout of the row.
"""

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.gate import KEEP_ALL

#: The position of each number, after the thresholds of all buckets. First the plan's version or a code below, and the
#: microseconds to make the row. Then the time of the binding, grace and freshness for thinning a backlog, in
#: microseconds, or zeros. Then the gate's rules that apply, and the SIC of a row of each source.
VERSION, _READ, _BOUND, _GRACE, _FRESH, _RULES, _SIC = range(BUCKETS, BUCKETS + 7)
#: The unit of SIC in the row: 1 is 10**18 of it.
_SIC_UNIT = 1e-18

#: Codes instead of a version: no plan is in force, or it belongs to another query.
NO_PLAN, ANOTHERS = -1, -6
#: The entry if the newest plan could not be used when the batch was bound, so that the batch keeps every row.
UNUSABLE = -8
#: The entry if the batch cannot be judged. Every row is kept then, which a replay may not repeat; with a quarantine
#: the batch fails.
UNREADABLE, ELSEWHERE, UNBOUND, REUSED, UNKNOWN_RULES = UNJUDGED = -2, -3, -4, -5, -7
#: The reason in words; `{folder}` is the guard's folder.
WHY = {
    UNUSABLE: "its plan could not be read",
    UNREADABLE: "its plan could not be read",
    ELSEWHERE: "executors cannot read {folder}: mount the driver's folder there under the same path, or give them the "
    "credentials of its bucket",
    UNBOUND: "it could not be bound to a plan: check that {folder} has space and can be written",
    REUSED: "its number was used before with other offsets: stop the query and delete {folder}/bindings",
    UNKNOWN_RULES: "it was bound by a guard with other settings: stop the query and start it from a new guard.admit",
}

_KEEP_ALL = (KEEP_ALL,) * BUCKETS


class ControlRow(NamedTuple):
    """The plan of a batch for its gate; by default every row is kept."""

    version: int = NO_PLAN
    limits: tuple[int, ...] = _KEEP_ALL  #: the threshold of every bucket
    backlog_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rules: int = 0  #: the place of its rules among those of the gate
    sic: tuple[float, ...] = ()

    def to_numbers(self, read_s: float) -> list[int]:
        """The row as it reaches the gate, with the time to make it."""
        sic = (round(one / _SIC_UNIT) for one in self.sic)
        return [*self.limits, self.version, microseconds(read_s), *map(microseconds, self.backlog_s), self.rules, *sic]


class ControlColumns(NamedTuple):
    """The control row as a column, split into columns."""

    control: Column

    def threshold(self, bucket: Column) -> Column:
        """The threshold of a bucket."""
        return F.get(self.control, bucket)

    @property
    def version(self) -> Column:
        """The plan's version, or a code."""
        return self._at(VERSION)

    @property
    def read_us(self) -> Column:
        """The time to make the row."""
        return self._at(_READ)

    @property
    def rules(self) -> Column:
        """The place of the batch's rules among those of the gate."""
        return self._at(_RULES)

    @property
    def backlog_s(self) -> tuple[Column, Column, Column]:
        """The time of the binding, the grace, and the age below which rows are fresh."""
        bound_s, grace_s, fresh_s = (self._at(place) / F.lit(1e6) for place in (_BOUND, _GRACE, _FRESH))
        return bound_s, grace_s, fresh_s

    def sic(self, source: Column) -> Column:
        """The SIC of a row of a source; null without a plan."""
        return F.get(self.control, F.lit(_SIC) + source) * F.lit(_SIC_UNIT)

    def _at(self, place: int) -> Column:
        return F.get(self.control, F.lit(place))


def microseconds(time_s: float) -> int:
    """Seconds as whole microseconds."""
    return round(1e6 * time_s)
