"""`penstock bench federation`: three sites as three processes, fair and at random, and what faults do to them.

Queries of two and three fragments form chains and a tree. Site `east` can take a tenth of its rows. Queries `cov` and
`cnt` have no fragment there; they feel it only through the sites that they share with queries that have.

SIC is what the roots of the queries measure on their results. It is read from the sites' accounts at every second of
the measured time. Jain's index is taken over the queries' means, as in the paper, and at each instant.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from penstock.core.fairness.jain import fairness
from penstock.errors import PenstockError
from penstock.federation.account import SiteAccount, add_up
from penstock.federation.bus import FolderBus
from penstock.federation.kafka_bus import KafkaBus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.core.fairness.sites.planner import Policy
    from penstock.federation.bus import Bus

SITES = ("west", "north", "east")
#: Rows a second that each site can take.
CAPACITY = {"west": 400, "north": 450, "east": 90}
INTERVAL_S, WINDOW_S = 1.0, 10.0


@dataclass(frozen=True)
class Part:
    """A fragment: where it is, rows a second of its source, the sites whose fragments feed it."""

    site: str
    rows_per_s: int
    feeders: tuple[str, ...] = ()


#: By query, the root last.
QUERIES = {
    "cov": (Part("west", 300), Part("north", 200, ("west",))),
    "cnt": (Part("north", 100), Part("west", 200, ("north",))),
    "max": (Part("east", 350), Part("west", 150, ("east",))),
    "avg": (Part("west", 200), Part("east", 250), Part("north", 150, ("west", "east"))),
    "top": (Part("east", 300), Part("west", 150, ("east",)), Part("north", 0, ("west",))),
}
PARTS = [part for parts in QUERIES.values() for part in parts]
_LINKED = "host bigint, total double, n double"
#: Both the rows of the source and those of links, as sums by host; kept rows represent shed ones.
_OWN = (
    "SELECT value % 10 AS host, penstock_weight * (pmod(xxhash64(value), 100)) AS total, penstock_weight AS n FROM own"
)
_SUMS = "SELECT host, sum(total) AS total, sum(n) AS n FROM ({}) GROUP BY host"
_RESULTS = {
    "cov": "SELECT covar_pop(total / n, n) AS cov FROM ({})",
    "cnt": "SELECT sum(n) AS n FROM ({})",
    "max": "SELECT max(total / n) AS highest FROM ({})",
    "avg": "SELECT sum(total) / sum(n) AS mean FROM ({})",
    "top": "SELECT host, total FROM ({}) ORDER BY total DESC LIMIT 5",
}


def sources(query: str) -> int:
    """How many sources a query has."""
    return sum(part.rows_per_s > 0 for part in QUERIES[query])


def write(folder: Path, transport: dict[str, Any], policy: Policy) -> dict[str, Path]:
    """Write the site files; their paths, by site."""
    found = {}
    for site in SITES:
        fragments = {
            f"{query}-{site}": _fragment(query, part, root=number == len(parts) - 1, out=folder / "results" / query)
            for query, parts in QUERIES.items()
            for number, part in enumerate(parts)
            if part.site == site
        }
        own = sorted({str(one["query"]) for one in fragments.values()})
        content = {
            "site": site,
            "sites": list(SITES),
            "transport": transport,
            "folder": str(folder / site),
            "interval": INTERVAL_S,
            "window": WINDOW_S,
            "capacity": float(CAPACITY[site]),
            "policy": policy,
            "queries": {query: {"sources": sources(query)} for query in own},
            "fragments": fragments,
        }
        found[site] = folder / f"{site}.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        found[site].write_text(yaml.safe_dump(content, sort_keys=False, width=200), encoding="utf-8")
    return found


def _fragment(query: str, part: Part, *, root: bool, out: Path) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    rows = []
    if part.rows_per_s:
        inputs["own"] = {"format": "rate", "options": {"rowsPerSecond": part.rows_per_s, "numPartitions": 1}}
        rows.append(_OWN)
    for feeder in part.feeders:
        inputs[f"from_{feeder}"] = {"from": f"{query}-{feeder}", "site": feeder, "schema": _LINKED}
        rows.append(f"SELECT host, total, n FROM from_{feeder}")  # noqa: S608 - a name of our own
    sums = _SUMS.format(" UNION ALL ".join(rows))
    if not root:
        return {"query": query, "inputs": inputs, "sql": sums}
    sink = {"format": "json", "options": {"path": str(out)}}
    return {"query": query, "inputs": inputs, "sql": _RESULTS[query].format(sums), "to": sink}


#: Three JVMs on few cores: what a compiler would gain is less than it takes.
_SMALL_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_CONF = ("spark.driver.memory=600m", "spark.sql.shuffle.partitions=1")
#: `penstock site` with a clock that is wrong by this many seconds.
_PROGRAM = """
import sys, time
now, skew_s = time.time, float(sys.argv.pop(1))
time.time = lambda: now() + skew_s
from penstock.cli.main import main
main()
"""
#: Seconds that a site may take to run its first batch, and to end.
_START_S, _END_S = 240.0, 60.0
SKEWED, SKEW_S = "north", 5.0
KILLED, AWAY_S, CUT_S = "west", 10.0, 20.0


@dataclass(frozen=True)
class FolderWire:
    """A transport that can be taken away: a folder for each federation."""

    folder: Path

    def settings(self, name: str) -> dict[str, Any]:
        """Its settings in site files, for a separate federation."""
        return {"folder": str(self.folder / name)}

    def bus(self, name: str) -> Bus:
        """A bus of that federation, to send messages that sites must refuse."""
        return FolderBus(self.folder / name)

    def cut(self, name: str) -> None:
        """A file is where the folder was."""
        (self.folder / name).rename(self.folder / f"{name}.away")
        (self.folder / name).touch()

    def mend(self, name: str) -> None:
        """The folder is back."""
        (self.folder / name).unlink()
        (self.folder / f"{name}.away").rename(self.folder / name)


@dataclass(frozen=True)
class KafkaWire:
    """Topics on a broker; `stop` and `start` take it away, where they are known."""

    servers: str
    stop: Callable[[], None] | None = None
    start: Callable[[], None] | None = None
    run: str = field(default_factory=lambda: f"{time.time():.0f}")

    def settings(self, name: str) -> dict[str, Any]:
        """Its settings in site files."""
        return {"kafka": self.servers, "prefix": f"penstock-{self.run}-{name}"}

    def bus(self, name: str) -> Bus:
        """A bus of that federation."""
        return KafkaBus(self.servers, f"penstock-{self.run}-{name}", {})

    def cut(self, name: str) -> None:
        """The broker is gone, for all."""
        if self.stop is None:
            raise PenstockError(f"the broker of {name} cannot be stopped from here: run examples/federation/run.py")
        self.stop()

    def mend(self, name: str) -> None:
        """It is back, with what it held."""
        _ = name
        if self.start is not None:
            self.start()


Wire = FolderWire | KafkaWire


@dataclass(frozen=True)
class Effort:
    """How long it runs."""

    settle_s: float = 40.0  #: from when all sites have run a batch to when measuring begins
    measure_s: float = 60.0  #: for how long SIC is measured; with faults, before and after each


class SiteProcess:
    """A site as a process of its own."""

    def __init__(self, path: Path, folder: Path, skew_s: float = 0.0) -> None:
        self._path, self.folder, self.skew_s = path, folder, skew_s
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = [word for one in _CONF for word in ("--conf", one)]
        command = [sys.executable, "-c", _PROGRAM, str(self.skew_s), "site", str(self._path), "--cores", "1", *conf]
        command += ["--json", str(self.folder / "site.json")]
        with (self.folder / "site.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a command of our own
                command, stdout=log, stderr=log, env=os.environ | _SMALL_JVM, start_new_session=True
            )

    def kill(self) -> None:
        """Kill it and its JVM, as a power cut would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(_END_S)

    def stop(self) -> None:
        """End it in order."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def check(self) -> None:
        """Raise an error if it has ended early."""
        if self._process is not None and self._process.poll() is not None:
            end = (self.folder / "site.log").read_text(encoding="utf-8", errors="replace")[-1000:]
            raise PenstockError(f"site {self.folder.name} has ended: {' '.join(end.split())[-400:]}")

    @property
    def batches(self) -> int:
        """How many batches it has run, in all its life."""
        try:
            return sum(last.batch + 1 for last in SiteAccount(self.folder).last.values())
        except PenstockError:
            return 0


class RunningFederation:
    """Three sites that run."""

    def __init__(self, folder: Path, wire: Wire, name: str, policy: Policy, *, skewed: bool = False) -> None:
        self.folder, self.wire, self.name = folder, wire, name
        files = write(folder, wire.settings(name), policy)
        self.sites = {
            site: SiteProcess(files[site], folder / site, SKEW_S if skewed and site == SKEWED else 0.0)
            for site in SITES
        }

    def __enter__(self) -> None:
        """Start them and wait until each has run a few batches."""
        try:
            for site in self.sites.values():
                site.start()
            self.wait_for(dict.fromkeys(SITES, 2))
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        """End them all."""
        for site in self.sites.values():
            site.stop()

    def wait_for(self, batches: dict[str, int]) -> None:
        """Wait until sites have run this many batches."""
        until_s = time.monotonic() + _START_S
        while any(self.sites[site].batches < count for site, count in batches.items()):
            self.rest(1.0)
            if time.monotonic() > until_s:
                raise PenstockError(f"the sites have not run {batches} batches within {_START_S:.0f} s")

    def rest(self, seconds: float, *, but: str = "") -> None:
        """Let them run."""
        until_s = time.monotonic() + seconds
        while True:
            for name, site in self.sites.items():
                if name != but:
                    site.check()
            left_s = until_s - time.monotonic()
            if left_s <= 0.0:
                return
            time.sleep(min(left_s, 1.0))

    def sic(self, from_s: float, to_s: float) -> list[list[float]]:
        """The SIC of each query's results at every second, as their roots have measured it."""
        found: dict[str, list[tuple[float, float]]] = {query: [] for query in QUERIES}
        for site in self.sites.values():
            for entry in SiteAccount(site.folder).entries():
                for query, sic in entry.report.sic.items():
                    found[query].append((entry.time_s - site.skew_s, sic))
        times_s = [from_s + second for second in range(int(to_s - from_s) + 1)]
        return [
            [next((sic for time_s, sic in reversed(own) if time_s <= at_s), 0.0) for own in found.values()]
            for at_s in times_s
        ]

    def messages(self) -> dict[str, dict[str, int]]:
        """The outcome of each site's messages since its last start."""
        return {
            name: json.loads(path.read_text())["messages"]
            for name, site in self.sites.items()
            if (path := site.folder / "site.json").exists()
        }


