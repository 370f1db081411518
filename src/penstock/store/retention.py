"""How much of the past is kept beside a query: the last batches, unless they are too old.

Spark replays the batch that was not committed, and its checkpoint holds the last 100 (`minBatchesToRetain`), so nothing
older can be replayed. More is kept only for inspection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.messages.plan import Binding

#: Batches whose bindings, plans, accounts and reports are kept.
BATCHES = 1_000
#: Batches that are kept regardless of age.
LEAST_BATCHES = 200
#: Older entries are deleted even if there are fewer batches.
AGE_S = 7 * 24 * 3600.0
#: How often old entries are looked for, in batches.
PURGE_EVERY = 50
#: The clocks of driver and executors may differ by this much; with more, no plan that sheds acts.
SKEW_S = 30.0


class Entries(Protocol):
    """A log whose old entries can be deleted."""

    def made_before(self, time_s: float) -> int | None:
        """The number of the newest entry made before that time; `None` if there is none."""

    def purge(self, before: int) -> None:
        """Delete every entry with a lower number, except that the newest one always stays."""


class Bindings(Entries, Protocol):
    """The bindings of a query."""

    def oldest(self) -> Binding | None:
        """The oldest binding that can be read; `None` if there is none."""


def oldest_kept(entries: Entries, batch: int, now_s: float, batches: int | None = None) -> int:
    """The first batch whose entry is kept when the newest is `batch`; `batches` are kept if it is not `BATCHES`."""
    old = entries.made_before(now_s - AGE_S)
    most = BATCHES if batches is None else batches
    return max(batch - most, min(-1 if old is None else old, batch - LEAST_BATCHES - 1) + 1)


def purge_bindings(bindings: Bindings, batch: int, now_s: float) -> None:
    """Delete old bindings."""
    bindings.purge(oldest_kept(bindings, batch, now_s))


def purge_plans(plans: Entries, oldest: Binding | None) -> None:
    """Delete the plans that no binding from the oldest one on can need.

    A batch is bound to the newest plan of its time. So the plan that was the newest when the oldest binding was made
    stays, with all later ones.
    """
    if oldest is None:
        return
    needed = plans.made_before(oldest.bound_s - SKEW_S)
    if needed is not None:
        plans.purge(needed if oldest.plan_version is None else min(needed, oldest.plan_version))


def purge(plans: Entries, bindings: Bindings, batch: int, now_s: float) -> None:
    """Delete old bindings, and the plans that only they needed."""
    purge_bindings(bindings, batch, now_s)
    purge_plans(plans, bindings.oldest())
