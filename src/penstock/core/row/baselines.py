r"""The baselines of LAS (section 5.1): random drops, a mean cost, and an oracle.

Straw-Man and Full Knowledge shed exactly as LAS does. Only the cost they add for a row differs: the mean cost of the
stream, or the row's true cost. Base Line knows the overload and drops that share at random.
"""

from collections.abc import Callable
from functools import partial

from penstock.core.hashing import unit_interval, xxhash64
from penstock.core.row.las import PredictiveShedder
from penstock.core.row.latency_goals import Check
from penstock.core.row.machines import Arrived, Drop, Executed, Forward, Send
from penstock.core.settings import duration_s, number
from penstock.errors import PenstockError


class SilentOperator:
    """An operator that reports nothing: the baselines need no feedback."""

    memory_bytes = 0

    def executed(self, row: Executed) -> list[Send]:  # noqa: ARG002 - the protocol passes the row
        """Sends nothing."""
        return []


class BaseLineShedder:
    """Drops each row with the same probability, by a hash of its identity.

    >>> shedder = BaseLineShedder(drop_share=0.5, seed=1)
    >>> [type(shedder.judge(Arrived(now_s=0.0, key=0, row=row))).__name__ for row in range(5)]
    ['Drop', 'Forward', 'Drop', 'Forward', 'Forward']
    """

    carried_weight = 0.0
    memory_bytes = 0
    reason = "random share"

    def __init__(self, *, drop_share: float, seed: int = 0, calm_rows: int = 0) -> None:
        """Admit `calm_rows` rows first, while LAS still learns."""
        self.drop_share = number("drop_share", drop_share, 0.0, 1.0)
        self._seed = seed
        self._calm_rows = calm_rows

    def receive(self, message: object) -> None:
        """Nothing to learn."""

    def judge(self, row: Arrived) -> Forward | Drop:
        """Judge the row by its hash."""
        if self._calm_rows > 0:
            self._calm_rows -= 1
            return Forward(row.weight)
        if row.must_keep:
            return Forward(row.weight)
        if float(unit_interval(xxhash64(row.row, self._seed))) < self.drop_share:
            return Drop(self.reason)
        return Forward(row.weight / (1.0 - self.drop_share))


class GivenCostShedder(PredictiveShedder):
    """LAS's shedding strategy with the cost of a row given from outside.

    >>> from penstock.core.row.latency_goals import Maximum
    >>> shedder = full_knowledge(Maximum(target_s=1.0))
    >>> shedder.judge(Arrived(now_s=0.0, key=7, cost_s=1.5))
    Forward(weight=1.0, request=None)
    >>> shedder.judge(Arrived(now_s=0.1, key=7, cost_s=1.5))
    Drop(reason='queuing latency over target')
    """

    def __init__(self, check: Check, cost_of: Callable[[Arrived], float], *, calm_rows: int = 0) -> None:
        """Let `calm_rows` rows pass first (their work counts, their wait does not); add `cost_of` seconds a row."""
        super().__init__(check)
        self._cost_of = cost_of
        self._calm_rows = calm_rows

    @property
    def memory_bytes(self) -> int:
        """Only the carried weights."""
        return self._carry.memory_bytes

    def receive(self, message: object) -> None:
        """Nothing to learn."""

    def judge(self, row: Arrived) -> Forward | Drop:
        """Admit the row unless the check refuses its predicted queuing latency."""
        cost_s = self._cost_of(row)
        if self._calm_rows > 0:
            self._calm_rows -= 1
            self._free_s = max(self._free_s, row.now_s) + cost_s
            return Forward(row.weight)
        return self._judged(row, cost_s, cost_s)


def _mean_cost(mean_cost_s: float, row: Arrived) -> float:  # noqa: ARG001 - the signature of a cost
    return mean_cost_s


def _true_cost(factor: float, row: Arrived) -> float:
    if row.cost_s is None:
        raise PenstockError("Full Knowledge needs the true cost of every row: give Arrived.cost_s")
    return row.cost_s * factor


def straw_man(check: Check, mean_cost_s: float, *, calm_rows: int = 0) -> GivenCostShedder:
    """Straw-Man: every row is assumed to cost the mean of the stream."""
    cost_of = partial(_mean_cost, duration_s("mean_cost_s", mean_cost_s))  # unlike a lambda, it pickles
    return GivenCostShedder(check, cost_of, calm_rows=calm_rows)


def full_knowledge(check: Check, *, epsilon: float = 0.0, calm_rows: int = 0) -> GivenCostShedder:
    """Full Knowledge: the true cost of every row; `epsilon` > 0 adds LAS's safety factor (1 + epsilon).

    With epsilon = 0 and a running average this is the shedder of Theorem 4.1: its average never exceeds the target.
    """
    return GivenCostShedder(check, partial(_true_cost, 1.0 + number("epsilon", epsilon, 0.0)), calm_rows=calm_rows)
