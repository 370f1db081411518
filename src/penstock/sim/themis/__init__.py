"""The experiments of THEMIS (Kalyvianaki et al., SIGMOD 2016).

`deployment`, `queries` and `data` make a federation, `runs` and `sites` simulate it, `figures` makes each figure,
`claims` checks the results, `plots` draws.
"""
