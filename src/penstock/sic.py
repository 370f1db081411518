"""Source information content: how operators pass on the SIC of their rows, and how results report it."""

from penstock.spark.fair.sic_operators import join, observed, pass_on, quality, spread, through, total, where

__all__ = ["join", "observed", "pass_on", "quality", "spread", "through", "total", "where"]
