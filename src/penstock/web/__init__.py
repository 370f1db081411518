"""The dashboard: one live page over the logs of queries, read from disk and nothing else."""

#: The port of the page unless another is asked for.
PORT = 7410
