"""The experiments of Online Shuffle Grouping (Rivetti et al., Middleware 2016).

`queueing` has schedulers, queues and instances; `streams` and `runs` simulate the groupings, `batches` groups
micro-batches as on Spark, `figures` makes each figure, `plots` draws. `claims`, `use_case_claims` and `own_claims`
check the results, `near` compares with stated numbers. `compiled` (the paper's groupings) and `compiled_ready_time`
(Penstock's) have accelerators, equal to the machines of `core.grouping` to the bit.
"""
