"""`Balanced`: utility for the work it costs inside a query, alpha-fairness across queries. Penstock's own."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.core.balanced", "penstock.core.balanced.policy")  # what this name was before
