"""The plans of a site on disk, by batch, and how long plans and accounts stay."""

from penstock.federation.account import AccountLog
from penstock.messages.site_plan import SitePlan
from penstock.store import retention
from penstock.store.logs import Log

#: Batches whose accounts are kept: those of a sender must be there when a reader that was away has come back.
ACCOUNTS = 10_000


class SitePlanLog(Log[SitePlan]):
    """Plans by batch, of one epoch."""

    _kind, _word, _number, _time = SitePlan, "siteplan", "batch", "decided_s"


def purge(plans: SitePlanLog, accounts: AccountLog, number: int, now_s: float) -> None:
    """Now and then delete plans and accounts of batches long done."""
    if number % retention.PURGE_EVERY == 0:
        plans.purge(retention.oldest_kept(plans, number, now_s))
        accounts.purge(retention.oldest_kept(accounts, number, now_s, ACCOUNTS))
