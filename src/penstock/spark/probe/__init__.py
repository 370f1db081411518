"""A user's function with a probe around it: costs and waits of rows, and the row gate.

`measured` wraps the function, `probe` runs it on a worker in slices, `meter` counts, `row_gate` is LAS (Rivetti et al.
2016) in a task, `ages` counts arrival times, `batch_formats` are Arrow and pandas.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.probe", "penstock.spark.probe.probe")  # what this name was before
