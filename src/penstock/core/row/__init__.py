"""Shedding row by row: LAS as published, Penstock's own machine, and their parts.

`machines` is the language (events in, instructions out); `las` is Load-Aware Shedding (Rivetti et al. 2016),
`load_aware` is Penstock's own; `cost_sketch` and `cost_model` estimate the cost of a row; `baselines`
are the paper's.
"""
