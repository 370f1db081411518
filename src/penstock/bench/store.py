"""A checkpoint in a bucket: how many requests a batch costs, and how long a plan takes to the gate.

The bucket is in memory, behind a client that counts requests and lets each take a while. So no account is needed, and
any machine gives the same counts. Controller, gate and logs are the real ones. What Spark does is faked, as in
`growth`: its files in the checkpoint, its progress, and the local properties of a task. Spark's own requests are not
counted. The query is overloaded: batches last almost a second and follow each other, and each has another plan.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest import mock

from obstore.store import MemoryStore

from penstock.bench.growth import QUERY, Guarded, Task
from penstock.bench.spread import spread
from penstock.spark.plans import binding
from penstock.store import objects
from penstock.store.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Facts = dict[str, Any]

#: The most requests a batch, and the longest that a plan may take to the gate at `DELAY_MS` a request.
MOST_REQUESTS, LIMIT_MS, DELAY_MS = 6.0, 300.0, 50.0
#: Batches before those that are counted: the first ones look for what is there, and old ones are deleted from 1,000 on.
WARM_UPS = 1100
#: US dollars for 1,000 requests by their kind: list prices of Amazon S3 in us-east-1. Deletions are free there.
PRICES = {"PUT": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004, "DELETE": 0.0}
_SECONDS_A_MONTH = 30 * 24 * 3600
_MOST_A_DELETION = 1000
TIMED_BATCHES = 20
#: A batch of an overloaded query, and the time until the next one.
LENGTH_S, GAP_S = 0.9, 0.1
#: The longest wait for a plan.
_PATIENCE_S = 5.0


class CountingClient:
    """A client of a bucket in memory whose requests are counted by kind, and each take a while."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.delay_s = 0.0
        self.planned = threading.Event()  #: set when a plan is stored
        self._bucket = MemoryStore()

    def put(self, path: str, content: bytes, **options: Any) -> Any:  # noqa: ANN401 - as of the package
        """Store an object."""
        self._request("PUT")
        done = self._bucket.put(path, content, **options)
        if "/plans/" in path:
            self.planned.set()
        return done

    def get(self, path: str, **options: Any) -> Any:  # noqa: ANN401 - as of the package
        """Read an object, or what it is marked with."""
        self._request("HEAD" if options.get("options", {}).get("head") else "GET")
        return self._bucket.get(path, **options)

    def head(self, path: str) -> Any:  # noqa: ANN401 - as of the package
        """What an object is like."""
        self._request("HEAD")
        return self._bucket.head(path)

    def list_with_delimiter(self, prefix: str | None = None) -> Any:  # noqa: ANN401 - as of the package
        """The objects and folders in a folder."""
        self._request("LIST")
        return self._bucket.list_with_delimiter(prefix)

    def delete(self, paths: list[str]) -> None:
        """Delete objects."""
        for begin in range(0, len(paths), _MOST_A_DELETION):
            self._request("DELETE")
            self._bucket.delete(paths[begin : begin + _MOST_A_DELETION])

    def unseen(self, path: str, content: bytes) -> None:
        """Store an object as another program does."""
        self._bucket.put(path, content)

    def _request(self, kind: str) -> None:
        self.requests[kind] += 1
        if self.delay_s:
            time.sleep(self.delay_s)


def offsets(number: int, now_s: float) -> bytes:
    """What Spark writes into its checkpoint when it plans a batch."""
    header, source = {"batchTimestampMs": round(1000.0 * now_s)}, {"topic": {"0": 100 * number}}
    return "\n".join(["v1", json.dumps(header), json.dumps(source)]).encode()


class _Run:
    """A guarded query whose checkpoint is in the bucket."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.client, self._clock, self._number = CountingClient(), clock, 0
        bucket = f"s3a://{uuid.uuid4().hex}"
        objects.use(bucket, self.client)
        self.client.unseen("checkpoint/metadata", json.dumps({"id": QUERY}).encode())
        self._guarded = Guarded(Place(f"{bucket}/checkpoint"), clock)

    def gate(self) -> int:
        """Spark plans a batch, and its gate looks for a plan."""
        self.client.unseen(f"checkpoint/offsets/{self._number}", offsets(self._number, self._clock()))
        return self._guarded.gate(self._number)

    def end(self, version: int) -> None:
        """The batch ends, and the controller plans by it."""
        self._guarded.ran(self._number, version)
        self._number += 1
        self._guarded.controller.step()


def bench_store(batches: int, done: Callable[[], None], warm_ups: int = WARM_UPS) -> Facts:
    """Count the requests of this many batches; then time plans on their way."""
    counts = counted(batches, warm_ups)
    done()
    took_ms = _timed()
    done()
    a_batch = counts.total() / batches
    price = sum(PRICES[kind] / 1000.0 * count / batches for kind, count in counts.items()) * _SECONDS_A_MONTH
    return {
        "bench": "store",
        "requests_per_batch": {kind: count / batches for kind, count in sorted(counts.items())} | {"all": a_batch},
        "us_dollars_a_month": price,
        "plan_to_gate_ms": spread(took_ms),
        "claims": [
            _claim("requests a batch, if each has a new plan", MOST_REQUESTS, a_batch),
            _claim(f"ms from a batch's end to the gate, at {DELAY_MS:.0f} ms a request", LIMIT_MS, median(took_ms)),
        ],
        "parameters": {"batches": batches, "interval_s": 1.0, "delay_ms": DELAY_MS, "prices": PRICES},
    }


class Clock:
    """The time of this machine, which is put forward instead of waiting for batches."""

    def __init__(self) -> None:
        self._time_s, self._ahead_s = time.time, 0.0

    def __call__(self) -> float:
        """The time since 1970."""
        return self._time_s() + self._ahead_s

    def forward(self, time_s: float) -> None:
        """Put it forward."""
        self._ahead_s += time_s


@contextmanager
def _running() -> Iterator[tuple[_Run, Clock]]:
    clock = Clock()
    with mock.patch.object(binding, "TaskContext", Task), mock.patch.object(time, "time", clock):
        yield _Run(clock), clock


def counted(batches: int, warm_ups: int) -> Counter[str]:
    """The requests of batches one second apart."""
    with _running() as (run, clock):
        for number in range(warm_ups + batches):
            if number == warm_ups:
                run.client.requests.clear()
            version = run.gate()
            clock.forward(LENGTH_S)
            run.end(version)
            clock.forward(GAP_S)
    return run.client.requests


def _timed() -> list[float]:
    """How long it takes from the end of a batch until the gate of the next one has the new plan, in milliseconds."""
    took_ms: list[float] = []
    with _running() as (run, clock):
        version = run.gate()
        for number in range(TIMED_BATCHES):
            run.client.delay_s = DELAY_MS / 1000.0 if number else 0.0
            clock.forward(LENGTH_S)
            run.client.planned.clear()
            begin_s, before = time.perf_counter(), version
            controller = threading.Thread(target=run.end, args=(version,))
            controller.start()
            run.client.planned.wait(_PATIENCE_S)
            version = run.gate()  # while the controller writes its report
            if number and version > before:
                took_ms.append(1000.0 * (time.perf_counter() - begin_s))
            controller.join()
    return took_ms


def _claim(what: str, goal: float, measured: float) -> Facts:
    return {"claim": what, "goal": goal, "measured": measured, "holds": measured <= goal}
