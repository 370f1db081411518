r"""Costs of rows by bucket and by partition, learned batch by batch: the input of a deal.

One shape is learned from all partitions together, as in `BucketCosts`, and a relative speed factor for each partition:

$$\hat w_{b,j} = f_j\,\hat w_b$$

- A batch gives one ratio for each partition, of the work that was done there to the work expected there. Its logarithm
  is averaged over batches. The average counts only as far as it exceeds its own error, so that equal partitions get
  equal factors: $\log f_j = \max(0, 1 - 2\sigma^2 / (n\,m^2))\, m$. The scatter of ratios is learned too, and assumed
  to be large until then; one batch alone changes nothing.
- If the last two batches deviate from that average by three deviations, the past is forgotten.
- A bucket measured often on a partition whose cost there differs from factor times shape gets its own cost, shrunk
  towards theirs.

Only ratios of costs matter to a deal, so a common slowdown is removed first.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts, by_bucket
from penstock.messages.plan import Costs, OwnCost

#: What is remembered of the shape from one batch to the next, and of the factors, which can be measured in one batch.
REMEMBER, REMEMBER_FACTORS = 0.95, 0.9
#: The deviation of a partition's ratio that is expected before any is known, which counts for one batch. And what is
#: remembered of it from one batch to the next.
DEVIATION, REMEMBER_DEVIATION = 0.2, 0.95
#: The most extreme of several partitions is often so by chance, so its average counts less than it would alone.
CAUTION = 2.0
#: This many deviations between the average of the last two batches and that of all is a change.
CHANGE = 3.0
#: A bucket's own cost on a partition: rows that it takes, rows that shape and factor count for, and how far off they
#: must be. Costs of keys that share a bucket scatter, and a deal would follow random low costs.
OWN_ROWS, OWN_APART = 64.0, 0.3
#: Batches that factors from a plan count for, which is as many as are ever remembered. And how many times `OWN_ROWS` a
#: bucket's own cost does, at least.
MOST_BATCHES, REMEMBERED_OWN = 1.0 / (1.0 - REMEMBER_FACTORS), 4.0
#: The deviation that goes with factors that were given and not learned.
SURE = 0.01
#: Up to this many partitions have buckets with their own costs.
MOST_OWN = 256
#: Rows that each bucket counts for when costs come from a plan.
PRIME_ROWS = 8.0
#: A plan stays in force while costs are, on average over rows, within this share of it.
DEAD_BAND = 0.02


class PartitionCosts:
    """The learned costs by bucket and partition.

    >>> known = PartitionCosts(2)
    >>> slow, fast = BucketCosts(), BucketCosts()
    >>> slow.add(np.array([7, 7, 9]), np.array([3.0, 3.0, 6.0]), np.ones(3))
    >>> fast.add(np.array([7, 7, 9]), np.array([1.0, 1.0, 2.0]), np.ones(3))
    >>> for _ in range(5):
    ...     known.learn({0: slow, 1: fast})
    >>> table = cost_table(known.costs("enrich"))
    >>> (table[:, 9] / table[:, 7]).round(2).tolist(), round(float(table[0, 7] / table[1, 7]), 1)
    ([2.0, 2.0], 3.0)
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._shape = BucketCosts()
        self._batches, self._logs, self._last = np.zeros((3, partitions))
        self._squares, self._scattered = DEVIATION**2, 1.0  # of ratios off their average, and batches they come from
        cells = (partitions, BUCKETS) if partitions <= MOST_OWN else (0, BUCKETS)
        self._own_rows, self._own_work_s = np.zeros(cells), np.zeros(cells)

    @classmethod
    def of(cls, costs: Costs | None, partitions: int) -> "PartitionCosts":
        """The state in a plan; that of partitions only if their number is the same."""
        known = cls(partitions)
        if costs is None:
            return known
        shape = known._shape
        shape.rows += PRIME_ROWS
        shape.weight += PRIME_ROWS
        shape.work_s += PRIME_ROWS * by_bucket(costs.cost_s)
        if costs.partitions == partitions:
            known._remember(costs)
        return known

    def _remember(self, costs: Costs) -> None:
        """Restore factors and buckets' own costs from a plan."""
        # A plan made by hand counts as exact.
        batches, deviation = (costs.batches, costs.deviation) if costs.ratios else (MOST_BATCHES, SURE)
        self._batches += batches
        self._scattered += batches
        self._squares = deviation**2 * self._scattered
        self._logs += np.log(costs.ratios or costs.factors or np.ones(self.partitions))
        self._last += self._logs
        if not len(self._own_rows):
            return
        expected_s = np.outer(self.factors, self._shape.costs_s())
        for one in costs.own:
            buckets = np.arange(one.bucket, BUCKETS, costs.buckets)
            drawn_s, due_s = one.cost_s, expected_s[one.partition, buckets]
            rows = OWN_ROWS * np.maximum(REMEMBERED_OWN, 2.0 * due_s / max(drawn_s, 1e-12))
            self._own_rows[one.partition, buckets] += rows
            self._own_work_s[one.partition, buckets] += (rows + OWN_ROWS) * drawn_s - OWN_ROWS * due_s

    @property
    def known(self) -> bool:
        """Whether any row was measured."""
        return self._shape.known

    @property
    def _variance(self) -> float:
        return self._squares / self._scattered

    @property
    def factors(self) -> NDArray[np.float64]:
        """The relative time of each partition; 1 unless it differs significantly."""
        squares = np.maximum(self._logs**2, 1e-18)
        trust = np.maximum(0.0, 1.0 - CAUTION * self._variance / (np.maximum(self._batches, 1.0) * squares))
        factors: NDArray[np.float64] = np.exp(np.where(self._batches > 1.0, trust, 0.0) * self._logs)
        return factors

    def learn(self, parts: Mapping[int, BucketCosts]) -> None:
        """Process the costs of one batch by partition; unknown partitions are ignored."""
        found = {part: own for part, own in parts.items() if 0 <= part < self.partitions and own.work_s.sum() > 0.0}
        if not found:
            return
        done_s = {part: float(own.work_s.sum()) for part, own in found.items()}
        due_s = {part: float(own.rows @ self._expected_s(found, part)) for part, own in found.items()}
        self._learn_factors(done_s, due_s)
        factors = self.factors
        # The ratio of the batch's actual to expected work, with the current factors: the common change of all costs.
        level = sum(done_s.values()) / max(sum(factors[part] * time_s for part, time_s in due_s.items()), 1e-12)
        self._shape.scale_costs(level)
        self._own_work_s *= level * REMEMBER
        self._own_rows *= REMEMBER
        self._shape.fade(REMEMBER)
        for part, own in found.items():
            alike = _together([own])
            alike.scale_costs(1.0 / factors[part])
            self._shape.merge(alike)
            if len(self._own_rows):
                self._own_rows[part] += own.rows
                self._own_work_s[part] += own.work_s

    def _expected_s(self, found: Mapping[int, BucketCosts], part: int) -> NDArray[np.float64]:
        """The expected cost of a partition's rows: in the first batch, their cost on the other partitions."""
        if self.known:
            return self._shape.costs_s()
        return _together(own for other, own in found.items() if other != part).costs_s()

    def _learn_factors(self, done_s: Mapping[int, float], due_s: Mapping[int, float]) -> None:
        """Process the work done and the work expected, by partition."""
        parts = np.array([part for part, time_s in due_s.items() if time_s > 0.0], np.intp)
        if len(parts) < 2:  # noqa: PLR2004 - one alone cannot be compared
            return
        logs = np.log([done_s[part] / due_s[part] for part in parts.tolist()])
        # A batch compares its partitions with each other: their total is unchanged.
        logs -= logs.mean()
        if not self.known:
            logs *= 1.0 - 1.0 / len(parts)  # Each was compared with the others, not with all.
        logs += self._logs[parts].mean()
        off = logs - self._logs[parts]
        before = self._batches[parts]
        self._batches[parts] = REMEMBER_FACTORS * before + 1.0
        self._logs[parts] += off / self._batches[parts]
        recent, self._last[parts] = (self._last[parts] + logs) / 2.0, logs
        changed = (before >= 1.0) & (np.abs(recent - self._logs[parts]) > CHANGE * np.sqrt(self._variance / 2.0))
        self._logs[parts[changed]], self._batches[parts[changed]] = recent[changed], 2.0
        sure = before > 0.0
        if sure.any():
            # The average of the other partitions has an error too.
            seen = np.minimum(off[sure] ** 2 / (1.0 + 1.0 / before[sure]), CHANGE**2 * self._variance)
            self._squares = REMEMBER_DEVIATION * self._squares + float(seen.mean())
            self._scattered = REMEMBER_DEVIATION * self._scattered + 1.0

    def costs(self, place: str) -> Costs:
        """The learned costs, for a plan."""
        factors = self.factors
        alike = bool(np.all(np.abs(factors - 1.0) < 1e-3))  # noqa: PLR2004 - less than a deal could show
        cost_s = self._shape.costs_s()
        return Costs(
            place,
            self.partitions,
            cost_s=tuple(map(_short, cost_s.tolist())),
            factors=() if alike else tuple(map(_short, factors.tolist())),
            own=tuple(self._own(np.outer(factors, cost_s))) if len(self._own_rows) else (),
            ratios=tuple(map(_short, np.exp(self._logs).tolist())),
            batches=round(float(self._batches.min())),
            deviation=_short(min(float(np.sqrt(self._variance)), 1.0)),
        )

    def _own(self, expected_s: NDArray[np.float64]) -> list[OwnCost]:
        rows, work_s = self._own_rows, self._own_work_s
        drawn_s = (work_s + OWN_ROWS * expected_s) / (rows + OWN_ROWS)
        apart = np.abs(np.log(np.maximum(work_s, 1e-12) / np.maximum(rows * expected_s, 1e-12)))
        where = np.argwhere((rows >= OWN_ROWS) & (expected_s > 0.0) & (apart > OWN_APART))
        return [OwnCost(part, bucket, _short(float(drawn_s[part, bucket]))) for part, bucket in where.tolist()]

    def news(self, in_force: Costs | None, place: str) -> Costs | None:
        """The learned costs, if a deal by them would differ from the one in force."""
        if not self.known:
            return None
        new = self.costs(place)
        if in_force is None or in_force.partitions != new.partitions:
            return new
        rows = self._shape.weight
        ratios = np.log(_all_buckets(new) / _all_buckets(in_force))
        ratios -= float(ratios.mean(axis=0) @ rows / rows.sum())
        off = float((np.abs(ratios) @ rows).max() / rows.sum())
        return new if off > DEAD_BAND else None


