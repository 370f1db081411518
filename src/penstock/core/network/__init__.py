"""Query networks and where to drop rows in them (Aurora: Tatbul et al. 2003, Carney et al. 2002).

`model` is a network, `qos` what its outputs are worth, `drops` what a drop costs and saves, `roadmap` the load shedding
road map, `exact` the best drops as a linear program, `planner` the loop. Drops by value are in `by_value`.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.core.network", "penstock.core.network.model")  # what this name was before
