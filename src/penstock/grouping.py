"""Grouping: `df.transform(grouping.by_cost(key="user_id", partitions=8))` spreads expensive rows evenly over tasks."""

from penstock.spark.grouping.grouping import Grouping, by_cost

__all__ = ["Grouping", "by_cost"]
