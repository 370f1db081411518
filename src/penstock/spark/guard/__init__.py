"""The guard of one streaming query: its settings, its gate, its controller, its account and its warnings."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.guard", "penstock.spark.guard.guard")  # what this name was before
