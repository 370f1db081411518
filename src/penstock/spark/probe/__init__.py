"""A user's function with a probe around it: what rows cost, how long they waited, and the row-by-row gate in a task."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.probe", "penstock.spark.probe.probe")  # what this name was before
