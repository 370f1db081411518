"""Several streaming queries of one application that share its capacity fairly (THEMIS).

`fair` and `member` are the user's classes; rows carry source information content: `sic_columns` at the gate,
`sic_operators` and `sic_functions` through operators.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.fair", "penstock.spark.fair.fair")  # what this name was before
