"""What sites need of a transport: channels, each written by one site and read by many, in order, at least once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

#: The largest message: with its overhead below Kafka's usual limit of 1 MiB.
MOST_BYTES = 900_000


class BusError(Exception):
    """The transport cannot be reached, or does not do what it should; it is worth another try."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it comes.

    Attributes:
        channel: Where it was sent to.
        position: Where to go on reading after it.
        payload: The message; None if it is larger than is allowed.
    """

    channel: str
    position: int
    payload: bytes | None


class Bus(Protocol):
    """A transport."""

    def listen(self, positions: Mapping[str, int | None]) -> None:
        """Read these channels from now on: from a position, or only what comes later."""

    def poll(self, wait_s: float) -> list[Delivery]:
        """What has come; waits a while if there is nothing."""

    def send(self, channel: str, payload: bytes) -> None:
        """Send a message that must not be lost: it is durable when this returns."""

    def tell(self, channel: str, payload: bytes) -> None:
        """Send a message that may be lost."""

    def close(self) -> None:
        """Let go of everything."""
