"""The demo: one overloaded Spark query, unguarded and guarded, with a live view and a report.

`workload` is the stream, `run` one run and `both_runs` the two, `view` shows them live. `result` computes the numbers,
`report` and `page` present them, `kept_log` keeps plans and reports for the dashboard.
"""
