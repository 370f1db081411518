"""A running network: in a terminal, as a drawing, as a page, and in numbers.

`history` sums snapshots, `terminal` is the live view, `layout` and `drawing` make the picture, `page` the report.
"""
