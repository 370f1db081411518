"""What all schedules share: time that passes, batches that Spark commits, and processes that are restarted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.errors import PenstockError
from penstock.sim.chaos.faults import Died, require
from penstock.sim.chaos.query import MOST_BATCHES, MOST_PLANS, PURGE_EVERY

if TYPE_CHECKING:
    from penstock.sim.chaos.faults import Chance
    from penstock.sim.chaos.query import Kinds, Query

_P = TypeVar("_P")


class World(ABC):
    """Queries and the processes that plan for them."""

    short_end = PURGE_EVERY  #: steps at the end of a short run, while nothing fails

    def __init__(self, chance: Chance, kinds: Kinds, queries: list[Query]) -> None:
        """Begin."""
        self.chance, self.kinds = chance, kinds
        self.queries = {query.name: query for query in queries}
        self.now_s, self.runs = 1e6, 0

    @abstractmethod
    def step(self) -> None:
        """One thing happens."""

    @abstractmethod
    def calm_step(self) -> None:
        """Every query runs a batch, and every process plans, while nothing fails."""

    @abstractmethod
    def check(self) -> None:
        """What holds after every step."""

    @abstractmethod
    def settle(self) -> None:
        """What holds once nothing has failed for a while."""

    def stop(self) -> list[str]:
        """Processes that plan apart from their queries stop; the queries that were planned for."""
        return [*self.queries]

    def move(self) -> None:
        """Time passes, and one thing happens."""
        self.now_s += self.chance.choice([0.0, 0.1, 1.0, 2.0, 12.0, 40.0])
        self.chance.change()
        self.step()
        self.check()

    def committed(self, query: Query, batch: int) -> bool:
        """A batch was run; whether Spark commits it now."""
        self.runs += 1
        if batch != query.batch or self.chance.happens(self.chance.uncommitted, "query died before commit"):
            return False
        query.batch += 1
        return True

    def end(self) -> None:
        """Nothing fails any more: of a long run little is left."""
        short = max(query.batch for query in self.queries.values()) <= MOST_BATCHES - PURGE_EVERY
        self.chance.calm()
        for _ in range(self.short_end if short else 3 * PURGE_EVERY):
            self.now_s += 1.0
            self.calm_step()
            self.check()
        self.settle()
        for name in self.stop():
            query = self.queries[name]
            require(len(query.bindings.versions()) <= MOST_BATCHES, "bindings do not grow with batches")
            require(self._unneeded(query) <= MOST_PLANS, "plans do not grow with batches")

    def _unneeded(self, query: Query) -> int:
        """How many plans are older than every plan that a batch is bound to."""
        logs = [one.bindings for one in self.queries.values() if one.plans.store is query.plans.store]
        bound = (entry.plan_version for log in logs for entry in log.entries())
        versions = query.plans.versions()
        oldest = min((version for version in bound if version is not None), default=max(versions, default=0))
        return sum(version < oldest for version in versions)


class OwnBatches(World, Generic[_P]):
    """The process that plans also binds and runs the batches; it is restarted when it has died."""

    def __init__(self, chance: Chance, kinds: Kinds, queries: list[Query]) -> None:
        """Begin, before the process starts."""
        super().__init__(chance, kinds, queries)
        self.process: _P | None = None

    @abstractmethod
    def start(self) -> _P:
        """A new process; it raises if it cannot start yet."""

    @abstractmethod
    def run(self, process: _P) -> None:
        """Run a batch."""

    def step(self) -> None:
        """Run a batch; a process that died, or could not start, starts again."""
        if self.chance.happens(0.03, "clock set back"):
            self.now_s -= 600.0
        try:
            if self.process is not None:
                self.run(self.process)
                return
        except Died:
            self.chance.counts["process that runs batches restarted"] += 1
        except PenstockError:
            self.chance.counts["batch failed"] += 1
        self.chance.dying, self.process = False, None
        with suppress(PenstockError):
            self.process = self.start()

    calm_step = step

    def end(self) -> None:
        """A new process continues with what the others have left."""
        self.process = None
        super().end()
