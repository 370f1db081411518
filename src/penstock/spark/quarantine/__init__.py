"""The rows that a gate sheds: on disk once, forwarded to a table or a topic, and replayed."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.quarantine", "penstock.spark.quarantine.rows")  # what this name was before
