"""An archive of Spark's classes, so that the many JVMs of the tests start in two thirds of the time.

Java keeps the loaded and checked form of classes in a file (class data sharing). The file is made once, by the first
test run on a machine, into the cache outside the repository; a JVM to which it does not fit goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.components import CACHE

#: A JVM that lives for minutes, beside others, has no use for the slow, thorough compiler, nor for two threads of the
#: other. And Hadoop runs a program for each file whose rights it sets: started directly, each takes half as long.
QUICK = "-XX:TieredStopAtLevel=1 -XX:CICompilerCount=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
MAKE_TIMEOUT_S = 180.0
#: What most test JVMs load: a session, streams through a Python data source and a Python function, a state, files.
_TYPICAL = """
import sys, tempfile
from pyspark.sql import SparkSession
from penstock.spark import source
with tempfile.TemporaryDirectory() as folder:
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
                "spark.local.dir": folder, "spark.sql.warehouse.dir": folder + "/warehouse", "spark.log.level": "ERROR",
                "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    source.register(spark)
    read = spark.readStream.format("penstock").options(available=100).load()
    rows = read.mapInArrow(lambda batches: batches, read.schema)
    counts = rows.withWatermark("arrival", "1 second").groupBy("key", "arrival").count()
    for number, (df, form) in enumerate(((rows, "parquet"), (counts, "parquet"), (rows, "noop"))):
        writer = df.writeStream.format(form).option("path", f"{folder}/sink-{number}")
        writer = writer.option("checkpointLocation", f"{folder}/{number}").trigger(availableNow=True)
        writer.start().awaitTermination(60)
    rows = spark.read.parquet(folder + "/sink-0")
    rows.join(rows.groupBy("key").count(), "key").orderBy("row").toArrow()
    spark.stop()
"""


def java_options() -> str:
    """Options for a JVM of the tests."""
    archive = _archive()
    return f"{QUICK} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off" if archive.exists() else QUICK


def _archive() -> Path:
    import pyspark  # noqa: PLC0415 - runs without Spark are welcome

    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    about = f"{pyspark.__file__} {pyspark.__version__} {java.resolve()} {_TYPICAL}"
    return CACHE / f"classes-{hashlib.sha256(about.encode()).hexdigest()[:16]}.jsa"


def make() -> None:
    """Make the archive unless it is there; without it the tests are slower, and nothing else."""
    archive = _archive()
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(f".{os.getpid()}")
    environment = {
        **os.environ,
        "JDK_JAVA_OPTIONS": f"{QUICK} -XX:ArchiveClassesAtExit={fresh} -Xlog:cds=off -Xlog:cds+dynamic=off",
        "PYSPARK_PYTHON": sys.executable,
    }
    try:
        subprocess.run(
            [sys.executable, "-c", _TYPICAL], env=environment, capture_output=True, check=False, timeout=MAKE_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return
    if fresh.exists():
        fresh.replace(archive)
