"""The guard of one streaming query.

`guard` is the user's class, `checks` its settings, `attachment` finds queries by name. `controller` turns progress into
events, `reading` finds gates and probes in it, `batches` turns it into reports. `misuse` and `behind_gate` refuse
mistakes or log them, `teller` writes log and journal. `metrics` is the table of metrics, which `prometheus` serves and
`otel` exports.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.guard", "penstock.spark.guard.guard")  # what this name was before
