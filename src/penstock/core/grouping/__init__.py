"""Which of several equal instances a row goes to: OSG (Rivetti et al. 2016), and Penstock's own groupings.

`machines` is the language; `osg` is as published, `ready_time` is Penstock's own row by row. `deal` deals the rows of a
micro-batch to partitions by the costs that `partition_costs` has learned. `baselines` are for comparison.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.core.grouping", "penstock.core.grouping.machines")  # what this name was before
