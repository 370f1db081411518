"""`Balanced`, Penstock's own policy: utility for the work inside a query, alpha-fairness across queries.

`policy` has the settings, `worth` the utility of rows, `planner` plans for queries that share an application.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.core.balanced", "penstock.core.balanced.policy")  # what this name was before
