"""The demo: one overloaded Spark query, unguarded and guarded, with a live view and a report."""
