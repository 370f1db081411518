"""Where PySpark discovers `format("penstock")`: it imports packages named `pyspark_*`."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
