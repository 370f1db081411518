"""The guard of one streaming query.

`guard` is the user's class, `admission` makes the gate, `controller` turns progress into events, `batches` into
reports, `account` finds missing ones; `misuse`, `behind_gate`, `judged`, `liveness` and `unwatched` raise warnings and
alarms; `metrics` serves Prometheus.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.guard", "penstock.spark.guard.guard")  # what this name was before
