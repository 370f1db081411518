"""Stores in folders, buckets and memory, with the logs of plans and bindings, journals of reports, and retention.

`interface` is a store, `folder`, `objects` and `memory` implement it. `place` is where one is, `segments` are journals
in buckets, `remembering` saves requests. `logs` hold plans and bindings, `binder` binds a batch once,
`driver` carries out the loop's instructions, `bound_plans` has the plans of networks and sites. `report_log` and
`journal` feed the dashboard, `recent_reports` stay in memory, `retention` says how much of the past is kept.
"""
