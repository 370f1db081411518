r"""A batch of derived rows in transit: a header line with origin, batch and SIC, then one row per line.

Each row is a JSON object as Spark writes it. All rows of a batch carry the same SIC, equation 3 of THEMIS: what came in
divided by how many come out. A batch without rows still carries its SIC: a filter that nothing passes has read
everything.

>>> parcel = Parcel("west", "cov", epoch=1, batch=7, part=0, parts=1, rows=2, sic=0.5)
>>> message = written(parcel, ['{"a":1}', '{"a":2}'])
>>> opened(message, "west", "cov") == (parcel, ['{"a":1}', '{"a":2}'])
True
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.federation.bus import MOST_BYTES
from penstock.messages.codec import Count, Message, Name, Share, refusal

#: For the first line.
_HEAD_BYTES = 1000


@dataclass(frozen=True, slots=True)
class Parcel(Message):
    """The header line."""

    site: Name  #: its sender
    fragment: Name  #: whose rows these are
    epoch: Count  #: the epoch of the site
    batch: Count  #: the site's micro-batch
    part: Count  #: which part of the batch, from 0
    parts: Count  #: how many parts it has
    rows: Count  #: how many rows are in this part
    sic: Share  #: their SIC together

    def _check(self) -> None:
        if self.part >= self.parts:
            raise refusal("part", self.part, f"one below parts, {self.parts}")
        if max(self.epoch, self.batch, self.parts) >= 10**18:
            raise refusal("batch", max(self.epoch, self.batch, self.parts), "numbers below 10**18")

    @property
    def key(self) -> str:
        """A name that sorts in order and marks the last part."""
        last = "z" if self.part == self.parts - 1 else "a"
        return f"{self.epoch:018d}-{self.batch:018d}-{self.part:06d}{last}"


def written(parcel: Parcel, lines: Sequence[str]) -> bytes:
    """The message."""
    return "\n".join([parcel.to_json(), *lines]).encode()


def parts(lines: Sequence[str], most_bytes: int = MOST_BYTES - _HEAD_BYTES) -> Iterator[list[str]]:
    """The rows of a batch in pieces that fit a message; at least one, even if empty.

    >>> list(parts(["aaa", "bbb", "ccc"], most_bytes=8)), list(parts([]))
    ([['aaa', 'bbb'], ['ccc']], [[]])
    """
    piece: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode()) + 1
        if length > most_bytes:
            raise PenstockError(f"a row of {length:,} bytes is too long for a link: {most_bytes:,} are allowed")
        if size + length > most_bytes:
            yield piece
            piece, size = [], 0
        piece.append(line)
        size += length
    yield piece


def opened(message: bytes, site: str, fragment: str) -> tuple[Parcel, list[str]]:
    """The content of a message expected from a fragment of a site; anything else is an error."""
    try:
        head, *lines = message.decode().split("\n")
    except UnicodeDecodeError:
        raise PenstockError("the message is no text") from None
    parcel = Parcel.from_json(head)
    if (parcel.site, parcel.fragment) != (site, fragment):
        raise refusal("fragment", f"{parcel.site}.{parcel.fragment}", f"{site}.{fragment}, whose channel it came by")
    if len(lines) != parcel.rows:
        raise refusal("rows", parcel.rows, f"the number of lines that follow, {len(lines)}")
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        # JSON allows a carriage return between tokens, but line readers treat it as an end of line.
        if not isinstance(row, dict) or "\r" in line:
            raise refusal("row", line, "a JSON object without line breaks")
    return parcel, lines
