"""Semantic drops: the least valuable rows are dropped first (Tatbul et al. 2003, section 5).

`cells` are sets of values that every output and filter treats alike. `judging_places` are those from which rows are
judged by value, `roadmap` is the road map over them. `cell_shares` says what outputs and filters take of each value,
`histograms` learns the distribution of values, `unfold` splits a network by cells.
"""
