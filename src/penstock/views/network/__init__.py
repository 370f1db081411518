"""A running network: in a terminal, as a drawing, as a page, and in numbers.

`snapshot` is its state after a batch, `history` sums snapshots. `terminal` is the live view, `layout` and `drawing`
make the picture, `page` the report, `formatting` has numbers and names for all.
"""