def bench_federation(folder: Path, effort: Effort, wire: Wire, done: Callable[[], None]) -> dict[str, Any]:
    """Fair and at random, one after the other."""
    rows = []
    policies: tuple[Policy, ...] = ("balance", "random")
    for policy in policies:
        federation = RunningFederation(folder / policy, wire, policy, policy)
        with federation:
            federation.rest(effort.settle_s)
            begun_s = time.time()
            federation.rest(effort.measure_s)
            ended_s = time.time()
        rows.append({"policy": policy, **_judged(federation, begun_s, ended_s), "account": _account(federation)})
        done()
    return {"benchmark": "federation", "parameters": _parameters(effort, wire), "rows": rows}


def bench_faults(folder: Path, effort: Effort, wire: Wire, done: Callable[[], None]) -> dict[str, Any]:
    """Stale and forged messages, a site that is killed, a transport that goes away, and a clock that is off."""
    federation = RunningFederation(folder / "faults", wire, "faults", "balance", skewed=True)
    rows: list[dict[str, Any]] = []

    def measure(when: str) -> None:
        begun_s = time.time()
        federation.rest(effort.measure_s)
        rows.append({"when": when, **_judged(federation, begun_s, time.time())})

    with federation:
        federation.rest(effort.settle_s)
        measure("before")
        sent = _disturb(federation)
        measure("stale, doubled and forged messages")
        federation.sites[KILLED].kill()
        federation.rest(AWAY_S, but=KILLED)
        federation.sites[KILLED].start()
        federation.wait_for({KILLED: federation.sites[KILLED].batches + 3})
        federation.rest(effort.settle_s)
        measure(f"{KILLED} killed, and started {AWAY_S:.0f} s later")
        done()
        wire.cut("faults")
        cut_s = time.time()
        federation.rest(CUT_S)
        wire.mend("faults")
        rows.append({"when": f"transport away for {CUT_S:.0f} s", **_judged(federation, cut_s, time.time())})
        federation.rest(effort.settle_s)
        measure("transport back")
    done()
    return {
        "benchmark": "federation-faults",
        "parameters": _parameters(effort, wire) | {"skewed": SKEWED, "skew_s": SKEW_S, "bad_messages": sent},
        "rows": rows,
        "account": _account(federation),
        "messages": federation.messages(),
    }


