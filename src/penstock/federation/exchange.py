"""The exchange between a site and its peers, in one thread: rows from outboxes, rows into inboxes, and peer updates.

Spark never waits for the transport: it reads inboxes and writes outboxes, which are folders of the site. While the
transport is unreachable, peer updates expire, the site is fair among its own queries, and rows wait. Messages are
checked against the site's own file; invalid ones are refused and counted.

There is an outbox for each fragment that peers read, and an inbox for each link that the site reads. A batch is in the
outbox before Spark commits it, and is removed when the transport has stored it durably. A batch may be sent twice:
after a crash, or when an answer was lost. An inbox accepts each part once, in order, and remembers the last one, so a
link delivers rows exactly once.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.config.site_file import Link, SiteFile
from penstock.core.fairness.sites.peers import Peers
from penstock.errors import PenstockError
from penstock.federation.bus import MOST_BYTES, Bus, Delivery
from penstock.federation.parcel import Parcel, opened, parts, written
from penstock.messages.report import Known
from penstock.messages.site_news import News
from penstock.store.folder import FolderStore
from penstock.store.interface import Store, StoreError

_PARCEL, _ROWS = ".parcel", ".json"


class Outbox:
    """The unsent rows of one fragment."""

    def __init__(self, place: Path | Store, site: str, fragment: str, epoch: int) -> None:
        self._store = FolderStore(place) if isinstance(place, Path) else place
        self._site, self._fragment, self._epoch = site, fragment, epoch

    def put(self, batch: int, lines: Sequence[str], sic: float) -> list[int]:
        """Store the rows of a batch, unless they are there already; returns the rows of each part."""
        whole = Parcel(self._site, self._fragment, self._epoch, batch, 0, 1, len(lines), sic)
        name = f"{whole.key}{_PARCEL}"
        before = self._store.read(name)
        if before is not None:
            _, lines = opened(before, self._site, self._fragment)
        try:
            counts = [len(piece) for piece in parts(lines)]
        except PenstockError as error:
            raise PenstockError(f"fragments.{self._fragment}: {error}; make its sql give shorter rows") from None
        if before is None:
            _put(self._store, name, written(whole, lines))
        return counts

    def waiting(self) -> list[str]:
        """The names of the batches to be sent, oldest first."""
        return [name for name in self._store.names() if name.endswith(_PARCEL)]

    def set_aside(self, name: str) -> None:
        """Set aside a batch that cannot be sent, so that it does not block the others."""
        _put(self._store, f"{name.removesuffix(_PARCEL)}.unreadable", self._store.read(name) or b"")
        self._store.remove(name)

    def sent(self, name: str) -> None:
        """Delete a batch that the transport has stored."""
        self._store.remove(name)

    def messages(self, name: str) -> list[bytes]:
        """A batch in parts, as they are sent."""
        whole, lines = opened(self._store.read(name) or b"", self._site, self._fragment)
        pieces = list(parts(lines))
        found = []
        for number, piece in enumerate(pieces):
            sic = whole.sic * len(piece) / len(lines) if lines else whole.sic
            part = replace(whole, part=number, parts=len(pieces), rows=len(piece), sic=sic)
            found.append(written(part, piece))
        return found


class Inbox:
    """The rows that arrived by one link, as files for Spark to read."""

    def __init__(self, place: Path | Store) -> None:
        self._store = FolderStore(place) if isinstance(place, Path) else place
        #: The last part that was stored; empty if none was.
        self.mark = max([self._text(".mark"), *(name.removesuffix(_ROWS) for name in self.files())])

    @property
    def folder(self) -> Path:
        """Its folder, if it is in one."""
        return Path(self._store.where)

    @property
    def position(self) -> int:
        """The last position read from the transport; at worst some parts arrive again."""
        text = self._text(".position")
        return int(text) if text.isdecimal() else 0

    def read_up_to(self, position: int) -> None:
        """Store the position read from the transport."""
        _put(self._store, ".position", str(position).encode(), durable=False)

    def take(self, parcel: Parcel, lines: Sequence[str]) -> bool:
        """Store a part and return true; false if it was stored before."""
        if not is_after(parcel.key, self.mark):
            return False
        sic = repr(parcel.sic / max(len(lines), 1))
        rows = [f'{{"penstock_sic":{sic},"row":{line}}}' for line in lines] or [f'{{"penstock_sic":{sic}}}']
        _put(self._store, f"{parcel.key}{_ROWS}", "\n".join([*rows, ""]).encode())
        self.mark = parcel.key
        return True

    def forget(self, up_to: str) -> None:
        """Delete files that Spark has read and committed."""
        done = [name for name in self.files() if name.removesuffix(_ROWS) <= up_to]
        if done:
            _put(self._store, ".mark", self.mark.encode())
            for name in done:
                self._store.remove(name)

    def files(self) -> list[str]:
        """The names of the files that Spark reads, oldest first."""
        return [name for name in self._store.names() if name.endswith(_ROWS) and name[0] != "."]

    def _text(self, name: str) -> str:
        return (self._store.read(name) or b"").decode().strip()


def is_after(key: str, mark: str) -> bool:
    """Whether a part comes after another; nothing comes after the last part of the same batch.

    >>> is_after("01-07-01z", "01-07-00a"), is_after("01-07-02z", "01-07-01z"), is_after("01-08-00z", "01-07-01z")
    (True, False, True)
    """
    same_batch = key.rpartition("-")[0] == mark.rpartition("-")[0]
    return key > mark and not (same_batch and mark.endswith("z"))


def _put(store: Store, name: str, content: bytes, *, durable: bool = True) -> None:
    """Write a piece that appears atomically."""
    try:
        store.replace(name, content, durable=durable)
    except StoreError as error:
        raise StoreError(f"{store.where} cannot be written: {error.why or error}") from None


_logger = logging.getLogger("penstock")

#: Peer updates have a few tens of bytes a field, with names of up to 60.
NEWS_BYTES = 600
#: Peer updates are valid for this many intervals, and at least this long.
EXPIRY_INTERVALS, EXPIRY_S = 5, 10.0
#: An epoch is the second in which it began, by the clock of its site; that clock may be this far ahead of ours.
EPOCH_AHEAD_S = 24 * 3600.0
#: Starts of a site, each with its own numbers.
_PER_START = 2**32


class PeerUpdates:
    """What the site and its peers tell each other about the queries that they share."""

    def __init__(
        self, file: SiteFile, parts: Mapping[str, float], clock: Callable[[], float], epoch: int, sequence: int
    ) -> None:
        self._file, self._parts, self._clock = file, dict(parts), clock
        self._epoch, self._sequence = epoch, sequence
        self._peers = Peers(max(EXPIRY_S, EXPIRY_INTERVALS * file.interval_s), self._parts)
        self._lock = threading.Lock()
        self._give: dict[str, float] = {}
        self._sic: dict[str, float] = {}
        self._told_s = float("-inf")

    def say(self, give: Mapping[str, float], sic: Mapping[str, float]) -> None:
        """Set what the next updates say, and send them at once."""
        with self._lock:
            self._give, self._sic, self._told_s = dict(give), dict(sic), float("-inf")

    def known(self) -> dict[str, Known]:
        """What unexpired updates of peers say, by query."""
        with self._lock:
            now_s = self._clock()
            return {query: self._peers.known(query, now_s) for query in self._file.queries}

    def measured(self) -> dict[str, float]:
        """The SIC of results, by query: measured here, or else at the site of the root."""
        with self._lock:
            now_s = self._clock()
            told = {query: self._peers.sic(query, now_s) for query in self._file.queries}
            return {query: sic for query, sic in told.items() if sic is not None} | self._sic

    def due(self) -> Iterator[News]:
        """Updates to be sent now: one for each query if the last ones are an interval old."""
        with self._lock:
            now_s = self._clock()
            if not self._give or now_s - self._told_s < self._file.interval_s:
                return
            self._told_s = now_s
            give, sic = self._give, self._sic
        for query in self._file.queries:
            self._sequence += 1
            # A site with a root but no source of a query gives nothing, but reports its SIC.
            yield News(
                self._file.site,
                query,
                give.get(query, 0.0),
                self._parts.get(query, 0.0),
                sic.get(query),
                self._epoch,
                self._sequence,
                time.time(),
            )

    def hear(self, channel: str, payload: bytes) -> str:
        """Accept, ignore or refuse an update; returns the name under which it is counted."""
        try:
            news = News.from_json(payload.decode())
        except UnicodeDecodeError:
            raise PenstockError("the message is no text") from None
        if _news_channel(news.site) != channel:
            raise PenstockError.setting("site", news.site, "the site whose channel it is")
        if news.query not in self._file.queries:
            return "news refused: unknown query"
        with self._lock:
            verdict = self._peers.hear(news, self._clock())
        if verdict == "too much":
            raise PenstockError.setting("part", news.part, "no more of a query than there is")
        return "news taken" if verdict == "taken" else "news ignored: old"


class Exchange:
    """A site's side of the transport."""

    def __init__(
        self,
        file: SiteFile,
        bus: Bus,
        folder: Path,
        parts: Mapping[str, float],
        *,
        epoch: int = 1,
        start: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Serve the site of a file; `parts` are the shares of each query's sources that are read at the site.

        The site was started `start` times before; `clock` measures the age of peer updates.
        """
        self._file, self._bus = file, bus
        #: By link, and by fragment.
        self.inboxes = {link: Inbox(folder / "inbox" / link.site / link.fragment) for link in file.links_in}
        self.outboxes = {
            link.fragment: Outbox(folder / "outbox" / link.fragment, file.site, link.fragment, epoch)
            for link in file.links_out
        }
        self.updates = PeerUpdates(file, parts, clock, epoch, start * _PER_START)
        self.counts: Counter[str] = Counter()  #: messages accepted, refused and ignored, by kind
        self._listens = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Serve in a thread, until `stop`."""
        self._thread = threading.Thread(target=self._serve, name="penstock-exchange", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send what is left, if the transport accepts it at once, and end."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(30.0)
        self._bus.close()

    def round(self, wait_s: float = 0.0) -> None:
        """Send outgoing messages and process incoming ones."""
        if not self._listens:
            news: dict[str, int | None] = {_news_channel(peer): None for peer in self._file.peers}
            self._bus.listen(news | {link.channel: inbox.position for link, inbox in self.inboxes.items()})
            self._listens = True
        # A failure to send must not prevent receiving.
        try:
            self._tell()
            self._forward()
        finally:
            try:
                for one in self._bus.poll(wait_s):
                    self._take(one)
            except StoreError:
                self._listens = False  # What could not be stored is read again.
                raise

    def _serve(self) -> None:
        last = False
        while not last:
            last = self._over.is_set()  # one more round for later messages
            try:
                self.round(0.0 if last else 0.2)
            except Exception as error:  # noqa: BLE001 - after any error the site continues alone and tries again
                self.counts["transport errors"] += 1
                if self.counts["transport errors"] == 1:
                    _logger.warning("site %s: %s; it continues alone and retries", self._file.site, error)
                if not last:
                    self._over.wait(0.5)

    def _tell(self) -> None:
        for news in self.updates.due():
            self._bus.tell(_news_channel(self._file.site), news.to_json().encode())
            self.counts["news told"] += 1

    def _forward(self) -> None:
        for fragment, outbox in self.outboxes.items():
            for name in outbox.waiting():
                try:
                    messages = outbox.messages(name)
                except StoreError:
                    raise
                except PenstockError as error:
                    _logger.warning(
                        "site %s: batch %s is set aside, because it cannot be sent: %s", self._file.site, name, error
                    )
                    outbox.set_aside(name)
                    self.counts["batches set aside"] += 1
                    continue
                for message in messages:
                    self._bus.send(Link(self._file.site, fragment).channel, message)
                outbox.sent(name)
                self.counts["batches sent"] += 1

    def _take(self, one: Delivery) -> None:
        link = next((link for link in self.inboxes if link.channel == one.channel), None)
        kind = "news" if link is None else "rows"
        try:
            payload = _small(one.payload, NEWS_BYTES if link is None else MOST_BYTES)
            if link is None:
                self.counts[self.updates.hear(one.channel, payload)] += 1
            else:
                parcel, lines = opened(payload, link.site, link.fragment)
                if parcel.epoch > time.time() + EPOCH_AHEAD_S:
                    raise PenstockError.setting("epoch", parcel.epoch, "one that has begun, by the clock, within a day")
                self.counts["rows taken" if self.inboxes[link].take(parcel, lines) else "rows ignored: doubled"] += 1
        except StoreError:
            raise
        except PenstockError as error:
            self.counts[f"{kind} refused"] += 1
            if self.counts[f"{kind} refused"] == 1:
                _logger.warning("site %s: a message on %s is refused: %s", self._file.site, one.channel, error)
        if link is not None:
            self.inboxes[link].read_up_to(one.position)


def _small(payload: bytes | None, most_bytes: int) -> bytes:
    if payload is None or len(payload) > most_bytes:
        raise PenstockError(f"the message is larger than {most_bytes} bytes")
    return payload


def _news_channel(site: str) -> str:
    return f"news.{site}"