def cost_table(costs: Costs) -> NDArray[np.float64]:
    """Cost of a row by bucket, or by partition and bucket where partitions differ: what `core.grouping.deal` takes.

    >>> cost_table(Costs("a", 2, (1.0, 2.0))).tolist()
    [[1.0, 2.0]]
    >>> cost_table(Costs("a", 2, (1.0, 2.0), factors=(1.0, 3.0), own=(OwnCost(0, 1, 9.0),))).tolist()
    [[1.0, 9.0], [3.0, 6.0]]
    """
    shape = np.array(costs.cost_s)
    if not costs.factors and not costs.own:
        return shape[None, :]
    table: NDArray[np.float64] = np.outer(costs.factors or np.ones(costs.partitions), shape)
    for one in costs.own:
        table[one.partition, one.bucket] = one.cost_s
    return table


def _all_buckets(costs: Costs) -> NDArray[np.float64]:
    return np.maximum(np.tile(cost_table(costs), BUCKETS // costs.buckets), 1e-12)


def _together(parts: Iterable[BucketCosts]) -> BucketCosts:
    costs = BucketCosts()
    for own in parts:
        costs.merge(own)
    return costs


def _short(number: float) -> float:
    """Four digits: a measured cost has no more, and plans are files."""
    return float(f"{number:.4g}")
