"""Targets: what a stream is to be held to, in the user's terms."""

from dataclasses import dataclass

from penstock.core.settings import duration_s


@dataclass(frozen=True, slots=True)
class MeanQueueLatency:
    """On average, rows wait at most this long between their arrival and the start of their processing.

    >>> MeanQueueLatency("200 ms").limit_s
    0.2
    """

    limit: float | str

    def __post_init__(self) -> None:
        """Refuse what is no length of time."""
        duration_s("limit", self.limit)

    @property
    def limit_s(self) -> float:
        """The limit in seconds."""
        return duration_s("limit", self.limit)
