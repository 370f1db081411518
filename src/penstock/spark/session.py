"""A local Spark session with the settings that suit a guarded stream, for the demo, the benchmarks and first tries."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark import expected_errors, source

#: Settings that help a guarded stream in any session.
RECOMMENDED = {
    # Over TCP each call of a Python worker waits 40 ms for a delayed acknowledgement; the control table is one a batch.
    "spark.python.unix.domain.socket.enabled": "true",
}
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
#: A socket's path has room for 103 bytes on some systems; Spark takes 42 of them for the name.
_LONGEST_SOCKET_FOLDER = 60


def local_session(
    folder: str | Path, *, cores: int = 2, app: str = "penstock", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on this machine that writes nothing outside `folder`; the embedded source is registered in it."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise PenstockError("Java is missing: install Java 17 or later, or run `make setup`")
    # Workers would otherwise start the system's python3, which lacks the packages of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after the environment is set

    builder = SparkSession.builder.master(f"local[{cores}]").appName(app)
    folder = Path(folder).absolute()
    folders = {
        "spark.jars.ivy": folder / "ivy",
        "spark.local.dir": folder / "local",
        "spark.sql.warehouse.dir": folder / "warehouse",
    }
    if len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER:
        folders["spark.python.unix.domain.socket.dir"] = folder
    for name, value in {**_LOCAL, **RECOMMENDED, **folders, **(settings or {})}.items():
        builder = builder.config(name, str(value))
    with standard_error_to(folder / "spark.log"):
        session = builder.getOrCreate()
    source.register(session)
    return session


def silence_stacks() -> None:
    """Keep Spark's loggers from printing stack traces where one line suffices."""
    # PySpark makes loggers of its own class, and calls them as no other can be called.
    for logger in (*map(PySparkLogger.getLogger, expected_errors.LOGGERS), logging.getLogger("py4j.clientserver")):
        logger.setLevel(logging.CRITICAL + 1)
    # Spark's bridge prints a Ctrl-C with its stack trace, through no separate logger.
    logging.getLogger().addFilter(lambda record: not record.getMessage().startswith("KeyboardInterrupt while"))


@contextmanager
def standard_error_to(path: Path) -> Iterator[None]:
    """Send what this process and its children write to standard error into a file: a JVM greets with several lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
