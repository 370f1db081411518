"""Query networks on Spark (Aurora): shared boxes run once per batch, and drops on arcs change between batches.

`run` is the run of a network, `layout` splits it into queries, `batch` runs one micro-batch, `drops` filter
rows, `feeds` connect stages, `learning` measures.
"""
