"""The experiments of load shedding in Aurora (Tatbul et al., VLDB 2003).

`networks` and `value_network` are the random networks, `runs` sheds their load, `figures` makes each figure, `claims`
checks the results, `plots` draws.
"""
