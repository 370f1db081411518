"""The control loop of a micro-batch query: from the report of one batch to the plan for the next.

Targets, what reports teach about the next batch (`forecast`), the planner, the policies a user chooses from, the shares
of rows that fit (`allotment`, `density`), and the gate's arithmetic over NumPy arrays (`gate`). The
control law follows LAS (Rivetti et al. 2016), moved from rows to micro-batches.
"""
