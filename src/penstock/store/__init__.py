"""Stores in folders and in memory, with the logs of plans and bindings, journals of reports, and retention.

`interface` is a store, `folder` and `memory` implement it. `logs` hold plans and bindings, `binder` binds a batch once,
`driver` carries out the loop's instructions, `bound_plans` has the plans of networks and sites. `report_log` and
`journal` feed the dashboard, `recent_reports` stay in memory, `retention` says how much of the past is kept.
"""