def _disturb(federation: RunningFederation) -> int:
    """Send each site's old updates again, out of order and twice, and forged ones."""
    bus = federation.wire.bus(federation.name)
    chance = random.Random(0)  # noqa: S311 - a seeded one
    try:
        bus.listen({f"news.{site}": 0 for site in SITES})
        heard = [one for _ in range(5) for one in bus.poll(1.0) if one.payload is not None]
        chance.shuffle(heard)
        messages = [(one.channel, one.payload or b"") for one in heard[:100] for _ in range(2)]
        good = {"format": 1, "site": "east", "query": "max", "give": 0.5, "part": 0.5, "sic": None, "time_s": 0.0}
        good |= {"epoch": 10**12, "sequence": 1}
        changes = {"query": "none"}, {"sic": 2.0}, {"give": -1.0}, {"site": "south"}, {"part": 1.0}
        for bad in (*changes, {"query": "x" * 10_000}):
            messages += [(channel, json.dumps(good | bad).encode()) for channel in ("news.east", "rows.east.max-east")]
        messages.append(("news.east", b"\xff\x00 no text"))
        for channel, payload in messages:
            bus.tell(channel, payload)
    finally:
        bus.close()
    return len(messages)


def _judged(federation: RunningFederation, begun_s: float, ended_s: float) -> dict[str, Any]:
    """How evenly SIC was spread from one moment to another."""
    instants = federation.sic(begun_s, ended_s)
    means = [sum(column) / len(column) for column in zip(*instants, strict=True)]
    return {
        **{name: round(value, 4) for name, value in asdict(fairness(instants)).items()},
        "sic": {query: round(mean, 4) for query, mean in zip(QUERIES, means, strict=True)},
    }


