"""Shedding row by row: LAS as published, Penstock's own machine, and their parts.

`machines` is the language (events in, instructions out); `las` is Load-Aware Shedding (Rivetti et al. 2016),
`load_aware` is Penstock's own; `baselines` are the paper's. `cost_sketch` and `cost_model` estimate the cost of a row,
`latency_goals` and `latency_budget` decide whether a row may wait. `price` refuses the most expensive rows, and
`carried_weight` moves the weight of a dropped row to a kept one.
"""
