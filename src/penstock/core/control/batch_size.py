r"""The size of a batch before it runs, and the share of it that fits.

Spark records the offsets and the planning time of a batch before it runs. If offsets count rows, they give the number
$N$ of its rows, and the times give the time $D$ since the previous batch was planned. A plan has the number of rows $R$
of a batch that fit, and the sustainable rows a second $r$ (`penstock.messages.plan.Fits`). A batch that is larger
because more rows come, and not because the previous batch took long, is thinned in proportion:

$$\text{share} = \begin{cases} R / N & N > R \text{ and } N > r D \\ 1 & \text{otherwise} \end{cases}$$

A plan that holds a rate has no $R$. There the share is $\min(1, r D / N)$. Idle time of the query counts up to the time
between the two previous batches, or 10 s. A rate is not saved up through a lull.

Offsets need not count the rows of the gate. There may be filters in between, and a Kafka topic that is compacted, or
written in transactions, has offsets without rows. The rows per offset are learned from recent batches.
"""

from collections import deque
from collections.abc import Mapping

from penstock.messages.plan import Fits

#: Why rows of such a batch are shed.
TOO_MANY = "more rows in the batch than fit"

#: The idle time for which a rate is saved up, unless batches are usually further apart.
SAVED_UP_S = 10.0
#: The number of batches from which rows per offset are learned.
RATIO_BATCHES = 5

#: The one part of a source that has no partitions.
_ALL = "", ""


def rows_between(before: object | None, after: object) -> int | None:
    """Rows between two offsets of a source; None if its offsets do not count rows.

    Known are Kafka's connector, the embedded source and Spark's `rate-micro-batch`. `before` is None if the source is
    read from its beginning, which for Kafka may be anywhere. So may be that of a partition that is new.

    >>> rows_between({"topic": {"0": 10, "1": 5}}, {"topic": {"0": 12, "1": 6}})
    3
    >>> rows_between(None, {"rows": 400, "start_us": 0}), rows_between({"logOffset": 1}, {"logOffset": 2})
    (400, None)
    """
    ends = _counted(after)
    begins = {_ALL: 0} if before is None else _counted(before)
    if ends is None or begins is None or not ends.keys() <= begins.keys():
        return None
    rows = sum(end - begins[part] for part, end in ends.items())
    return rows if rows >= 0 else None


def _counted(offset: object) -> dict[tuple[str, str], int] | None:
    """The number of rows before an offset, by part."""
    match offset:
        case {"rows": int(rows), "start_us": int()}:
            return {_ALL: rows}
        case {"offset": int(rows), "timestamp": int()}:
            return {_ALL: rows}
        case Mapping() if offset and all(isinstance(parts, Mapping) for parts in offset.values()):
            found = {(topic, part): end for topic, parts in offset.items() for part, end in parts.items()}
            return found if all(isinstance(end, int) for end in found.values()) else None
    return None


def share_that_fits(fits: Fits, rows: float, over_s: float) -> float:
    """The share of a batch of `rows` rows that fits; they came in `over_s` seconds.

    >>> held = Fits(rows_per_s=50.0)
    >>> share_that_fits(held, rows=20_000, over_s=1.0), share_that_fits(held, rows=40, over_s=1.0)
    (0.0025, 1.0)
    >>> work = Fits(rows_per_s=500.0, rows=1_000.0)
    >>> share_that_fits(work, rows=4_000, over_s=2.0)  # an overload
    0.25
    >>> share_that_fits(Fits(500.0, 1_000.0, by_deadline=True), rows=4_000, over_s=10.0)  # they must be done by then
    0.25
    >>> share_that_fits(work, rows=4_000, over_s=10.0)  # no more come than can be kept up with: they have waited
    1.0
    """
    kept_up = 0.0 if fits.by_deadline else fits.rows_per_s * max(over_s, 0.0)
    if rows <= max(kept_up, fits.rows or 0.0):
        return 1.0
    return (kept_up if fits.rows is None else fits.rows) / rows


def saved_up_s(worked_s: float, idle_s: float, usual_s: float | None) -> float:
    """The time for which a rate admits rows, from the work of the previous batch and the idle time after it.

    `usual_s` is the time between the starts of the two previous batches: a trigger may be long. If it is unknown, all
    of the time counts.

    >>> saved_up_s(2.0, 600.0, usual_s=2.5), saved_up_s(2.0, 58.0, usual_s=60.0), saved_up_s(30.0, 0.0, usual_s=2.5)
    (12.0, 60.0, 30.0)
    """
    return worked_s + (idle_s if usual_s is None else min(idle_s, max(SAVED_UP_S, usual_s)))


class OffsetRatio:
    """The rows at a gate per row counted by offsets, over recent batches.

    >>> ratio = OffsetRatio(None)
    >>> ratio.learn(rows=50, offsets=100)
    >>> ratio.value
    0.5
    """

    def __init__(self, known: float | None) -> None:
        self.value = known
        self._recent = deque[tuple[int, int]](maxlen=RATIO_BATCHES)

    def learn(self, rows: int, offsets: int | None) -> None:
        """Learn from a batch, unless its offsets count no rows."""
        if offsets:
            self._recent.append((rows, offsets))
            came, counted = (sum(each) for each in zip(*self._recent, strict=True))
            self.value = came / counted if came else self.value

    def differs(self, used: float | None) -> bool:
        """Whether it differs by a quarter or more from the one in use."""
        if self.value is None or used is None:
            return self.value is not used
        return not 0.8 < self.value / used < 1.25  # noqa: PLR2004 - a quarter either way
