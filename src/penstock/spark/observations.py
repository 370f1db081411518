"""What Spark observed in actions on batch data frames."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Observation


def observed_within(seconds: float, seen: Mapping[str, Observation]) -> dict[str, dict[str, Any]]:
    """What was observed within this time, by name. Spark itself would wait for ever for an action that never runs."""
    found: dict[str, dict[str, Any]] = {}
    failed: list[Exception] = []

    def look() -> None:
        try:
            for name, one in seen.items():
                found[name] = dict(one.get)
        except Exception as error:  # noqa: BLE001 - the waiting thread raises it
            failed.append(error)

    waiting = threading.Thread(target=look, daemon=True)
    waiting.start()
    waiting.join(seconds)
    if failed:
        raise failed[0]
    return dict(found)
