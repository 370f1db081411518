"""Planners: from the Report of one interval to the Plan for the next."""

from penstock.core.share import share_that_fits
from penstock.core.target import MeanQueueLatency
from penstock.plan import Effect, KeepTable, Plan
from penstock.report import Report

#: The place of the one gate in front of a query.
SOURCE = "source"


class FixedShare:
    """Keeps the same share of rows, whatever happens.

    >>> planner = FixedShare("half", keep_share=0.5, reason="random share", salt=0)
    >>> report = Report(sequence=4, start_s=0.0, end_s=1.0, rows_in=8, rows_kept=8)
    >>> planner.decide(report, now_s=1.0).gate("source").keep
    (0.5,)
    >>> planner.decide(report, now_s=2.0) is None  # it stays in force
    True
    """

    def __init__(self, policy: str, *, keep_share: float, reason: str, salt: int) -> None:
        """Plan for the policy of this name."""
        self._plans = _Plans(policy, reason, salt)
        self._keep_share = keep_share

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """The plan, once."""
        return self._plans.of_share(report, now_s, self._keep_share)


class ShareThatFits:
    """Keeps the share of rows whose work fits before the target is broken.

    >>> planner = ShareThatFits("load_aware", MeanQueueLatency("1 s"), salt=0)
    >>> overloaded = Report(
    ...     sequence=2, start_s=0, end_s=10, rows_in=100, rows_kept=100, busy_s=10.0, backlog_rows=90
    ... )
    >>> planner.decide(overloaded, now_s=10.0).gate("source").keep
    (0.1,)
    """

    def __init__(self, policy: str, target: MeanQueueLatency, *, salt: int) -> None:
        """Plan for the policy of this name."""
        self._plans = _Plans(policy, "more work than capacity", salt)
        self._target_s = target.limit_s

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """A plan if the report asks for another share than the last one."""
        share = share_that_fits(report, self._target_s)
        return None if share is None else self._plans.of_share(report, now_s, share)


class _Plans:
    """Makes plans of one share, and only where it differs from the share in force."""

    def __init__(self, policy: str, reason: str, salt: int) -> None:
        self._policy, self._reason, self._salt = policy, reason, salt
        self._in_force: float | None = None

    def of_share(self, report: Report, now_s: float, share: float) -> Plan | None:
        if share == self._in_force:
            return None
        self._in_force = share
        version = report.sequence + 1
        if share >= 1.0:
            return Plan.keep_all(version, self._policy, now_s, self._salt)
        table = KeepTable(SOURCE, keep=(share,), reasons=(self._reason,))
        return Plan(version, self._policy, now_s, self._salt, gates=(table,), expected=Effect(keep_share=share))
