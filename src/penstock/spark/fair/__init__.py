"""Several streaming queries of one application that share its capacity fairly (THEMIS).

`fair` has the user's classes, `member` reads the batches of one query. `sic_operators` and `sic_functions` carry source
information content through operators; rows get it at the gate (`spark.plans.sic_columns`).
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.fair", "penstock.spark.fair.fair")  # what this name was before
