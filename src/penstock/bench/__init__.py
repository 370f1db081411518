"""Benchmarks: each compares with the usual alternative, interleaved in one run."""
