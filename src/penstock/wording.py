"""Counts with their nouns."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> counted(1, "batch", "batches"), counted(2, "batch", "batches"), counted(12_000, "row")
    ('1 batch', '2 batches', '12,000 rows')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
