"""The experiments of Online Shuffle Grouping (Rivetti et al., Middleware 2016).

`streams` and `runs` simulate the groupings, `figures` makes each figure, `plots` draws. `claims`, `use_case_claims` and
`own_claims` check the results. `compiled` (the paper's groupings) and `compiled_ready_time` (Penstock's) have
accelerators, equal to the machines of `core.grouping` to the bit.
"""
