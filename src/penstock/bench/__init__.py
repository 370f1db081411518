"""Benchmarks: each compares with the usual alternative, interleaved in one run.

On Spark: `gate`, `idle`, `latency`, `grouping` (with figure 12 of OSG), `fair`, `balanced` and `federation`. Without
Spark: `simulator`, `balance`, `density`, `roadmap`, `growth` and `store`. `workload` is the stream that they run on,
`spread` the median and spread of repeated measurements.
"""
