"""Answers from weighted rows: estimates, their standard errors and intervals.

`estimates` has the equations (Horvitz-Thompson), `sums` the sums behind them.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.core.answers", "penstock.core.answers.estimates")  # what this name was before
