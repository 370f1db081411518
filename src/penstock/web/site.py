"""A site of a federation as the page shows it: from the journal of reports in its folder.

A site keeps a share of each input regardless of keys, so there are no plans by key and no why-box.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.federation.account import ACCOUNT
from penstock.web.guarded import GuardedQuery
from penstock.web.plan_tail import PlanTail

if TYPE_CHECKING:
    from penstock.messages.plan import Plan


class FollowedSite(GuardedQuery):
    """One site's folder, followed."""

    kind = "site"

    def _forget(self) -> None:
        super()._forget()
        self._plans = _NoPlans(self.folder / ACCOUNT)


class _NoPlans(PlanTail):
    """A site's plans are not shown; a missing folder is."""

    def news(self) -> list[Plan]:
        if not self.log.folder.is_dir():
            raise PenstockError(f"{self.log.folder} is gone")
        return []
