"""Guards that have seen given Reports, for tests of metrics."""

import penstock as ps
from penstock.messages.report import Latency
from penstock.store.recent_reports import Totals


class Watched(ps.Guard):
    """A guard that has seen these Reports."""

    reports: tuple[ps.Report, ...] = ()

    def report(self) -> ps.Report | None:
        return self.reports[-1] if self.reports else None

    @property
    def totals(self) -> Totals:
        totals = Totals()
        for report in self.reports:
            totals.add(report)
        return totals


def batch(number: int, **more: object) -> ps.Report:
    return ps.Report(
        sequence=number,
        start_s=float(number),
        end_s=number + 1.0,
        rows_in=100,
        rows_kept=70,
        rows_shed={"over capacity": 20, 'a "quoted" reason': 10},
        rows_must_keep=5,
        plan_version=number,
        control_s=0.002,
        backlog_rows=40,
        backlog_age_s=1.5,
        source_rows_behind=7,
        busy_s=0.5,
        queuing=Latency(70, 0.5, 2.0),
        **more,  # type: ignore[arg-type]
    )
