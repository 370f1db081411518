"""Binds batches to plans, put-if-absent: one plan judges a batch at every attempt, and it is durable before it acts."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from penstock.core.loop.binding import Newest, share, thinned
from penstock.errors import PenstockError
from penstock.messages.plan import Binding

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.loop.binding import Planned, Start
    from penstock.messages.plan import Plan
    from penstock.store.logs import BindingLog, PlanLog

#: How often a binder deletes old entries, in batches. The loop deletes more often.
PURGE_EVERY = 1_000

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class Binder:
    """Binds the batches of one query."""

    def __init__(
        self,
        plans: PlanLog,
        bindings: BindingLog,
        seen: dict[str, int] | None = None,
        pause: Callable[[], None] = lambda: None,
        purge: Callable[[int, float], None] | None = None,
        *,
        look: bool = True,
    ) -> None:
        """Bind to the plans of this log.

        `seen` caches the newest version by log, so that a long log is read as fast as a short one. A failed write is
        retried once, after a `pause`. `purge` deletes old entries, for a query whose loop may have ended; where others
        need the same plans, only their common loop may delete any. With `look=False` a batch is assumed to be new
        until the log refuses its binding: that saves a request where each operation is one.
        """
        self._plans, self._bindings = plans, bindings
        self._seen = {} if seen is None else seen
        self._pause, self._purge, self._look = pause, purge, look

    def newest(self) -> Newest:
        """The newest plan.

        Raises:
            PenstockError: If it cannot be read.
        """
        return self._twice(self._newest)

    def _newest(self) -> Newest:
        where = self._plans.store.where
        newest = self._seen.get(where, -1)
        if not self._plans.taken(newest):
            newest = self._plans.next_version() - 1
        while self._plans.taken(newest + 1):
            newest += 1
        if newest < 0:
            return Newest(None)
        self._seen[where] = newest
        plan = self._plans.get(newest)
        if plan is None:
            raise PenstockError(f"plan {newest} cannot be read")
        return Newest(plan, self._plans.renewed_s(newest))

    def bound(self, batch: int, new: Callable[[], Binding]) -> Binding | None:
        """The binding of a batch: the existing one, or `new`; None if it is damaged.

        Raises:
            PenstockError: If the batch cannot be bound.
        """
        found = self._bindings.get(batch) if self._look else None
        if found is not None:
            return found
        made = new()
        self._twice(lambda: self._bindings.add(batch, made))
        if self._purge is not None and batch % PURGE_EVERY == 0:
            with suppress(Exception):
                self._purge(batch, made.bound_s)
        return self._bindings.get(batch)  # Another writer may have been first.

    def new(
        self,
        batch: int,
        query: str,
        now_s: float,
        usable: Callable[[Plan], object] = lambda _: None,
        start: Start | None = None,
        planned: Callable[[], Planned | None] = lambda: None,
    ) -> Binding:
        """A binding to the newest plan; to none if that cannot be used, so that a replay keeps every row, too.

        `usable` raises if a plan cannot be used. `start` has the settings that the gate was made with, and `planned`
        gives the size of the batch.
        """
        thin, fits = None, 1.0
        try:
            newest, note = self.newest(), ""  # Read once: the guard may write another one meanwhile.
            plan = newest.acting(now_s)
            if plan is not None:
                usable(plan)
            if start is not None and start.fresh_s is not None:
                thin = thinned(start, self._last_bound_s(batch))
            fits = share(start, query, newest, None if start is None else planned(), now_s)
        except Exception as error:  # noqa: BLE001 - rows must flow after any error here
            plan, note = None, " ".join(str(error).split()) or type(error).__name__
            _logger.warning("the plans in %s cannot be read, so rows pass: %s", self._plans.store.where, note)
        version = None if plan is None else plan.version
        return Binding(batch, query, now_s, version, thin, note, share=fits)

    def _last_bound_s(self, batch: int) -> float | None:
        """When the batch before this one was bound; None if there was none."""
        earlier = [number for number in self._bindings.versions() if number < batch]
        last = self._bindings.get(earlier[-1]) if earlier else None
        return None if last is None else last.bound_s

    def plan(self, version: int) -> Plan | None:
        """A plan that a batch is bound to; None if it cannot be read."""
        plan = self._plans.get(version)
        if plan is None:
            self._pause()
            plan = self._plans.get(version)
        return plan

    def _twice(self, attempt: Callable[[], _T]) -> _T:
        try:
            return attempt()
        except Exception:  # noqa: BLE001 - raised if the second attempt meets it, too
            self._pause()
            return attempt()


def is_another(before: str, now: str) -> bool:
    """Whether two batches of one number differ, by their identities; an unknown identity, "", differs from none."""
    return bool(before and now) and before != now
