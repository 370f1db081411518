"""The control loop as a state machine: events in, instructions out. No clock, thread, file or Spark inside.

`machine` decides which plan is in force, when its lease is renewed, when old plans are deleted, and that rows pass if
in doubt. `versions` numbers plans, and writes each until it is stored; `leases` has the lease of a plan. A driver
creates `events` and carries out the `instructions`. `binding` decides which plan judges a batch.
"""
