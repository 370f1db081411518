"""A client of Spark Connect that shares no file system with its server: `python connect_client.py ADDRESS FOLDER`.

Runs a guarded, overloaded query whose checkpoint lies in the FOLDER of the server, and prints what it saw as JSON: also
every call of its own that named a path in that folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    import penstock as ps

TARGET_S = 2.0
#: Batches in a row that shed and hold the target, with a margin for a busy machine, before the client is content.
BATCHES, MARGIN, PATIENCE_S = 3, 1.5, 120.0
RESULT = "row bigint, key bigint, weight double"

touched: list[str] = []


def watch_for(folder: str) -> None:
    """From now on note every call that names a path in the folder."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        paths = [os.fsdecode(one) for one in arguments if isinstance(one, str | bytes | os.PathLike)]
        touched.extend(f"{event} {path}" for path in paths if path.startswith(folder))

    sys.addaudithook(hook)


def hook_works(folder: str) -> bool:
    """Whether the hook sees what it should; what was touched for that is forgotten."""
    Path(folder, "server.log").read_bytes()
    os.listdir(folder)  # noqa: PTH208 - one of the calls to be seen
    Path(folder, "by-the-client").mkdir()
    Path(folder, "by-the-client").rmdir()
    seen = {line.split()[0] for line in touched}
    touched.clear()
    return {"open", "os.listdir", "os.mkdir", "os.rmdir"} <= seen


def operator(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(row["cost_ms"] / 1000.0)
    return {"row": row["row"], "key": row["key"], "weight": row["weight"]}


def count_requests() -> list[tuple[str, int, float]]:
    """From now on note every request: its name, the lines of the journal on it, and how long it took."""
    from penstock.spark.plans.remote import RemoteStore  # noqa: PLC0415 - after the hook

    noted: list[tuple[str, int, float]] = []
    answer = RemoteStore._answer  # noqa: SLF001 - each request passes it

    def counted(self: RemoteStore, order: dict[str, Any]) -> dict[str, Any]:
        begin_s = time.monotonic()
        found = answer(self, order)
        lines = order["riding"]["lines"] if order["riding"] else []
        name = order["given"]["call"] if order["errand"] == "log" else order["errand"]
        noted.append((name, len(lines), time.monotonic() - begin_s))
        return found

    RemoteStore._answer = counted  # type: ignore[method-assign] # noqa: SLF001
    return noted


def guard(checkpoint: str | None) -> ps.Guard:
    import penstock as ps  # noqa: PLC0415 - after the hook

    return ps.Guard(ps.MeanQueueLatency(TARGET_S), key="key", row="row", checkpoint=checkpoint)


def source(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("penstock").options(rate=1500).load()


def run(spark: SparkSession, checkpoint: str) -> dict[str, Any]:
    noted = count_requests()
    own = guard(checkpoint)
    df = source(spark).transform(own.admit).transform(own.measured(operator, RESULT, form="row"))
    query = df.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        own.attach(str(query.id))  # as code does that has not started the query
        deadline_s = time.monotonic() + PATIENCE_S
        while not content(own) and query.isActive and time.monotonic() < deadline_s:
            time.sleep(0.1)
        begin_s = time.monotonic()
        own.stop()
        stopping_s = time.monotonic() - begin_s
    finally:
        query.stop()
    plans = own.plans()
    newest = plans.latest()
    return {
        "query": str(query.id),
        "folder": str(own.folder),
        "content": content(own),
        "stopping_s": stopping_s,
        "reports": [json.loads(report.to_json()) for report in own.history()],
        "shed": dict(own.totals.rows_shed),
        "versions": plans.versions(),
        "sheds": sum(bool(plan.gates) for plan in plans.plans()),
        "skipped": plans.skipped(),
        "newest": None if newest is None else json.loads(newest.to_json()),
        "errors": own.errors,
        "requests": noted,
    }


def content(own: ps.Guard) -> bool:
    last = own.history()[-BATCHES:]
    return len(last) == BATCHES and all(
        report.shed_total and report.queuing is not None and report.queuing.mean_s <= MARGIN * TARGET_S
        for report in last
    )


def refusals(spark: SparkSession, folder: str) -> list[str]:
    """What a user is told whose settings do not fit the server."""
    from penstock.spark.plans import remote  # noqa: PLC0415 - after the hook

    lines = [
        refused(lambda: source(spark).transform(guard(f"{folder}/server.log/checkpoint").admit)),
        refused(lambda: source(spark).transform(guard("checkpoint").admit)),
    ]
    # As with a server without Penstock: this one lacks the module in which errands are said to be done.
    elsewhere: Any = ModuleType("penstock_elsewhere")
    sys.modules[elsewhere.__name__] = elsewhere
    known: Any = remote.Errands
    elsewhere.Errands = type("Errands", (known,), {"__module__": elsewhere.__name__})
    remote.Errands = elsewhere.Errands
    lines.append(refused(lambda: source(spark).transform(guard(f"{folder}/never").admit)))
    remote.Errands = known
    return lines


def refused(attempt: Callable[[], object]) -> str:
    from penstock.errors import PenstockError  # noqa: PLC0415 - after the hook

    try:
        attempt()
    except PenstockError as error:
        return str(error)
    return "nothing was refused"


def main(address: str, folder: str) -> None:
    watch_for(folder)
    found: dict[str, Any] = {"hook_works": hook_works(folder)}

    import pyspark  # noqa: PLC0415 - after the hook
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after the hook

    found["pyspark"] = pyspark.__file__
    found["jars"] = Path(pyspark.__file__).with_name("jars").exists()
    found["java"] = shutil.which("java") or os.environ.get("JAVA_HOME")
    spark = SparkSession.builder.remote(address).getOrCreate()
    found["refusals"] = refusals(spark, folder)
    found["run"] = run(spark, f"{folder}/checkpoint")
    spark.stop()
    found["touched"] = touched
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
