r"""How much of what waits can be taken in: the step from a Report to a keep share.

What waits at the source is the next batch. Taken in whole, its last row waits until all the others are done:

$$s = \frac{\alpha\,\tau}{W}, \qquad W = \frac{\text{backlog rows} \times \bar w}{\text{slots}}$$

with $\bar w$ the mean cost of the rows executed. Nothing of it depends on what was shed before, so shedding ends with
the overload: there is no loop that keeps itself alive.
"""

from penstock.report import Report

#: Never keep less: a gate that is shut measures nothing and would never open again.
LEAST_SHARE = 0.01
#: Share of the target that the next batch may fill.
FILL = 0.9


def share_that_fits(report: Report, target_s: float) -> float | None:
    """The share of rows to keep in the interval after the report, or None if the report tells nothing of costs.

    >>> calm = Report(sequence=1, start_s=0, end_s=10, rows_in=100, rows_kept=100, busy_s=2.0)
    >>> share_that_fits(calm, target_s=1.0)  # nothing waits
    1.0
    >>> overloaded = Report(
    ...     sequence=2, start_s=0, end_s=10, rows_in=100, rows_kept=100, busy_s=10.0, backlog_rows=90
    ... )
    >>> share_that_fits(overloaded, target_s=1.0)  # 9 s of work waits, 0.9 s may
    0.1
    """
    if not (report.rows_kept and report.busy_s):
        return None
    mean_cost_s = report.busy_s / report.rows_kept
    waiting_s = report.backlog_rows * mean_cost_s / report.slots
    if waiting_s <= FILL * target_s:
        return 1.0
    return max(FILL * target_s / waiting_s, LEAST_SHARE)
