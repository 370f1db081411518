"""Grouping by cost: rows dealt to exactly k partitions so that all of them end at the same time."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.grouping", "penstock.spark.grouping.grouping")  # what this name was before
