"""One site of a federation (THEMIS) as a Spark application.

`run` is its query, `batch` one micro-batch with its fragments, `ledger` its accounts, `streams` its inputs and links.
"""
