"""A running network: in a terminal, as a drawing, as a page, and in numbers.

`history` sums snapshots, `summary` has the numbers, `terminal` the live view, `layout` and `drawing` the picture,
`plots` and `page` the report.
"""
