"""What goes wrong in a schedule: drawn from its seed, and counted."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.core.loop.instructions import Write
from penstock.errors import PenstockError
from penstock.store.interface import StoreError
from penstock.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.loop.instructions import Instruction
    from penstock.store.driver import Driver

_D = TypeVar("_D", bound="Driver")


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
        self.full = self.dying = self.calmed = self.quiet = False
        self.late: list[Callable[[], object]] = []  # what is carried out at the next change
        self.counts: Counter[str] = Counter()

    def happens(self, share: float, what: str = "") -> bool:
        """Whether something of this probability happens; it is counted if it has a name."""
        found = share > 0.0 and self._random.random() < share
        if found and what:
            self.counts[what] += 1
        return found

    @property
    def faulty(self) -> bool:
        """Whether operations of stores may fail now."""
        return bool(self.faults) or self.full

    def change(self) -> None:
        """What is late is carried out; stores become read-only or writable; a process is about to die or not."""
        self.dying, late, self.late = False, self.late, []
        for work in late:
            with suppress(PenstockError):
                work()
        self.full = self.happens(0.5) if self.full else self.happens(0.05, "store read-only for a while")
        self.dying = self.happens(0.1)

    def calm(self) -> None:
        """Nothing fails from now on; in half of the schedules planners have nothing new to decide."""
        self.faults, self.full, self.dying, self.uncommitted = 0.0, False, False, 0.0
        self.calmed, self.quiet = True, self.happens(0.5)


class FaultyStore(MemoryStore):
    """A store whose every operation may fail."""

    def __init__(self, chance: Chance, where: str) -> None:
        """Fail by this chance."""
        super().__init__()
        self.where, self.chance = where, chance
        self.torn: set[str] = set()
        self.first: dict[str, bytes] = {}  # what each name had first
        self.changed: set[str] = set()  # names that have had other content since

    def _may_fail(self, operation: str, *, reads: bool = False) -> None:
        chance = self.chance
        if not (chance.faulty or chance.dying):
            return
        if chance.dying and chance.happens(0.3, f"process died before {operation} of {self.where}"):
            raise Died
        if chance.full and not reads:
            raise StoreError("read-only")
        if chance.happens(chance.faults / 4, f"{operation} refused"):
            raise StoreError("refused")

    def _may_be_late(self, operation: str, work: Callable[[], object]) -> None:
        if self.chance.faults and self.chance.happens(self.chance.faults / 4, f"{operation} done late"):
            self.chance.late.append(work)
            raise StoreError("no answer")

    def _may_lose_answer(self, operation: str) -> None:
        chance = self.chance
        if chance.dying and chance.happens(0.3, f"process died after {operation} of {self.where}"):
            raise Died
        if chance.faults and chance.happens(chance.faults / 4, f"{operation} done, answer lost"):
            raise StoreError("done, and the answer is lost")

    def create(self, name: str, content: bytes) -> bool:
        """Store the content under a new name, if nothing fails."""
        self._may_fail("create")
        self._may_be_late("create", lambda: self._create(name, content))
        chance = self.chance
        if chance.tears and chance.happens(chance.faults / 8) and self._create(name, content[:9]):
            chance.counts["write torn"] += 1
            self.torn.add(name)
            raise StoreError("torn")
        created = self._create(name, content)
        self._may_lose_answer("create")
        return created

    def _create(self, name: str, content: bytes) -> bool:
        created = super().create(name, content)
        if created and self.first.setdefault(name, content) != content:
            self.changed.add(name)
        return created

    def replace(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Store the content under a name, if nothing fails."""
        self._may_fail("replace")
        self._may_be_late("replace", lambda: MemoryStore.replace(self, name, content))
        super().replace(name, content, durable=durable)
        self._may_lose_answer("replace")

    def read(self, name: str) -> bytes | None:
        """The content of a name, if nothing fails."""
        self._may_fail("read", reads=True)
        return super().read(name)

    def has(self, name: str) -> bool:
        """Whether a name is taken, if nothing fails."""
        self._may_fail("look-up", reads=True)
        return super().has(name)

    def names(self) -> list[str]:
        """Every name that is taken, if nothing fails."""
        self._may_fail("listing", reads=True)
        return super().names()

    def remove(self, *names: str) -> None:
        """Delete names, as long as nothing fails."""
        for name in names:
            self._may_fail("remove")
            self._may_be_late("remove", partial(MemoryStore.remove, self, name))
            super().remove(name)
            self._may_lose_answer("remove")

    def pieces(self) -> dict[str, bytes]:
        """Its content; this operation does not fail."""
        return self._kept


def clumsy(driver: _D, chance: Chance) -> _D:
    """A driver whose instructions may be lost, late, done twice, or the last ones before its process dies."""
    carry_out = driver._carry_out  # noqa: SLF001 - no other part of the driver is replaced

    def faulty(instruction: Instruction) -> list[Instruction]:
        word, share = type(instruction).__name__, chance.faults / 4
        if chance.happens(share, f"{word} lost"):
            return []
        if chance.happens(share, f"{word} late"):
            # A late write has no answer: the loop may have given the version to another plan since.
            if isinstance(instruction, Write):
                chance.late.append(partial(driver._added, instruction.plan))  # noqa: SLF001 - as `carry_out` does
            else:
                chance.late.append(partial(carry_out, instruction))
            return []
        more = carry_out(instruction)
        if chance.dying and chance.happens(0.3, f"process died after {word}"):
            raise Died
        return [*more, *carry_out(instruction)] if chance.happens(share, f"{word} twice") else more

    driver._carry_out = faulty  # type: ignore[method-assign] # noqa: SLF001
    return driver
