"""What each policy would have done to a recorded query."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.sim.whatif", "penstock.sim.whatif.replay")  # what this name was before
