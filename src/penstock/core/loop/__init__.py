"""The control loop as a state machine: events in, instructions out. No clock, thread, file or Spark inside.

`machine` owns the plan in force: its version, its lease, when old plans are deleted, and the rule that rows pass if in
doubt. A driver creates `events` and carries out the `instructions`. `binding` decides which plan judges
a batch.
"""
