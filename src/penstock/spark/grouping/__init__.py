"""Grouping by cost: rows dealt to exactly k partitions so that all of them end at the same time.

`grouping` is the user's transform, after OSG (Rivetti et al. 2016); `dealing` runs in a task.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.grouping", "penstock.spark.grouping.grouping")  # what this name was before
