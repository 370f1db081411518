"""What goes wrong in a schedule: drawn from its seed, and counted."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.store.interface import StoreError
from penstock.store.logs import BindingLog, Log, PlanLog, Skipped
from penstock.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        self.tears = self.happens(0.3)
        self.full = self.dying = False
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
        """A store becomes read-only or writable, and a process is about to die or not."""
        self.full = self.happens(0.5) if self.full else self.happens(0.05, "store read-only for a while")
        self.dying = self.happens(0.1)

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Nothing fails in this context."""
        before = self.faults, self.full, self.dying
        self.faults, self.full, self.dying = 0.0, False, False
        try:
            yield
        finally:
            self.faults, self.full, self.dying = before


class FaultyStore(MemoryStore):
    """A store whose every operation may fail."""

    def __init__(self, chance: Chance, where: str) -> None:
        """Fail by this chance."""
        super().__init__()
        self.where, self.chance = where, chance
        self._late: list[tuple[str, bytes]] = []
        self.torn: set[str] = set()

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
        if chance.tears and chance.happens(chance.faults / 8) and super().create(name, content[:9]):
            chance.counts["write torn"] += 1
            self.torn.add(name)
            raise StoreError("torn")
        created = super().create(name, content)
        self._may_die_after("create")
        if chance.happens(chance.faults / 4, "create done, answer lost"):
            raise StoreError("done, and the answer is lost")
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
            super().create(name, content)
        self._late = []


class Remembering(Log[Any]):
    """Decodes each entry once: entries do not change, and a schedule reads them often."""

    def __init__(self, store: FaultyStore) -> None:
        """Read from this store."""
        super().__init__(store)
        self._chance = store.chance
        self._decoded: dict[tuple[str, bytes], Any] = {}

    def _read(self, name: str) -> Any:  # noqa: ANN401 - an entry of any kind
        try:
            content = self.store.read(name) or b""
        except StoreError as error:
            return Skipped(name, str(error))
        if (name, content) not in self._decoded:
            with self._chance.calm():
                self._decoded[name, content] = super()._read(name)
        return self._decoded[name, content]


class Plans(Remembering, PlanLog):
    """The plans of a schedule."""


class Bindings(Remembering, BindingLog):
    """The bindings of a schedule."""
