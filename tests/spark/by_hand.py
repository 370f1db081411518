"""Plans that tests write by hand, kept in force: their leases must outlast a slow machine, as a guard's do."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.messages.plan import Plan
    from penstock.store.logs import PlanStore

RENEW_S = 8.0
#: The last plans that were put; a test needs no more.
_RECENT: deque[tuple[PlanStore, int]] = deque(maxlen=8)


def put(plans: PlanStore, plan: Plan) -> Plan:
    """Add the plan, and keep it in force."""
    assert plans.add(plan.version, plan)
    keep(plans, plan.version)
    return plan


def keep(plans: PlanStore, version: int) -> None:
    """Renew the lease of the plan, now and until other tests have put theirs."""
    plans.renew(version, time.time())
    _RECENT.append((plans, version))
    _renewing()


@cache
def _renewing() -> None:
    Thread(target=_renew, daemon=True).start()


def _renew() -> None:
    while True:
        time.sleep(RENEW_S)
        newest = {id(plans): (plans, version) for plans, version in list(_RECENT)}
        for plans, version in newest.values():
            with suppress(Exception):  # its folder or its session may be gone
                plans.renew(version, time.time())
