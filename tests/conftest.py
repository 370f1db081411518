"""What every test may use: one Spark session for the whole run, and repeatable Hypothesis examples.

The variable PENSTOCK_TEST_ENGINE chooses the session: `classic` (the default), `local-cluster` (executors are processes
of their own) or `connect` (a client of a Spark Connect server that is started here). `tests/spark/test_engines.py` runs
the guard's tests on the other two.

Some files are run beside the others, in processes of their own: see `tests/engines.py`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import settings
from tests.components import KAFKA_READ_BY, USED, debian_tool, example, hadoop_aws, missing
from tests.engines import ALONE, AT_LAST, BESIDE, NOT_HERE, RUNS, UNDISTURBED, quick_start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.object_server import ObjectServer

ROOT = Path(__file__).parents[1]
ENGINE = os.environ.get("PENSTOCK_TEST_ENGINE", "classic")
#: How Spark writes its own files of a checkpoint. By default it runs `readlink` and `chmod` for each of them, which is
#: half of what a small batch costs. Other engines, and tests that start sessions of their own, use the default.
CHECKPOINTS = "org.apache.spark.sql.execution.streaming{}.FileSystemBasedCheckpointFileManager"
MASTERS = {"classic": "local[2]", "local-cluster": "local-cluster[2,1,1024]", "connect": "local[2]"}

# No deadline, because the first call of a compiled loop takes about a second.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def java() -> None:
    """For tests that start Spark in a process of their own."""
    pytest.importorskip("pyspark")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker for the whole run, from examples/kafka/broker.py."""
    pytest.importorskip("confluent_kafka")
    kafka = example("kafka/broker")
    try:
        kafka.connector_jars()
        broker = kafka.Broker(tmp_path_factory.mktemp("kafka"))
    except kafka.UnavailableError as error:
        missing(str(error))
    with broker:
        yield broker


@pytest.fixture(scope="session")
def object_server() -> Iterator[ObjectServer]:
    """One S3 server for the whole run."""
    pytest.importorskip("moto")
    pytest.importorskip("obstore")
    from tests.object_server import ObjectServer  # noqa: PLC0415 - runs without these packages are welcome

    server = ObjectServer()
    yield server
    server.close()


