"""The rows that a gate sheds: stored once, forwarded to a table or a topic, and replayed.

`rows` writes the files, `shed_account` compares them with the gate's counts, `forward` fills a table or a `topic`,
`forwarded` deletes files that were. `replay` feeds rows through the pipeline, from files or a table (`stored`), and
`second_read` keeps the second read of the source.
"""

from penstock.moved import names_of

__getattr__ = names_of("penstock.spark.quarantine", "penstock.spark.quarantine.rows")  # what this name was before
