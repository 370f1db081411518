"""One site of a federation (THEMIS, section 6): the shares of its inputs, by its measurements and its peers' updates.

`planner` decides, `shares` is its max-min, `capacity` what the site can process, `peers` stores the updates of other
sites, `decisions` its results.
"""
