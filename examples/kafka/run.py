"""The whole on a machine without Kafka: a broker, an overloaded topic, the guarded pipeline, and its account.

python run.py [SECONDS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import pipeline
from broker import Broker, UnavailableError, connector_jars
from produce import make_topics
from pyspark.sql import functions as F  # noqa: N812 - the name all Spark code uses

from penstock import local_session

HERE = Path(__file__).parent
WINDOW_S = 10.0
#: A first short stream, so that the JVM and its Python workers have done all this before.
WARM_UP_S = 4.0


def run(folder: Path, servers: str, seconds: float) -> bool:
    """Run the pipeline while the topic is filled; print the account and say whether it is exact."""
    make_topics(servers, ["in", "out"])
    jars = connector_jars()
    print("Spark's connector:", ", ".join(jar.stem for jar in jars if "sql" in jar.name), flush=True)
    # Workers import pipeline.py by its name.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    spark = local_session(folder / "spark", settings={"spark.jars": ",".join(map(str, jars))})
    try:
        guard = pipeline.make_guard(folder / "checkpoint")
        rows = pipeline.read(spark, servers, "in", startingOffsets="earliest")
        with guard:
            query = pipeline.start(rows, guard, servers, "out", folder / "checkpoint")
            produced = 0
            for length_s in (WARM_UP_S, seconds):
                print(f"Producing for {length_s:g} s, and working it off ...", flush=True)
                producer = [sys.executable, str(HERE / "produce.py"), servers, "in", str(length_s)]
                produced += int(subprocess.run(producer, check=True, capture_output=True, text=True).stdout)
                query.processAllAvailable()
            query.stop()
            while guard.watching:  # until it has seen the last batch
                time.sleep(0.1)
        sink = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "out").load()
        written = sink.select(F.from_json(F.col("value").cast("string"), pipeline.RESULT).alias("row")).select("row.*")
        found = written.agg(F.count("*"), F.count_distinct("partition", "offset"), F.sum("weight")).first()
    finally:
        spark.stop()
    return account(guard, produced, *found)


def account(guard: pipeline.ps.Guard, produced: int, written: int, different: int, weight: float) -> bool:
    """Print where every row went."""
    totals, reports = guard.totals, guard.history()
    shed = Counter(totals.rows_shed)
    print(f"rows produced       {produced:>8,}")
    print(f"rows in             {totals.rows_in:>8,}  in {totals.batches} batches")
    print(f"= kept              {totals.rows_kept:>8,}  of which {totals.rows_must_keep:,} had to be")
    print(f"+ shed              {shed.total():>8,}")
    for reason, rows in shed.items():
        print(f"    {rows:>8,}  {reason}")
    print(f"rows in the sink    {written:>8,}  of which {different:,} are distinct; they stand for {weight:,.0f} rows")
    print(f"\ntarget: {guard.target}; the first batch meets a cold JVM and has no plan yet")
    print("from       mean wait   rows behind at the source")
    windows = defaultdict(list)
    for report in reports:
        windows[int((report.start_s - reports[0].start_s) // WINDOW_S)].append(report)
    for window, inside in sorted(windows.items()):
        waits = [report.queuing for report in inside if report.queuing]
        mean_s = sum(wait.rows * wait.mean_s for wait in waits) / max(sum(wait.rows for wait in waits), 1)
        behind = max(report.source_rows_behind or 0 for report in inside)
        print(f"{window * WINDOW_S:>3.0f} s      {mean_s:>7.2f} s   {behind:>8,}")
    for alarm in guard.alarms:
        print("alarm:", alarm)
    exact = produced == totals.rows_in == totals.rows_kept + shed.total() and totals.rows_kept == written == different
    print("\nThe account is exact." if exact else "\nTHE ACCOUNT IS NOT EXACT.")
    return exact


def main(seconds: float) -> int:
    """Do it all, and leave nothing behind; the number of the process's end."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="penstock-kafka-", ignore_cleanup_errors=True) as name,
            Broker(Path(name) / "broker") as broker,
        ):
            return 0 if run(Path(name), broker.address, seconds) else 1
    except UnavailableError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if sys.argv[1:] else 60.0))
