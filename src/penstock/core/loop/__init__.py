"""The control loop as a state machine: events in, instructions out. No clock, thread, file or Spark inside.

`machine` owns the plan in force: its version, its lease, when old plans go, and the rule that rows flow in doubt.
A driver turns what happens into events and carries the instructions out.
"""