@pytest.fixture
def bucket(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """The server without faults, whose address and credentials are in the environment of a process that begins."""
    from penstock.store import objects  # noqa: PLC0415 - needs a package of an extra

    object_server.mend()
    for name, value in object_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(objects, "_clients", {})
    monkeypatch.setattr(objects, "_probed", set())
    monkeypatch.setattr(objects, "_silent", {})
    return object_server


def jars(request: pytest.FixtureRequest) -> dict[str, str]:
    """The setting that gives a session the jars for what this run's tests ask for: a broker, or a bucket for Spark."""
    kafka = example("kafka/broker")
    found: list[Path] = []
    for fixture, bring in {"kafka": kafka.connector_jars, "s3a": hadoop_aws}.items():
        if any(fixture in getattr(item, "fixturenames", ()) for item in request.session.items):
            with suppress(kafka.UnavailableError):  # the fixture says why
                found += bring()
    USED.extend(f"{KAFKA_READ_BY}{jar.stem}" for jar in found if "spark-sql-kafka" in jar.name)
    return {"spark.jars": ",".join(map(str, found))} if found else {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which connector was used, as it may be an older one than Spark, and how long the runs beside took."""
    for line in (*USED, *RUNS.times()):
        terminalreporter.write_line(line)


def everything(config: pytest.Config) -> bool:
    """Whether all tests are asked for, so that the runs beside may start before it is known which tests there are."""
    chosen = ("keyword", "markexpr", "deselect", "lf", "collectonly")
    in_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return in_all and find_spec("pyspark") is not None and not any(getattr(config.option, one, None) for one in chosen)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Start the runs beside."""
    if everything(session.config):
        RUNS.start()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even read the files that are run beside."""
    return True if everything(config) and collection_path.relative_to(ROOT).as_posix() in NOT_HERE else None


def with_runs_beside(items: list[pytest.Item]) -> bool:
    """Whether the tests that wait for runs beside are among these; without Spark all are run here."""
    return find_spec("pyspark") is not None and any(item.path.name == "test_engines.py" for item in items)


@pytest.hookimpl(trylast=True)  # what -k leaves
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of targets behind those that wait for the runs beside; the most sensitive one of them alone."""
    if not with_runs_beside(items):
        return
    files = {item: item.path.relative_to(ROOT).as_posix() for item in items}
    items[:] = [item for item in items if files[item] not in NOT_HERE]
    items.sort(key=lambda item: place(item, files[item]))


def place(item: pytest.Item, file: str) -> int:
    if file == "tests/spark/test_engines.py":
        name = item.callspec.params["name"] if isinstance(item, pytest.Function) else ""
        return 1 if name in BESIDE else 3 if name in AT_LAST else 5
    return {UNDISTURBED: 2, ALONE: 4}.get(file, 0)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the runs beside, if the tests that wait for them are among those of this run and they do not run yet."""
    if with_runs_beside(session.items) and not session.config.option.collectonly and not RUNS.started:
        RUNS.start()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where nothing may be skipped (`CI` is set), a skipped test is a failed run, whatever it was skipped for."""
    RUNS.stop()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped") if reporter else None
    if skipped and os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\nCI skips nothing, and {len(skipped)} were skipped")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def options(request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    """Settings of a session, or of a server, that keeps its files in this folder."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.jars.ivy": str(folder / "ivy"),
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **jars(request),
    }


def spark_version() -> tuple[int, int]:
    """The first two numbers of Spark's version."""
    import pyspark  # noqa: PLC0415 - runs without Spark are welcome

    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


@pytest.fixture(autouse=True)
def new_enough(request: pytest.FixtureRequest) -> None:
    """Skip a test marked with a version of Spark that is newer than the one here: see docs/versions.md."""
    for mark in request.node.iter_markers("since_spark"):
        since, why = mark.args
        if spark_version() < since:
            pytest.skip(f"needs Spark {since[0]}.{since[1]}: {why}")


@contextmanager
def workers_of_this_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Workers would otherwise start the system's python3, which lacks the packages of this environment.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # Functions of test modules travel by name: executors look for them where this process does.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
        yield


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    sql = pytest.importorskip("pyspark.sql")
    if ENGINE == "connect":
        session = sql.SparkSession.builder.remote(request.getfixturevalue("server").address).getOrCreate()
        yield session
        session.stop()
        return
    folder = tmp_path_factory.mktemp("spark")
    with workers_of_this_environment():
        builder = sql.SparkSession.builder.master(MASTERS[ENGINE]).appName("penstock-tests")
        for name, value in options(request, folder).items():
            builder = builder.config(name, value)
        if ENGINE == "classic":
            manager = CHECKPOINTS.format(".checkpointing" if spark_version() >= (4, 1) else "")
            builder = builder.config("spark.sql.streaming.checkpointFileManagerClass", manager)
        with pytest.MonkeyPatch.context() as quick:
            for name, value in quick_start().items():
                quick.setenv(name, value)
            quick.chdir(folder)  # where the JVM puts what is given by a relative path
            session = builder.getOrCreate()
        yield session
        session.stop()


class Server(NamedTuple):
    """A Spark Connect server."""

    address: str
    folder: Path  #: its working folder


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One Spark Connect server for the whole run."""
    folder = tmp_path_factory.mktemp("server")
    with workers_of_this_environment(), connect_server(options(request, folder), folder) as address:
        yield Server(address, folder)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' own checker."""
    return debian_tool("promtool", "prometheus")


@contextmanager
def connect_server(options: dict[str, str], folder: Path) -> Iterator[str]:
    """A Spark Connect server of its own process, with another working folder."""
    import pyspark  # noqa: PLC0415 - only this engine needs it

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = options | {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", MASTERS["connect"]]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    with (folder / "server.log").open("wb") as log:
        environment = {**os.environ, **quick_start(), "SPARK_HOME": str(home)}
        server = subprocess.Popen([*command, "spark-internal"], cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        deadline_s = time.monotonic() + 120.0
        while True:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None or time.monotonic() > deadline_s:
                pytest.fail(f"the Connect server did not start: {(folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)
