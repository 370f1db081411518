"""What sites need of a transport: channels, each written by one site and read by many, in order, at least once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

#: The largest message: with its overhead below Kafka's usual limit of 1 MiB.
MOST_BYTES = 900_000


class BusError(Exception):
    """The transport is unreachable or failed; the operation may be retried."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it comes.

    Attributes:
        channel: Where it was sent to.
        position: Where to continue reading after it.
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
        """New messages; waits briefly if there are none."""

    def send(self, channel: str, payload: bytes) -> None:
        """Send a message that must not be lost: it is durable on return."""

    def tell(self, channel: str, payload: bytes) -> None:
        """Send a message that may be lost."""

    def close(self) -> None:
        """Release all resources."""
