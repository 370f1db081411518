"""The lease of a plan."""

#: A plan that sheds acts for so long after it was decided. A living loop renews it; a dead one's runs out.
LEASE_S = 30.0
