"""Semantic drops: rows that are worth least go first (Tatbul et al. 2003, section 5).

`cells` are values that no output and no filter tells apart, `judging_places` where rows begin to be told apart,
`roadmap` the road map over them.
"""
