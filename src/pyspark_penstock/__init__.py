"""Where PySpark finds `format("penstock")` by itself: it looks for packages named `pyspark_*`."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
