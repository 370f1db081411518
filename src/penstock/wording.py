"""How numbers of things are written for people."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things, with the noun that it takes.

    >>> counted(1, "batch", "batches"), counted(2, "batch", "batches"), counted(12_000, "row")
    ('1 batch', '2 batches', '12,000 rows')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
