"""Penstock keeps an overloaded stream within its latency target and says exactly what was dropped."""

__version__ = "0.1.0"
