"""What goes wrong in a schedule: drawn from its seed, and counted."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, TypeVar

from penstock.store.interface import StoreError
from penstock.store.logs import Log
from penstock.store.memory import MemoryStore

_L = TypeVar("_L", bound=Log[Any])


class BrokenPromise(AssertionError):  # noqa: N818 - it names what it is
    """A promise was broken."""


class Died(BaseException):
    """The process at work has died."""


def require(holds: object, promise: str) -> None:
    """Raise if a promise is broken."""
    if not holds:
        raise BrokenPromise(promise)


class Chance:
    """Draws of a schedule, the state of its stores, and counts of what went wrong."""

    def __init__(self, seed: int) -> None:
        """Draw from this seed."""
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self.choice = self._random.choice
        self.faults = self.choice([0.0, 0.0, 0.1, 0.4])  # share of operations that fail
        self.uncommitted = 0.25  # share of batches that are not committed
        self.tears = self.happens(0.3)
        self.full = self.dying = False
        self.stores: list[FaultyStore] = []
        self.counts: Counter[str] = Counter()

    def happens(self, share: float, what: str = "") -> bool:
        """Whether something of this probability happens; it is counted if it has a name."""
        found = self._random.random() < share
        if found and what:
            self.counts[what] += 1
        return found

    @property
    def faulty(self) -> bool:
        """Whether operations of stores may fail now."""
        return bool(self.faults) or self.full

    def change(self) -> None:
        """Late operations are carried out; stores become read-only or writable; a process is about to die or not."""
        for store in self.stores:
            store.catch_up()
        self.full = self.happens(0.5) if self.full else self.happens(0.05, "store read-only for a while")
        self.dying = self.happens(0.1)

    def calm(self) -> None:
        """Nothing fails from now on."""
        self.faults, self.full, self.dying, self.uncommitted = 0.0, False, False, 0.0


class FaultyStore(MemoryStore):
    """A store whose every operation may fail."""

    def __init__(self, chance: Chance, where: str) -> None:
        """Fail by this chance."""
        super().__init__()
        self.where, self.chance = where, chance
        chance.stores.append(self)
        self._late: list[tuple[str, bytes]] = []
        self.torn: set[str] = set()
        self.first: dict[str, bytes] = {}  # what each name had first
        self.changed: set[str] = set()  # names that have had other content since

    def _may_fail(self, operation: str) -> None:
        chance = self.chance
        if chance.dying and chance.happens(0.3, f"process died before {operation} of {self.where}"):
            raise Died
        if chance.full and operation != "read":
            raise StoreError("read-only")
        if chance.happens(chance.faults / 4, f"{operation} refused"):
            raise StoreError("refused")

    def _may_die_after(self, operation: str) -> None:
        if self.chance.dying and self.chance.happens(0.3, f"process died after {operation} of {self.where}"):
            raise Died

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a new name, if nothing fails."""
        self._may_fail("create")
        chance = self.chance
        if chance.happens(chance.faults / 4, "create done late"):
            self._late.append((name, content))
            raise StoreError("no answer")
        if chance.tears and chance.happens(chance.faults / 8) and self._create(name, content[:9]):
            chance.counts["write torn"] += 1
            self.torn.add(name)
            raise StoreError("torn")
        created = self._create(name, content)
        self._may_die_after("create")
        if chance.happens(chance.faults / 4, "create done, answer lost"):
            raise StoreError("done, and the answer is lost")
        return created

    def _create(self, name: str, content: bytes) -> bool:
        created = super().create(name, content)
        if created and self.first.setdefault(name, content) != content:
            self.changed.add(name)
        return created

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, if nothing fails."""
        self._may_fail("replace")
        super().replace(name, content, durable=durable)
        self._may_die_after("replace")

    def read(self, name: str) -> bytes | None:
        """The content of a name, if nothing fails."""
        self._may_fail("read")
        return super().read(name)

    def remove(self, name: str) -> None:
        """Delete a name, if nothing fails."""
        self._may_fail("remove")
        super().remove(name)

    def pieces(self) -> dict[str, bytes]:
        """Its content; this operation does not fail."""
        return self._kept

    def catch_up(self) -> None:
        """Carry out late operations."""
        for name, content in self._late:
            self._create(name, content)
        self._late = []


def remembering(log: _L) -> _L:
    """A log that decodes no entry twice, nor what it has encoded itself: a schedule reads entries often."""
    known: dict[bytes, Any] = {}
    encode, decode = log._content, log._entry  # noqa: SLF001 - no other part of the log is replaced

    def content(entry: Any) -> bytes:  # noqa: ANN401 - an entry of any kind
        known[made := encode(entry)] = entry
        return made

    def entry(name: str, content: bytes) -> Any:  # noqa: ANN401 - an entry of any kind
        if content not in known:
            known[content] = decode(name, content)
        return known[content]

    log._content, log._entry = content, entry  # type: ignore[method-assign] # noqa: SLF001
    return log
