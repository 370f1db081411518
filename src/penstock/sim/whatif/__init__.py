"""What each policy would have done to a recorded query.

`recorded` estimates costs and arrivals from a progress log, `replay` simulates each policy on them, `plot` draws the
outcome.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.sim.whatif", "penstock.sim.whatif.replay")  # what this name was before
