"""Boxes in Python for tests of networks."""

import time
from pathlib import Path
from typing import Any

SLEEP_S = 0.001


def noted(row: dict[str, Any]) -> dict[str, Any]:
    """Leave a mark for every row that comes here."""
    with Path(row["marks"]).open("a") as file:
        file.write("x")
    return row


def slow(row: dict[str, Any]) -> dict[str, Any]:
    """Take a known time, however fast the machine is."""
    time.sleep(SLEEP_S)
    return row


def failing(row: dict[str, Any]) -> dict[str, Any]:
    """Fail."""
    message = f"no such thing as {min(row)}"
    raise KeyError(message)
