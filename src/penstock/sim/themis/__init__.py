"""The experiments of THEMIS (Kalyvianaki et al., SIGMOD 2016).

`deployment`, `queries` and `data` make a federation, `runs` and `sites` simulate it, `cases` has the runs behind the
figures. `correlation` compares SIC with errors of results, `overhead` times a decision. `figures` makes each figure,
`claims` checks the results, `plots` draws.
"""
