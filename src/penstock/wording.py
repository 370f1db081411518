"""Counts with their nouns, and lists that are cut."""

from collections.abc import Sequence


def counted(number: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> counted(1, "batch", "batches"), counted(2, "batch", "batches"), counted(12_000, "row")
    ('1 batch', '2 batches', '12,000 rows')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def few(words: Sequence[str], most: int) -> str:
    """The first words of a list, and how many more there are.

    >>> few(["a", "b", "c"], 2), few(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")
