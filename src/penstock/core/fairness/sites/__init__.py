"""One site of a federation (THEMIS, section 6): the shares of its inputs, by its measurements and its peers' updates.

`planner` decides, `shares` is its max-min, `peers` stores the updates of other sites, `decisions` its results.
"""
