"""Penstock in Spark Structured Streaming, with the public DataFrame API only.

Rooms: `guard` (one query), `fair` (several), `network`, `site`, `grouping`, `plans` (from disk to the gate), `probe`
(measurements) and `quarantine`. For users: `answers`, the embedded `source`, `session`. Columns that gate and probe
share are in `row_columns`; `lifecycle` starts and ends what runs beside a query; `expected_errors` become one line.
What differs between Spark's versions is in `version`. Spark's own records: `progress` (to reports),
`progress_file`, `checkpoint`, `file_log` (files read), `plan_text` and `observations` of batches.
"""
