r"""How much of the next interval's work fits: the step from a Report to a keep share.

Work that waits at the source delays every row behind it, so the next interval may take in what the operator gets done
in that time, plus the backlog the target allows, minus the backlog there is:

$$s = \frac{R\,T + R\,\tau - B}{O}, \qquad R = \frac{\text{busy}}{T}, \quad O = \text{rows in} \times \bar w, \quad
B = \text{backlog rows} \times \bar w$$

with T the interval, R the work done per second, O the work offered and $\bar w$ the mean cost of the rows executed.
"""

from penstock.report import Report

#: Never keep less: a gate that is shut measures nothing and would never open again.
LEAST_SHARE = 0.01


def share_that_fits(report: Report, target_s: float) -> float | None:
    """The share of rows to keep in the interval after the report, or None if the report tells nothing of costs.

    >>> calm = Report(sequence=1, start_s=0, end_s=10, rows_in=100, rows_kept=100, busy_s=2.0)
    >>> share_that_fits(calm, target_s=1.0)  # nothing waits, the operator is mostly idle
    1.0
    >>> overloaded = Report(
    ...     sequence=2, start_s=0, end_s=10, rows_in=200, rows_kept=100, busy_s=10.0, backlog_rows=10,
    ...     rows_shed={"more work than capacity": 100},
    ... )
    >>> share_that_fits(overloaded, target_s=1.0)  # 20 s of work offered, 10 s done, 1 s waiting, 1 s may wait
    0.5
    """
    if not (report.rows_kept and report.busy_s and report.duration_s and report.rows_in):
        return None
    mean_cost_s = report.busy_s / report.rows_kept
    backlog_s = report.backlog_rows * mean_cost_s
    rate = report.busy_s / report.duration_s
    if not report.backlog_rows and not report.shed_total:
        return 1.0
    fits_s = rate * report.duration_s + rate * target_s - backlog_s
    return min(max(fits_s / (report.rows_in * mean_cost_s), LEAST_SHARE), 1.0)
