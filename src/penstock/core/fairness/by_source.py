"""The rule for sharing work if rows of a source are equal: by source information content (`core.fairness.planner`)."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from penstock.core.control.allotment import LEAST_SHARE, alike
from penstock.core.control.planner import DEAD_BAND, SOURCE
from penstock.core.fairness.max_min import max_min
from penstock.core.fairness.members import Choice, Member, row_costs_s
from penstock.core.fairness.work_budget import WorkBudget
from penstock.messages.plan import KeepTable

Policy = Literal["balance_sic", "random"]

#: Why rows are shed.
UNFAIR = "more work than the application can do, shared fairly"
ALIKE = "more work than the application can do, the same share for all"


class BySource:
    """Keeps shares of sources so that SIC is even across queries, or with `random` one share of all rows."""

    def __init__(self, name: Policy) -> None:
        self.name: str = name

    def must_cover_per_s(self, present: Mapping[str, Member]) -> float:  # noqa: ARG002 - rows kept cost what others do
        """Nothing beyond the budget's input."""
        return 0.0

    def choose(self, name: str, present: Mapping[str, Member], budget: WorkBudget) -> Choice:
        """Keep shares of one of the active queries, within the budget."""
        own = present[name]
        shares = self._shares(present, budget)[name]
        table = self._table(shares)
        return Choice(table, _expected(own, shares), _differs(own.in_force.table, table))

    def _shares(self, present: Mapping[str, Member], budget: WorkBudget) -> dict[str, list[float]]:
        """The share to keep of every source of every query."""
        everything = {name: [1.0] * len(member.terms.sources) for name, member in present.items()}
        if budget.per_s is None:
            return everything
        costs_s = row_costs_s(present)
        offers, known_sic = dict[str, list[tuple[float, float, float]]](), dict[str, float]()
        room_s = budget.now_per_s or 0.0
        for name, member in present.items():
            must, rates = member.known.must_keep, member.known.rates
            works = [costs_s[name] * rates[source] for source in member.terms.sources]
            room_s -= must * sum(works)
            known_sic[name] = must
            sources = len(works)
            # One batch for all sources, or one per source.
            batches = [(1.0 / sources, work) for work in works] if member.terms.prefer == "sic" else [(1.0, sum(works))]
            offers[name] = [(1.0 - must, sic, work) for sic, work in batches]
        if self.name == "random":
            share = alike(sum(rest * work for offer in offers.values() for rest, _, work in offer), room_s)
            return {name: [share] * len(own) for name, own in everything.items()}
        weights = {name: member.terms.importance for name, member in present.items()}
        kept = max_min(max(room_s, 0.0), offers, known_sic=known_sic, weights=weights).kept
        return {
            name: [max(share, LEAST_SHARE) for share in (kept[name] if len(kept[name]) > 1 else kept[name] * len(own))]
            for name, own in everything.items()
        }

    def _table(self, shares: Sequence[float]) -> KeepTable | None:
        """The shares, one bucket a source; None if everything is kept."""
        if min(shares) >= 1.0:
            return None
        buckets = 2 ** math.ceil(math.log2(len(shares)))
        padding = [1.0] * (buckets - len(shares))
        reason = UNFAIR if self.name == "balance_sic" else ALIKE
        return KeepTable(SOURCE, keep=(*shares, *padding), reasons=(reason,))


def _expected(member: Member, shares: Sequence[float]) -> float:
    rates = list(member.known.rates.values())
    kept = sum(rate * share for rate, share in zip(rates, shares, strict=True))
    return min(kept / sum(rates), 1.0) if sum(rates) > 0.0 else 1.0


def _differs(old: KeepTable | None, new: KeepTable | None) -> bool:
    """Whether a table differs from the current one."""
    if old is None or new is None:
        return old is not new
    return any(abs(after - before) > DEAD_BAND * after for before, after in zip(old.keep, new.keep, strict=True))
