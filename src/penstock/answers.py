"""Answers that stay right: `df.groupBy("key").agg(answers.sum("amount"))` with the error that shedding brings."""

from penstock.spark.answers import count, count_distinct, grouped, join, max, mean, min, ratio, share, sum  # noqa: A004

__all__ = ["count", "count_distinct", "grouped", "join", "max", "mean", "min", "ratio", "share", "sum"]
