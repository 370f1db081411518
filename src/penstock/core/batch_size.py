r"""How large a batch is before it runs, and what share of it fits.

Spark writes down what a batch covers before the batch runs: the offsets up to which it reads each source, and when it
was planned. If offsets count rows, the number $N$ of its rows follows, and so does the time $D$ since the batch before
it was planned. A plan says how many rows $R$ of a batch fit it, and how many a second, $r$, can be kept up with
(`penstock.plan.Fits`). A batch that is larger, because more rows come and not because the batch before it took long, is
thinned in proportion:

$$\text{share} = \begin{cases} R / N & N > R \text{ and } N > r D \\ 1 & \text{otherwise} \end{cases}$$

A plan that holds a rate has no $R$. There the share is $\min(1, r D / N)$.
"""

from collections.abc import Mapping

from penstock.plan import Fits

#: Why rows of such a batch are shed.
TOO_MANY = "more rows in the batch than fit"

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
    """How many rows lie before an offset, part by part."""
    match offset:
        case {"rows": int(rows), "start_us": int()}:
            return {_ALL: rows}
        case {"offset": int(rows), "timestamp": int()}:
            return {_ALL: rows}
        case Mapping() if offset and all(isinstance(parts, Mapping) for parts in offset.values()):
            found = {(topic, part): end for topic, parts in offset.items() for part, end in parts.items()}
            return found if all(isinstance(end, int) for end in found.values()) else None
    return None


def share_that_fits(fits: Fits, rows: int, over_s: float) -> float:
    """The share of a batch of so many rows that fits; they came in `over_s` seconds.

    >>> held = Fits(rows_per_s=50.0)
    >>> share_that_fits(held, rows=20_000, over_s=1.0), share_that_fits(held, rows=40, over_s=1.0)
    (0.0025, 1.0)
    >>> work = Fits(rows_per_s=500.0, rows=1_000.0)
    >>> share_that_fits(work, rows=4_000, over_s=2.0)  # an overload
    0.25
    >>> share_that_fits(work, rows=4_000, over_s=10.0)  # no more come than can be kept up with: they have waited
    1.0
    """
    kept_up = fits.rows_per_s * max(over_s, 0.0)
    if rows <= max(kept_up, fits.rows or 0.0):
        return 1.0
    return (kept_up if fits.rows is None else fits.rows) / rows
