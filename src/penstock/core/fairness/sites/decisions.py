"""The planner of a site for the loop: before each batch, by incoming rows and peer updates."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.control.memory import restored, saved
from penstock.core.fairness.sites.planner import SitePlanner
from penstock.messages.plan import Drop, Plan, QueryShare, RowSic
from penstock.messages.report import Known, Report


class SiteDecisions:
    """A plan for each batch, by the report of what is about to run; a report with boxes is of a batch that has run.

    Rows that waited because the site was stopped, and are not to be thinned for their age, are its `backlog_rows`.

    >>> from penstock.core.fairness.sites.planner import SiteInput, SitePlanner, SiteQuery
    >>> from penstock.messages.report import PlaceRows, Report
    >>> inputs = {"cpu": SiteInput("f", "cov", source=True)}
    >>> planner = SitePlanner(inputs, {"cov": SiteQuery(sources=2)}, rows_per_s=100.0)
    >>> came = Report(sequence=0, start_s=8.0, end_s=10.0, elapsed_s=2.0, rows_in=400, rows_kept=400,
    ...               sources={"cpu": PlaceRows(400, 400)})
    >>> plan = SiteDecisions(planner, "balance").plan(came, 10.0)
    >>> plan.drop("cpu").keep, plan.sic_at("cpu").sic, plan.queries[0].give
    (0.5, (0.00025,), 0.5)
    """

    def __init__(self, planner: SitePlanner, policy: str) -> None:
        self._planner, self._policy = planner, policy

    @property
    def alarms(self) -> tuple[str, ...]:
        """What needs an operator."""
        return self._planner.capacity.alarms

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """The plan of a batch that is about to run; None after one that has run, from which the planner learns."""
        return self._planner.learn(report) if report.boxes else self.plan(report, now_s)

    def plan(self, report: Report, now_s: float) -> Plan:
        """Keep shares of a batch."""
        rows = {name: one.rows_in for name, one in report.places.items()}
        if report.elapsed_s:
            shares = self._planner.decide(rows, report.elapsed_s, report.peers, waited=report.backlog_rows > 0)
        else:
            shares = self._planner.waiting(rows)
        nobody = Known(0.0, 0.0)
        levels = {
            query: min(report.peers.get(query, nobody).sic + self._planner.parts[query] * give, 1.0)
            for query, give in shares.give.items()
        }
        return Plan(
            0,
            self._policy,
            now_s,
            0,
            drops=tuple(Drop(name, keep=share) for name, share in shares.keep.items()),
            sic=tuple(RowSic(name, (share,)) for name, share in shares.sic.items()),
            queries=tuple(QueryShare(name, give, levels[name]) for name, give in shares.give.items()),
            elapsed_s=report.elapsed_s or report.duration_s,
        )

    def save(self) -> dict[str, Any]:
        """The learned times of batches; rates are measured again."""
        return saved(self._policy, **self._planner.capacity.parts)

    def restore(self, state: Mapping[str, Any], now_s: float) -> None:
        """Restore the state of `save`."""
        del now_s
        restored(state, self._policy, **self._planner.capacity.parts)

    def recall(self, reports: Sequence[Report], now_s: float) -> Plan | None:
        """Nothing: each batch has its own plan."""

    def release(self, version: int, now_s: float, note: str) -> Plan:
        """A plan that keeps every row."""
        return Plan(version, self._policy, now_s, 0, note=note)
