"""The `penstock` command."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.cli", "penstock.cli.main")  # what this name was before
