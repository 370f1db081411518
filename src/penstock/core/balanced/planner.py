r"""The rule for sharing work if rows differ in cost and worth: the most utility for the work, and no query far behind.

`core.fairness.planner` shares an application by source information, all rows of a source alike. Here rows are
distinguished by bucket, that is, by cost and worth. Of query $q$, $n_{qb}$ rows come a second to bucket $b$, each costs
$\hat w_{qb}$ (`core.control.bucket_costs`) and is worth $u_{qb}$. Within the work $B$ that fits
(`core.fairness.work_budget`) `core.control.density` finds the shares that maximise

$$\sum_q \omega_q \frac{U_q^{1-\alpha}}{1-\alpha}, \qquad U_q = \frac{\sum_b k_{qb}\,n_{qb} u_{qb}}
{\sum_b n_{qb} u_{qb}} \qquad\text{subject to}\qquad \sum_{q,b} k_{qb}\,n_{qb} \hat w_{qb} \le B$$

If an operator does not report costs, its query's rows all cost the same and differ only by worth.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.balanced.policy import Balanced
from penstock.core.control.bucket_costs import BUCKETS, by_bucket, pooled
from penstock.core.control.density import Classes, allot
from penstock.core.control.planner import DEAD_BAND, SOURCE
from penstock.core.fairness.members import Choice, Member, told
from penstock.core.fairness.work_budget import WorkBudget
from penstock.messages.plan import KeepTable

Floats = NDArray[np.float64]

#: Why rows are shed.
POOR_SHARED = "little utility for their cost, more work than the application can do"


class Offer(NamedTuple):
    """Incoming rows of a query a second, by bucket."""

    rows: Floats
    costs_s: Floats
    utilities: Floats

    @property
    def work_s(self) -> float:
        """Work that comes."""
        return float(self.rows @ self.costs_s)


class ByClass:
    """Keeps shares of classes of rows, that is, of a key's place in a grade of worth.

    >>> from penstock.core.balanced.worth import Worth
    >>> from penstock.core.fairness.members import Terms
    >>> from penstock.core.fairness.planner import FairPlanner
    >>> planner = FairPlanner(1.0, policy=ByClass(Balanced(alpha=1)))
    >>> planner.join("alerts", Terms(("events",), worth=Worth("level", [(0, 2, 0.1), (2, 9, 1.0)])))
    >>> planner.rule.name, planner.plan("alerts") is None
    ('balanced', True)
    """

    def __init__(self, policy: Balanced) -> None:
        """Share by this policy."""
        self.name, self._alpha, self._min_keep = policy.name, float(policy.alpha), policy.min_keep

    def must_cover_per_s(self, present: Mapping[str, Member]) -> float:
        """Incoming work of all classes.

        Kept rows are cheaper than incoming ones. So by their cost the budget would seem to cover all incoming work too
        early.
        """
        return sum(offer.work_s for offer in self._offers(present).values())

    def choose(self, name: str, present: Mapping[str, Member], budget: WorkBudget) -> Choice:
        """The query's part of the optimum."""
        offers = self._offers(present)
        keep, rows = self._keep(present, offers, budget)[name], offers[name].rows
        table = KeepTable(SOURCE, tuple(keep.tolist()), (POOR_SHARED,)) if keep.min() < 1.0 else None
        share = float(rows @ keep / rows.sum()) if rows.sum() > 0.0 else 1.0
        return Choice(table, min(share, 1.0), _differs(offers[name], present[name].in_force.table, table))

    def _offers(self, present: Mapping[str, Member]) -> dict[str, Offer]:
        """Rows a second with the costs that operators report; unless all do, by the length of batches."""
        by_operator, found = told(present), {}
        for name, member in present.items():
            learned, rate, worth = member.batches, sum(member.known.rates.values()), member.terms.worth
            expected = pooled(learned.costs, *(worth.grid if worth else (BUCKETS, 1)), came=learned.costs.came)
            by_key_s = learned.costs.reach * expected.costs_s + learned.outside_s
            costs_s = by_key_s if by_operator else np.full(BUCKETS, member.length_s)
            utilities = worth.by_bucket() if worth else np.ones(BUCKETS)
            if not expected.shares @ utilities > 0.0:
                utilities = np.ones(BUCKETS)  # None of its rows has worth, so all are equal.
            found[name] = Offer(rate * expected.shares, costs_s, utilities)
        return found

    def _keep(
        self, present: Mapping[str, Member], offers: Mapping[str, Offer], budget: WorkBudget
    ) -> dict[str, Floats]:
        """The share to keep of every bucket of every query."""
        if budget.per_s is None:
            return {name: np.ones(BUCKETS) for name in offers}
        must = [member.known.must_keep for member in present.values()]
        classes = Classes(
            rows=np.concatenate([offer.rows for offer in offers.values()]),
            costs_s=np.concatenate([offer.costs_s for offer in offers.values()]),
            utilities=np.concatenate([offer.utilities for offer in offers.values()]),
            query=np.repeat(np.arange(len(offers)), BUCKETS),
            must_rows=np.concatenate([one * offer.rows for one, offer in zip(must, offers.values(), strict=True)]),
            weights=np.array([member.terms.importance for member in present.values()]),
        )
        found = allot(classes, budget.now_per_s or 0.0, alpha=self._alpha, min_keep=self._min_keep).keep
        return dict(zip(offers, found.reshape(len(offers), BUCKETS), strict=True))


def _differs(offer: Offer, old: KeepTable | None, new: KeepTable | None) -> bool:
    """Whether a table keeps other work, or more utility, than the current one."""
    if old is None or new is None:
        return old is not new
    before, after = (offer.rows * by_bucket(one.keep) for one in (old, new))
    work_s, worth = float(after @ offer.costs_s), float(after @ offer.utilities)
    moved_s = abs(float(before @ offer.costs_s) - work_s)
    return moved_s > DEAD_BAND * work_s or worth > (1.0 + DEAD_BAND) * float(before @ offer.utilities)
