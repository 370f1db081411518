"""The lease of a plan."""

#: How long a plan that sheds acts after it was decided or renewed, in seconds. Only a running loop renews it.
LEASE_S = 30.0
