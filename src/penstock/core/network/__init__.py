"""Query networks and where to drop rows in them (Aurora: Tatbul et al. 2003, Carney et al. 2002).

- Networks: `model` is a network, `qos` what its outputs are worth, `stages` splits it at stateful boxes, `origins` by
  the origin of rows.
- Road maps: `drops` says what a drop costs and saves, `roadmap` is the load shedding road map. `exact` finds the best
  drops as a linear program, `by_value` drops the least valuable rows.
- Values: `expressions` in SQL, `intervals` of values, and `lineage` from a place down to the outputs.
- Running: `planner` plans a batch, `statistics` learns rates and costs, `current_map` has the road map in use,
  `map_upkeep` rebuilds it when the network has drifted.
- For comparison: `admission_control` sheds at inputs, `delay_shedding` by measured delays.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.core.network", "penstock.core.network.model")  # what this name was before
