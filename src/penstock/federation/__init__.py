"""Federated sites (THEMIS): transports, messages between sites, and the account over all of them; no Spark."""
