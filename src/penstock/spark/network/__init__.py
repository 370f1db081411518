"""Query networks on Spark: shared boxes run once a batch, and drops on arcs that change between two batches."""
