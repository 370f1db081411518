"""The `penstock` command.

`main` has the commands and `options` their options; `bench*` and `reproduce` run benchmarks and the papers' figures,
the other modules one command each.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.cli", "penstock.cli.main")  # what this name was before
