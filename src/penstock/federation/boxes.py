"""Boxes of a site: an outbox for each fragment that peers read, an inbox for each link that the site reads.

A batch is in the outbox before Spark commits it, and is removed when the transport has stored it durably. A batch may
be sent twice: after a crash, or when an answer was lost. An inbox accepts each part once, in order, and remembers the
last one, so a link delivers rows exactly once.
"""

from collections.abc import Sequence
from pathlib import Path

from penstock.errors import PenstockError
from penstock.federation.parcel import Parcel, opened, parts, written
from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError

_PARCEL, _ROWS = ".parcel", ".json"


class Outbox:
    """The unsent rows of one fragment."""

    def __init__(self, folder: Path, site: str, fragment: str, epoch: int) -> None:
        """Keep them in a folder."""
        self._folder, self._site, self._fragment, self._epoch = folder, site, fragment, epoch
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, batch: int, lines: Sequence[str], sic: float) -> list[int]:
        """Store the rows of a batch, unless they are there already; returns the rows of each part."""
        whole = Parcel(self._site, self._fragment, self._epoch, batch, 0, 1, len(lines), sic)
        final = self._folder / f"{whole.key}{_PARCEL}"
        if final.exists():
            _, lines = opened(final.read_bytes(), self._site, self._fragment)
        try:
            counts = [len(piece) for piece in parts(lines)]
        except PenstockError as error:
            raise PenstockError(f"fragments.{self._fragment}: {error}; make its sql give shorter rows") from None
        if not final.exists():
            place(final, written(whole, lines))
        return counts

    def waiting(self) -> list[Path]:
        """The batches to be sent, oldest first."""
        return sorted(path for path in self._folder.iterdir() if path.suffix == _PARCEL)

    def set_aside(self, path: Path) -> None:
        """Set aside a batch that cannot be sent, so that it does not block the others."""
        path.rename(path.with_suffix(".unreadable"))

    def messages(self, path: Path) -> list[bytes]:
        """A batch in parts, as they are sent."""
        whole, lines = opened(path.read_bytes(), self._site, self._fragment)
        pieces = list(parts(lines))
        return [
            written(
                Parcel(
                    whole.site,
                    whole.fragment,
                    whole.epoch,
                    whole.batch,
                    number,
                    len(pieces),
                    len(piece),
                    whole.sic * len(piece) / len(lines) if lines else whole.sic,
                ),
                piece,
            )
            for number, piece in enumerate(pieces)
        ]


class Inbox:
    """The rows that arrived by one link, as files for Spark to read."""

    def __init__(self, folder: Path) -> None:
        """Keep them in a folder."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._mark = max([read_text(folder / ".mark"), *(path.stem for path in self._files())])

    @property
    def mark(self) -> str:
        """The last part that was stored; empty if none was."""
        return self._mark

    @property
    def position(self) -> int:
        """The last position read from the transport; at worst some parts arrive again."""
        text = read_text(self.folder / ".position")
        return int(text) if text.isdecimal() else 0

    def read_up_to(self, position: int) -> None:
        """Store the position read from the transport."""
        place(self.folder / ".position", str(position).encode(), durable=False)

    def take(self, parcel: Parcel, lines: Sequence[str]) -> bool:
        """Store a part and return true; false if it was stored before."""
        if not is_after(parcel.key, self._mark):
            return False
        sic = repr(parcel.sic / max(len(lines), 1))
        rows = [f'{{"penstock_sic":{sic},"row":{line}}}' for line in lines] or [f'{{"penstock_sic":{sic}}}']
        place(self.folder / f"{parcel.key}{_ROWS}", "\n".join([*rows, ""]).encode())
        self._mark = parcel.key
        return True

    def forget(self, up_to: str) -> None:
        """Delete files that Spark has read and committed."""
        done = [path for path in self._files() if path.stem <= up_to]
        if done:
            place(self.folder / ".mark", self._mark.encode())
            for path in done:
                path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.suffix == _ROWS and path.name[0] != ".")


def is_after(key: str, mark: str) -> bool:
    """Whether a part comes after another; nothing comes after the last part of the same batch.

    >>> is_after("01-07-01z", "01-07-00a"), is_after("01-07-02z", "01-07-01z"), is_after("01-08-00z", "01-07-01z")
    (True, False, True)
    """
    same_batch = key.rpartition("-")[0] == mark.rpartition("-")[0]
    return key > mark and not (same_batch and mark.endswith("z"))


def place(final: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file that appears atomically."""
    try:
        FolderStore(final.parent, make=False).replace(final.name, content, durable=durable)
    except StoreError as error:
        raise PenstockError(f"{final.parent} cannot be written: {error.why}") from None


def read_text(path: Path) -> str:
    """The content of a small file; empty if it is missing."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
