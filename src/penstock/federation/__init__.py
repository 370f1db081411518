"""Federated sites: what goes between them and how, and the account over all of them. Nothing in here needs Spark."""
