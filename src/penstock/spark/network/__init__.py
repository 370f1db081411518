"""Query networks on Spark (Aurora): shared boxes run once per batch, and drops on arcs change between batches.

`run` is the run of a network, `layout` splits it into queries, `batch` runs one micro-batch. `streams` are where rows
come from, `sinks` where they go, `feeds` connect stages. `drops` filter rows, `weighted_aggregates` correct aggregates
for them, `python_box` runs a Python function. `learning` measures, `record` writes for the dashboard, `failures` makes
an error one line.
"""
