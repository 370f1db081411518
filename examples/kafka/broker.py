"""A Kafka broker for tries and tests: its jars brought by Maven into a cache, one process, data in a folder of yours.

    python broker.py DIR        # prints its address and runs until Ctrl-C

In production Kafka is there already, and `--packages` of spark-submit brings the connector; neither needs this file.
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Self

KAFKA = "3.9.1"
#: Versions of the connector to try after PySpark's own, with that of its part for tokens: not all are everywhere.
OLDER_CONNECTORS = (("4.2.0", "4.1.0-preview1"), ("4.1.0", "4.1.0"), ("4.0.0", "4.0.0"))
START_S = 120.0

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_HERE = Path(__file__).parent
#: Below the ports that systems give to clients: a client that knocks on such a port of its own machine while nobody
#: listens there may be given it, and then the broker cannot have it back.
_PORTS = range(20_000, 32_000)
#: Runs the broker until standard input ends: so also if this process is killed.
_WHILE_ATTENDED = '"$@" & read -r _; kill -9 $!; wait $!'
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2000
log.message.timestamp.after.max.ms=9223372036854775807
log.retention.ms=-1
"""


class UnavailableError(Exception):
    """What cannot be had here, and why."""


def broker_jars() -> Path:
    """The folder with the broker's jars."""
    return jars(f"kafka_2.13-{KAFKA}", _HERE / "broker.pom.xml", {"kafka": KAFKA})


def connector_jars() -> list[Path]:
    """The connector for the PySpark that is installed: of its version, or the newest older one that can be had."""
    spark = metadata.version("pyspark")
    for connector, tokens in ((spark, spark), *OLDER_CONNECTORS):
        versions = {"connector": connector, "tokens": tokens, "kafka": KAFKA}
        with suppress(UnavailableError):
            return sorted(jars(f"connector-{connector}", _HERE / "connector.pom.xml", versions).glob("*.jar"))
    raise UnavailableError(
        "no version of Spark's connector to Kafka can be had: is Maven installed, and the network up?"
    )


def jars(name: str, pom: Path, versions: dict[str, str]) -> Path:
    """A folder in the cache, filled with what the pom names; it comes into being whole or not at all."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "maven"
    folder = cache / name
    if folder.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError(f"{name} is not in {cache}, and Maven is not installed to bring it")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as made:
        brought = Path(made) / "jars"
        options = [f"-DoutputDirectory={brought}", *(f"-D{part}={version}" for part, version in versions.items())]
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), _COPY, *options]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise UnavailableError(f"Maven cannot bring {name}: {' '.join(result.stdout.split())[:300]}")
        with suppress(OSError):  # another process was quicker
            brought.rename(folder)
    return folder


class Broker:
    """A broker on this machine; `start` after `stop` finds the same data at the same address."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Make its settings and format its storage in the folder."""
        self._folder = Path(folder).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        broker, controller = _free_ports(2)
        self.address = f"127.0.0.1:{broker}"
        self._port = broker
        self._settings = self._folder / "server.properties"
        self._settings.write_text(_SETTINGS.format(broker=broker, controller=controller, data=self._folder / "data"))
        self._process: subprocess.Popen[bytes] | None = None
        identity = base64.urlsafe_b64encode(b"p" + uuid.uuid4().bytes[1:]).decode().rstrip("=")  # no "-" in front
        format_ = self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings))
        subprocess.run(format_, check=True, capture_output=True)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WHILE_ATTENDED, "broker", *self._java("kafka.Kafka", str(self._settings))],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C is for us: we stop the broker when its clients are done
            )
        deadline_s = time.monotonic() + START_S
        while not _answers(self._port):
            if time.monotonic() > deadline_s or self._process.poll() is not None:
                self.stop()
                end = (self._folder / "broker.log").read_text()[-2000:]
                raise UnavailableError(f"the broker did not start in {START_S:.0f} s: {end}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill it, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()  # which ends its standard input

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def _java(self, *command: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else "java"
        quick = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [java, *quick, "-cp", f"{broker_jars()}/*", *command]


def _free_ports(count: int) -> list[int]:
    ports = (port for port in random.sample(_PORTS, len(_PORTS)) if not _answers(port))
    return [next(ports) for _ in range(count)]


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and its folder
        sys.exit(__doc__)
    try:
        with Broker(sys.argv[1]) as broker, suppress(KeyboardInterrupt):
            print(broker.address, flush=True)
            while True:
                time.sleep(60.0)
    except UnavailableError as error:
        sys.exit(str(error))
