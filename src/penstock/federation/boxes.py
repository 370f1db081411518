"""Where rows wait at a site: an outbox for each fragment whose rows others read, an inbox for each link that it reads.

A batch lies in the outbox before Spark counts it as done, and leaves it when the transport has it for good. The same
batch may be sent twice: after a crash, or when an answer got lost. An inbox takes each part once, in order, and knows
the last one it has taken for ever, so rows come through a link exactly once.
"""

from collections.abc import Sequence
from pathlib import Path

from penstock.errors import PenstockError
from penstock.federation.parcel import Parcel, opened, parts, written
from penstock.store.folder import FolderStore
from penstock.store.interface import StoreError

_PARCEL, _ROWS = ".parcel", ".json"


class Outbox:
    """The rows of one fragment that have yet to be sent."""

    def __init__(self, folder: Path, site: str, fragment: str, epoch: int) -> None:
        """Keep them in a folder."""
        self._folder, self._site, self._fragment, self._epoch = folder, site, fragment, epoch
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, batch: int, lines: Sequence[str], sic: float) -> list[int]:
        """Take the rows of a batch, unless they are there already; how many rows each part of it has."""
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
        """Keep a batch that cannot be sent out of the way of the others."""
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
    """The rows that have come by one link and wait for Spark, as files that it reads."""

    def __init__(self, folder: Path) -> None:
        """Keep them in a folder."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._mark = max([read_text(folder / ".mark"), *(path.stem for path in self._files())])

    @property
    def mark(self) -> str:
        """The last part that was taken; empty if none was."""
        return self._mark

    @property
    def position(self) -> int:
        """Where the transport was last read; at worst some parts come again."""
        text = read_text(self.folder / ".position")
        return int(text) if text.isdecimal() else 0

    def read_up_to(self, position: int) -> None:
        """Remember where the transport was read."""
        place(self.folder / ".position", str(position).encode(), durable=False)

    def take(self, parcel: Parcel, lines: Sequence[str]) -> bool:
        """Take a part and return true; false if it was taken before."""
        if not is_after(parcel.key, self._mark):
            return False
        sic = repr(parcel.sic / max(len(lines), 1))
        rows = [f'{{"penstock_sic":{sic},"row":{line}}}' for line in lines] or [f'{{"penstock_sic":{sic}}}']
        place(self.folder / f"{parcel.key}{_ROWS}", "\n".join([*rows, ""]).encode())
        self._mark = parcel.key
        return True

    def forget(self, up_to: str) -> None:
        """Delete what Spark has read for good."""
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
    """Write a file that appears at one stroke."""
    try:
        FolderStore(final.parent, make=False).replace(final.name, content, durable=durable)
    except StoreError as error:
        raise PenstockError(f"{final.parent} cannot be written: {error.why}") from None


def read_text(path: Path) -> str:
    """What is in a small file; nothing if it is not there."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
