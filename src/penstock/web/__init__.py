"""The dashboard: one live page over the logs of queries, read from disk and nothing else."""
