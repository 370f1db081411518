"""The `penstock` command.

`main` has the commands, `options` their options, `printing` the screen and result files. `reproduce` makes the papers'
figures, `bench` runs benchmarks, `bench_tables` prints them. One command each: `dashboard`, `replay`, `roadmap`,
`run`, `site` and `whatif`.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.cli", "penstock.cli.main")  # what this name was before
