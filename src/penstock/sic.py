"""Source information content: how operators pass on what their rows rest on, and how results tell of it."""

from penstock.spark.fair.sic_operators import join, observed, pass_on, quality, spread, through, total, where

__all__ = ["join", "observed", "pass_on", "quality", "spread", "through", "total", "where"]
