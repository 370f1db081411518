"""Ages of rows when their batch starts: counts of arrival times at the gate, and how reports read them.

The gate counts in any stream with arrival times, whether or not an operator is measured. Implausible times are counted
separately and excluded from everything else, as in `core.control.backlog`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock.core.control.backlog import MOST_AGE_S, MOST_AHEAD_S
from penstock.messages.report import Latency


def counted(arrival_s: Column, kept: Column) -> list[Column]:
    """The gate's counts of arrival times; `kept` selects the rows that pass."""
    # In a stream the time of the batch: the same for all of its rows, also when it is run again.
    now_s = F.unix_micros(F.current_timestamp()) / F.lit(1e6)
    number = arrival_s.isNotNull() & ~F.isnan(arrival_s)
    ancient = number & (arrival_s < now_s - F.lit(MOST_AGE_S))
    ahead = number & (arrival_s > now_s + F.lit(MOST_AHEAD_S))
    usable = number & ~ancient & ~ahead
    own = F.when(usable, arrival_s)
    own_kept = F.when(usable & kept, arrival_s)
    timed, strange = F.count(own), (F.count(F.when(ancient, 1)), F.count(F.when(ahead, 1)))
    kept_sums = F.count(own_kept), F.avg(own_kept), F.min(own_kept)
    sums = (timed, *strange, F.min(own), F.max(own), *kept_sums)
    return [one.alias(name) for name, one in zip(Ages._fields, sums, strict=True)]


class Ages(NamedTuple):
    """Times of arrival of a batch's rows, as the gate counted them, under the names of its counts."""

    timed: int  #: rows with a plausible time
    ancient: int  #: rows with a time too far back
    ahead: int  #: rows with a time ahead of the clock
    oldest_s: float | None  #: the earliest and the latest plausible time
    newest_s: float | None
    kept_timed: int  #: kept rows with a plausible time; the mean of these, and the earliest
    kept_arrival_s: float | None
    kept_oldest_s: float | None

    @classmethod
    def of(cls, counts: Mapping[str, Any]) -> Self | None:
        """The gate's counts; None if its stream has no arrival time, or an older version judged it."""
        return None if counts.get("timed") is None else cls(*(counts[name] for name in cls._fields))

    def lag_s(self, start_s: float) -> float | None:
        """Age of the newest row when the batch starts; None if no row has a time of arrival."""
        return None if self.newest_s is None else max(start_s - self.newest_s, 0.0)

    def waits(self, start_s: float, delay_s: float, work_s: float) -> Latency | None:
        """Waits of rows that started evenly over `work_s`, from `delay_s` after the start of their batch.

        >>> ages = Ages(3, 0, 0, 90.0, 99.0, kept_timed=2, kept_arrival_s=96.0, kept_oldest_s=94.0)
        >>> ages.waits(100.0, delay_s=0.5, work_s=2.0)
        Latency(rows=2, mean_s=5.5, max_s=8.5)
        """
        if self.kept_arrival_s is None or self.kept_oldest_s is None:
            return None
        mean_s = start_s - self.kept_arrival_s + delay_s + work_s / 2.0
        longest_s = start_s - self.kept_oldest_s + delay_s + work_s
        return Latency(self.kept_timed, max(mean_s, 0.0), max(longest_s, 0.0))
