"""The common planner of several queries, for the loop of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from penstock.core.fairness.planner import FairPlanner
    from penstock.messages.plan import Plan
    from penstock.messages.report import Report


class MemberPlanner:
    """The planner of one query's loop: calls the common one, by one thread at a time."""

    def __init__(self, planner: FairPlanner, name: str, lock: AbstractContextManager[object]) -> None:
        self._planner, self._name, self._lock = planner, name, lock

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms."""
        return self._planner.alarms(self._name)

    def decide(self, report: Report, now_s: float) -> Plan | None:
        """A plan for the query's next batch, or None to keep the current one."""
        with self._lock:
            return self._planner.decide(self._name, report, now_s)

    def save(self) -> Mapping[str, Any]:
        """The learned state of the query."""
        with self._lock:
            return self._planner.save(self._name)

    def restore(self, state: Mapping[str, Any], now_s: float) -> None:
        """Restore the state of `save`."""
        with self._lock:
            self._planner.restore(self._name, state, now_s)

    def recall(self, reports: Sequence[Report], now_s: float) -> Plan | None:
        """A plan for the first batch by the reports of an earlier run, or None if nothing follows."""
        with self._lock:
            return self._planner.recall(self._name, reports, now_s)

    def release(self, version: int, now_s: float, note: str) -> Plan | None:
        """A plan that keeps everything."""
        with self._lock:
            return self._planner.release(self._name, version, now_s, note)

    def leave(self) -> None:
        """The query has ended, or is no longer watched."""
        with self._lock:
            self._planner.leave(self._name)
