"""Benchmarks: each compares with what a user would pick instead, interleaved in one run."""
