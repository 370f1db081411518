"""One site of a federation (THEMIS) as a Spark application.

`run` is its query, `batch` its inputs and one micro-batch with its fragments, `ledger` its accounts.
"""
