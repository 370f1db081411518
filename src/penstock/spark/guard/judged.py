"""Whether batches are judged as they should be, and by whom else: what a controller says if they are not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.core.loop.leases import LEASE_S
from penstock.spark.plans.control_row import ANOTHERS, NO_PLAN, WHY

if TYPE_CHECKING:
    from penstock.messages.plan import Plan
    from penstock.spark.plans.places import Store

_logger = logging.getLogger("penstock")

#: Raise an alarm after this many batches in a row without a plan, although one was in force when they began.
UNJUDGED_BATCHES = 2
#: A plan is on disk so long after it was decided.
WRITTEN_S = 1.0
#: Time between two looks for other queries behind the same gate, and how long one that was found is remembered.
LOOK_S, REMEMBER_S = 10.0, 60.0


class Judged:
    """What the batches of one query say about their judging."""

    def __init__(self, query: str, store: Store | None) -> None:
        """Of this query, whose guard keeps its plans in this store."""
        self._query, self._store = query, store
        self._trouble: str | None = None
        self._unjudged = 0
        self._shedding_since_s: float | None = None
        self._looked_s: float | None = None
        self._bound: dict[str, float] = {}
        self._others: dict[str, float] = {}  # when another query was last seen to bind a batch

    @property
    def alarms(self) -> tuple[str, ...]:
        """Alarms, as of the last batch."""
        own = () if self._trouble is None else (self._trouble,)
        return own + tuple(
            f"query {other} reads rows that this guard admits for query {self._query}: it keeps every row, and no "
            "report counts them; give it its own guard"
            for other in self._others
        )

    def look(
        self, version: int | None, start_s: float, plan: Plan | None, leased_s: float, now_s: float, note: str = ""
    ) -> None:
        """At a batch that began then and says that it was judged by this plan, or why by none.

        The plan that is in force now was decided, or last renewed, at `leased_s`.
        """
        folder = "the guard's folder" if self._store is None else str(self._store.folder)
        self._trouble = None
        if version in WHY:
            why = WHY[version].format(folder=folder) + (f": {note}" if note else "")
            self._trouble = f"query {self._query} kept every row of a batch because {why}"
        elif version in (None, NO_PLAN, ANOTHERS) and self._was_shedding(start_s, leased_s):
            self._unjudged += 1
        else:
            self._unjudged = 0
        if self._unjudged >= UNJUDGED_BATCHES:
            self._trouble = (
                f"query {self._query} keeps every row although a plan that sheds is in force: check that executors can "
                f"read the driver's folder {folder}, and that clocks are synchronized"
            )
        self._watch_shedding(plan)
        self._look_for_others(now_s)

    def _was_shedding(self, start_s: float, leased_s: float) -> bool:
        """Whether a plan that sheds should have been found when the batch began; one that nobody renews should not."""
        if self._shedding_since_s is None or start_s - leased_s > LEASE_S:
            return False
        return start_s > self._shedding_since_s + WRITTEN_S

    def _watch_shedding(self, in_force: Plan | None) -> None:
        if in_force is None or not in_force.gates:
            self._shedding_since_s = None
        elif self._shedding_since_s is None:
            self._shedding_since_s = in_force.decided_s

    def _look_for_others(self, now_s: float) -> None:
        if self._store is None or (self._looked_s is not None and 0.0 <= now_s - self._looked_s < LOOK_S):
            return
        first, self._looked_s = self._looked_s is None, now_s
        try:
            found = self._store.bound()
        except Exception as error:  # noqa: BLE001 - whatever it is, planning goes on
            _logger.warning("cannot check whether another query uses this guard's gate: %s", error)
            return
        for query, bound_s in found.items():
            # One that has ended, perhaps under another identity, binds nothing any more.
            if query != self._query and not first and bound_s > self._bound.get(query, 0.0):
                self._others[query] = now_s
        self._bound = found
        self._others = {one: seen_s for one, seen_s in self._others.items() if now_s - seen_s <= REMEMBER_S}
