"""The control loop of a micro-batch query: from the report of one batch to the plan for the next.

`targets`, the forecast of the next batch from reports (`forecast`), the `planner`, the user's `policies`, the keep
shares (`allotment`, `density`), and the gate's arithmetic over NumPy arrays (`gate`). The control law follows LAS
(Rivetti et al. 2016), moved from rows to micro-batches.
"""
