"""Several streaming queries of one application, and how their rows carry source information content."""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.fair", "penstock.spark.fair.fair")  # what this name was before
