"""How much of the past is kept beside a query: the last batches, unless they are too old.

Spark replays the batch that was not committed, and its checkpoint holds the last 100 (`minBatchesToRetain`), so nothing
older can be replayed. More is kept only for inspection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.core.loop.machine import PURGE_EVERY

if TYPE_CHECKING:
    from penstock.messages.plan import Binding, Plan
    from penstock.store.logs import Entries

__all__ = ["AGE_S", "BATCHES", "LEAST_BATCHES", "NEWEST_PLANS", "PURGE_EVERY", "Keep", "oldest_kept", "purge"]

#: Batches whose bindings, plans, accounts and reports are kept.
BATCHES = 1_000
#: Batches that are kept regardless of age.
LEAST_BATCHES = 200
#: Older entries are deleted even if there are fewer batches.
AGE_S = 7 * 24 * 3600.0
#: The newest plans, which a batch may be about to be bound to.
NEWEST_PLANS = 10


class Keep(NamedTuple):
    """What is kept, where that is not `BATCHES`, `LEAST_BATCHES` and `NEWEST_PLANS`."""

    batches: int
    least_batches: int
    newest_plans: int


def oldest_kept(
    entries: Entries[Any], batch: int, now_s: float, batches: int | None = None, keep: Keep | None = None
) -> int:
    """The first batch whose entry is kept when the newest is `batch`; `batches` are kept if it is not `BATCHES`."""
    keep = keep or _usual()
    old = entries.made_before(now_s - AGE_S)
    most = keep.batches if batches is None else batches
    return max(batch - most, min(-1 if old is None else old, batch - keep.least_batches - 1) + 1)


def purge(plans: Entries[Plan], bindings: Entries[Binding], batch: int, now_s: float, keep: Keep | None = None) -> None:
    """Delete old bindings, and the plans that only they needed."""
    bindings.purge(oldest_kept(bindings, batch, now_s, keep=keep))
    purge_plans(plans, bindings, keep)


def purge_plans(plans: Entries[Plan], bindings: Entries[Binding], keep: Keep | None = None) -> None:
    """Delete the plans that no binding needs.

    A batch is bound to the newest plan of its time, so versions ascend with batches, independent of clocks. The newest
    plans stay: a batch may be about to be bound to one of them.
    """
    keep = keep or _usual()
    oldest = bindings.oldest()
    if oldest is None:
        return
    needed, newest = oldest.plan_version, plans.next_version() - 1
    if needed is None:
        if len(plans.versions()) <= keep.batches:
            return  # To read all bindings is slow.
        bound = (bindings.get(batch) for batch in bindings.versions())
        needed = next((one.plan_version for one in bound if one and one.plan_version is not None), newest)
    plans.purge(min(needed, newest + 1 - keep.newest_plans))


def _usual() -> Keep:
    return Keep(BATCHES, LEAST_BATCHES, NEWEST_PLANS)
