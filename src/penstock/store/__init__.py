"""Stores in folders and in memory, with the logs of plans and bindings, journals of reports, and retention."""
