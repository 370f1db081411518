"""What sites need of a transport, and a transport in a folder for sites that share a file system.

Channels are each written by one site and read by many, in order, at least once. In a folder a channel is a folder and a
message a numbered file, which appears atomically under the next free number. No content of a message becomes part of a
path.
"""

import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError

#: The largest message: with its overhead below Kafka's usual limit of 1 MiB.
MOST_BYTES = 900_000


class BusError(Exception):
    """The transport is unreachable or failed; the operation may be retried."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it comes."""

    channel: str  #: where it was sent to
    position: int  #: where to continue reading after it
    payload: bytes | None  #: the message; None if it is larger than is allowed


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


_FILE = re.compile(r"[0-9]{20}\.message")
#: Messages are kept this long, as on a broker; a site that was down longer misses them.
RETENTION_S = 24 * 3600.0
#: How often old ones are deleted, in messages sent, and how many lossy ones are kept.
_CLEAN_EVERY, _KEPT_TOLD = 50, 50
#: Time between two polls, and messages read per poll.
_LOOK_S, _AT_ONCE = 0.05, 200


class FolderBus:
    """Channels in a folder, which is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._positions: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        self._stores: dict[str, FolderStore] = {}

    def listen(self, positions: Mapping[str, int | None]) -> None:
        """Read these channels from now on."""
        self._positions = {
            channel: self._end(channel) if position is None else position for channel, position in positions.items()
        }

    def poll(self, wait_s: float) -> list[Delivery]:
        """New messages; waits briefly if there are none."""
        until_s = time.monotonic() + wait_s
        while True:
            found = [one for channel in self._positions for one in self._new(channel)]
            if found or time.monotonic() >= until_s:
                return found
            time.sleep(min(_LOOK_S, wait_s))

    def send(self, channel: str, payload: bytes) -> None:
        """Send a message: it is durable on return."""
        self._put(channel, payload, durable=True)

    def tell(self, channel: str, payload: bytes) -> None:
        """Send a message that may be lost."""
        self._put(channel, payload, durable=False)

    def close(self) -> None:
        """Nothing is held."""

    def _put(self, channel: str, payload: bytes, *, durable: bool) -> None:
        try:
            store = self._stores.get(channel) or self._stores.setdefault(channel, FolderStore(self._folder / channel))
            # A channel starts at a number that grows with time, so readers of a deleted channel continue with the new
            # one.
            number = self._sent.get(channel, 0) or self._end(channel) or int(time.time() * 1e3)
            while not store.create(_name(number), payload):  # a second writer of the same site was faster
                number += 1
            self._sent[channel] = number + 1
            if number % _CLEAN_EVERY == 0:
                self._clean(store.folder, None if durable else number - _KEPT_TOLD)
        except OSError as error:
            raise BusError(f"transport folder {self._folder}: {error.strerror or error}") from None
        except StoreError as error:
            raise BusError(f"transport folder {self._folder}: {error.why or error}") from None

    def _new(self, channel: str) -> list[Delivery]:
        position = self._positions[channel]
        try:
            numbers = self._next(channel, position)
            found = [Delivery(channel, number + 1, _read(self._folder / channel / _name(number))) for number in numbers]
        except FileNotFoundError:
            return []  # deleted in the meantime
        except OSError as error:
            raise BusError(f"transport folder {self._folder}: {error.strerror or error}") from None
        if numbers:
            self._positions[channel] = numbers[-1] + 1
        return found

    def _next(self, channel: str, position: int) -> list[int]:
        """The next messages to read.

        A channel holds those of a day, so it is listed only if necessary: numbers are consecutive, and old messages are
        deleted first. If the last message that was read is there and the next is not, nothing is new.
        """

        def there(number: int) -> bool:
            return (self._folder / channel / _name(number)).exists()

        numbers = list(takewhile(there, range(position, position + _AT_ONCE)))
        if numbers or there(position - 1):
            return numbers
        return [number for number in self._numbers(channel) if number >= position][:_AT_ONCE]

    def _numbers(self, channel: str) -> list[int]:
        try:
            names = [path.name for path in (self._folder / channel).iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name[:20]) for name in names if _FILE.fullmatch(name))

    def _end(self, channel: str) -> int:
        return max(self._numbers(channel), default=-1) + 1

    def _clean(self, folder: Path, before: int | None) -> None:
        """Delete old messages, but never the last: its number is the channel's end."""
        oldest_s = time.time() - RETENTION_S
        for number in self._numbers(folder.name)[:-1]:
            path = folder / _name(number)
            if (before is not None and number < before) or (before is None and path.stat().st_mtime < oldest_s):
                path.unlink(missing_ok=True)
            elif before is None:
                return


def _name(number: int) -> str:
    return f"{number:020d}.message"


def _read(path: Path) -> bytes | None:
    """A message; None if it is too large or not a file."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        return None
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    return content if len(content) <= MOST_BYTES else None
