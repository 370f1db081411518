"""Penstock in Spark Structured Streaming, with the public DataFrame API only.

Rooms: `guard` (one query), `fair` (several), `network`, `site`, `grouping`, `plans` (from disk to the gate), `probe`
(measurements) and `quarantine`. Modules: `answers`, the embedded `source`, `session`, `progress` (from progress to
reports).
"""
