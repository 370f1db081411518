"""The experiments of Online Shuffle Grouping (Rivetti et al., Middleware 2016).

`streams` and `runs` simulate the groupings, `figures` makes each figure, `claims` checks the results,
`plots` draws. `compiled` has accelerators, equal to the machines of `core.grouping` to the bit.
"""
