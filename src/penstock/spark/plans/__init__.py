"""The path of a plan to the gate.

`claim` signs the folder, `places` says where it is, `binding` and `control_table` bind a batch and read its plan on an
executor. `control_row` is that plan as one typed row. `admission` makes the gate of a stream, `foreach_batch` that of
one batch, `gate` judges rows in Catalyst, `sic_columns` gives them their source information content. `rules` records
settings, `remote` serves Spark Connect, whose journals `remote_reports` writes.
"""
