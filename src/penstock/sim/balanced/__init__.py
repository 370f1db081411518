"""`Balanced` against the four papers, each by its own measure: cost, worth and fairness in one policy.

`study` compares policies with exact knowledge, `queries` runs the planner of Spark, `runs` repeats the papers'
scenarios, `figures`, `claims` and `plots` as for the papers.
"""