def _account(federation: RunningFederation) -> dict[str, Any]:
    """Where every row went; rows of sources also as the sources count them."""
    found = add_up(site.folder for site in federation.sites.values()).to_json()
    for part, name in (("inputs", "rows_in"), ("inputs", "shed"), ("links", "lost"), ("links", "under_way")):
        found[name] = sum(one[name] for one in found[part].values())
    found["batches"] = {name: site.batches for name, site in federation.sites.items()}
    # Rows that sources had produced up to each site's last batch by their own offsets, and rows that sites took.
    produced = taken = 0
    for name, site in federation.sites.items():
        last = SiteAccount(site.folder).last
        entry = last[max(last)]
        lines = (site.folder / "checkpoint" / "offsets" / str(entry.batch)).read_text().splitlines()[2:]
        seconds = [int(line) for line in lines if line.isdecimal()]
        rates = [part.rows_per_s for part in PARTS if part.site == name and part.rows_per_s]
        produced += sum(s * rate for s, rate in zip(seconds, rates, strict=True))
        taken += sum(one.rows_in for one in entry.total.sources.values())
    return found | {"source_rows": {"produced": produced, "taken": taken}}


def _parameters(effort: Effort, wire: Wire) -> dict[str, Any]:
    return {
        "transport": "kafka" if isinstance(wire, KafkaWire) else "folder",
        "sites": list(SITES),
        "capacity_rows_per_s": CAPACITY,
        "rows_per_s": {site: sum(part.rows_per_s for part in PARTS if part.site == site) for site in SITES},
        "queries": {query: {"fragments": len(parts), "sources": sources(query)} for query, parts in QUERIES.items()},
        "interval_s": INTERVAL_S,
        "window_s": WINDOW_S,
        **asdict(effort),
    }
