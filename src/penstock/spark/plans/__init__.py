"""The path of a plan to the gate.

`claim` signs the folder, `places` says where it is, `binding` and `control_table` bind a batch and read its plan on an
executor. `control_row` is that plan as one typed row, `gate` judges rows in Catalyst, `rules` records settings,
`remote` serves Spark Connect.
"""
