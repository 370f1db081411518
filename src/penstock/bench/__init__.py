"""Benchmarks: each compares with the usual alternative, interleaved in one run.

On Spark: `gate`, `idle`, `latency`, `grouping` (with figure 12 of OSG), `fair`, `balanced` and
`federation`. Without Spark: `simulator`, `balance`, `density`, `roadmap` and `growth`.
"""
