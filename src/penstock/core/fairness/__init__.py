"""Queries that share one application or several sites, with equally good results (THEMIS).

`sic` is source information content, `balance_sic` the published shedder (Kalyvianaki et al. 2016), `max_min` its exact
counterpart, `planner` shares one application, `sites` a federation. Spark and the simulator run the same planners.
"""
