"""Compiling loops of the simulator: the same way as the algorithms'."""

from penstock.core.compiled import compiled

__all__ = ["compiled"]
