"""Costs of rows, learned batch by batch.

- Costs have a shape and a level. The shape, bucket by bucket, is remembered over many batches. The level is the last
  batch's: a common rise of all costs, as on a slower machine, is immediate. So every learned cost is multiplied by
  the ratio of actual to expected work of incoming rows, before the new rows are added. Weights extend it from kept rows
  to all incoming rows.
- Rows that are kept because they seem cheap cost more than estimated, because the estimate selects the buckets.
  The last excess is the surprise. It corrects the next forecast only: as a stored cost it would accumulate,
  batch after batch, on buckets with few measurements.
"""

import numpy as np

from penstock.core.control.bucket_costs import BUCKETS, BucketCosts
from penstock.messages.codec import Number
from penstock.messages.report import Report

#: What is remembered of costs from one batch to the next: the shape changes slowly, and rare keys need many batches.
REMEMBER = 0.9


class RowCosts(BucketCosts):
    """Costs by bucket, and how those of the next batch may differ from them."""

    came: Number  #: number of these rows, including shed ones
    surprise: Number  #: ratio of the actual to the expected cost of the last batch's rows
    reach: Number  #: rows at the operator per row that the gate keeps: there may be filters in between
    last_mean_s: Number  #: mean cost of the rows of the last batch that had any

    def __init__(self) -> None:
        super().__init__()
        self.came, self.surprise, self.reach, self.last_mean_s = 0.0, 1.0, 1.0, 0.0

    def learn(self, report: Report) -> None:
        """Learn from a batch whose operator reported costs."""
        self.last_mean_s = report.busy_s / report.rows_kept
        fresh = BucketCosts.from_bytes(report.cost_sketch or b"")
        if not fresh.known:
            return  # No row reached the operator.
        self.reach = float(fresh.rows.sum()) / report.rows_kept
        came_s = fresh.mean_s * float(fresh.weight.sum())
        expected_s = float(fresh.weight @ self.costs_s())
        if came_s > 0.0 and expected_s > 0.0:
            self.scale_costs(came_s / expected_s)
            self.surprise = float(fresh.work_s.sum() / (fresh.rows @ self.costs_s()))
        self.fade(REMEMBER)
        self.merge(fresh)
        self.came = REMEMBER * self.came + report.rows_in * float(fresh.rows.sum()) / report.rows_kept

    def share_out(self, work_s: float, report: Report) -> None:
        """Nothing is measured by key: every bucket is alike."""
        self.last_mean_s = work_s / report.rows_kept
        self.rows = np.full(BUCKETS, report.rows_kept / BUCKETS)
        self.weight, self.work_s = self.rows.copy(), np.full(BUCKETS, work_s / BUCKETS)
        self.came = float(report.rows_in)
