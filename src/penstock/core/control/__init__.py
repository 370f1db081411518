"""The control loop of a micro-batch query: from the report of one batch to the plan for the next.

The control law follows LAS (Rivetti et al. 2016), moved from rows to micro-batches.

- Settings: `targets` for latency, the user's `policies`.
- Learned from reports: `row_costs` by row, `bucket_costs` by key, `batch_history` (pauses, missed targets), and
  `memory`, which saves it with the plans.
- The next batch: its `forecast`, `batch_size`, `expected_costs`, and the `capacity` that fits the target.
- The plan: the `planner`, keep shares (`allotment`, `density`), `backlog` (thinned by age), and the arithmetic of the
  `gate` over NumPy arrays.
- For an autoscaler: `cores` that would hold the target with nothing shed.
- Alarms: `out_of_reach` for targets, `shed_alarms` for the amount of shedding.
"""
