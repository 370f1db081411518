"""Queries that share one application or several sites, with equally good results (THEMIS).

Spark and the simulator run the same planners.

- Measures: `sic` is source information content, `jain` the index of fairness.
- A node, as published (Kalyvianaki et al. 2016): `shedder` is the interface, `input_buffer` what it decides on,
  `balance_sic` the paper's, `max_min` its exact counterpart, `max_min_nodes` the optimum over many nodes.
- One application: `planner` shares it, `by_source` is the rule, `members` has the learned state of each query.
  `work_budget` is the work that fits, `service_debt` evens out batches, `member_planner` joins a query's loop.
- A federation: `sites`.
"""
