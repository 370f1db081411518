r"""`Balanced`: utility per cycle inside a query, alpha-fairness across queries.

Load-aware shedding uses the costs of rows, semantic shedding their worth, fair shedding their queries. This policy
combines all three: it spends the next second of work where it adds the most utility (`core.control.density`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.balanced.worth import Worth
from penstock.core.control.allotment import most_useful_first
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.density import MIN_KEEP
from penstock.core.control.expected_costs import by_class
from penstock.core.control.planner import BatchPlanner
from penstock.core.control.targets import Target
from penstock.core.network.qos import ValueQos
from penstock.core.settings import int64, number
from penstock.errors import PenstockError

#: A lower floor leaves too few rows to learn costs from, and weights that dominate every answer.
_LEAST_FLOOR = 1e-4


@dataclass(frozen=True, kw_only=True)
class Balanced:
    """Keep the rows with the most utility for their work, and no query far behind the others.

    >>> from penstock.core.control.targets import MeanQueueLatency
    >>> policy = Balanced(alpha=2, value=Worth("price", [(0, 50, 0.2), (50, 100, 1.0)]))
    >>> type(policy.planner(MeanQueueLatency("2 s"))).__name__
    'BatchPlanner'
    >>> Balanced(alpha=-1)
    Traceback (most recent call last):
    ...
    penstock.errors.PenstockError: alpha = -1 is not usable: give a number from 0 up, or 'inf'

    Attributes:
        alpha: How much the poorest query counts, where several share work: 0, only the sum of utilities; 1,
            proportional fairness; infinity, only the poorest. It has no effect on a single query.
        key: Column or columns that determine a row's cost; the guard's if not given.
        value: The worth of rows: a column of utilities from 0 to 1, or `Worth`. Equal if not given.
        min_keep: The least share kept of any class of rows, so that none disappears from the answers.
        seed: Seed of the gate's hash.
    """

    name: ClassVar[str] = "balanced"

    alpha: float | str = 1.0
    key: str | Sequence[str] = ()
    value: str | Worth | ValueQos | Mapping[str, Any] | None = None
    min_keep: float = MIN_KEEP
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        try:
            # YAML writes infinity as .inf; people write inf.
            alpha = math.inf if self.alpha in (math.inf, "inf", "infinity") else number("alpha", self.alpha, 0.0)
        except PenstockError:
            raise PenstockError.setting("alpha", self.alpha, "a number from 0 up, or 'inf'") from None
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "value", Worth.of(self.value))
        number("min_keep", self.min_keep, _LEAST_FLOOR, 1.0)
        int64("seed", self.seed)

    @property
    def worth(self) -> Worth | None:
        """The worth of rows by value; None if all are equal."""
        return self.value if isinstance(self.value, Worth) else None

    def planner(self, target: Target) -> BatchPlanner:
        """Keep the rows with the most utility for the work that fits the target."""
        utilities, grid = np.ones(BUCKETS), (BUCKETS, 1)
        if self.worth is not None:
            utilities, grid = self.worth.by_bucket(), self.worth.grid
        rule = most_useful_first(utilities, self.min_keep)
        return BatchPlanner(self.name, target, self.seed, rule, by_class(*grid))
