"""`penstock replay`: rows in quarantine through a pipeline, in a Spark session of this machine."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.printing import plain
from penstock.errors import PenstockError
from penstock.store.folder import local_folder
from penstock.store.logs import PlanLog
from penstock.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console


def run(
    folder: Path, into: str, pipeline: str | None, when_calm: Path | None, cores: int, console: Console
) -> dict[str, Any]:
    """Replay and print the row count."""
    from pyspark.errors import PySparkException

    from penstock.spark.expected_errors import quiet
    from penstock.spark.quarantine.replay import replay
    from penstock.spark.quarantine.rows import Place, Sign
    from penstock.spark.session import local_session

    # Before Spark starts, which takes seconds.
    Sign.read(folder.absolute(), "DIR")
    Place.of(into, "--into")
    function = None if pipeline is None else _function(pipeline)
    when = None if when_calm is None else _calm(when_calm)
    with tempfile.TemporaryDirectory(prefix="penstock-replay-") as scratch:
        spark = local_session(scratch, cores=cores, app="penstock-replay")
        try:
            with quiet():
                done = replay(spark, folder, into, function, when=when)
        except PySparkException as error:
            line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise PenstockError(f"the replay of {folder} failed and can be started again: {line}") from None
        finally:
            spark.stop()
    batches = counted(done.batches, "batch", "batches")
    plain(console, f"Replayed {counted(done.rows, 'row')} in {batches} into {into}.")
    return {"folder": str(folder), "into": into, "rows": done.rows, "batches": done.batches}


def _function(given: str) -> Callable[[Any], Any]:
    """The function that `module:function` names, found from the working folder too, by Spark's workers as well."""
    module, _, name = given.partition(":")
    if not module or not name:
        raise PenstockError.setting("--pipeline", given, "MODULE:FUNCTION, such as jobs:enrich")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise PenstockError.setting("--pipeline", given, "MODULE:FUNCTION that can be imported", f"{error}") from None
    if not callable(found):
        raise PenstockError.setting("--pipeline", given, "a function from data frame to data frame")
    return found  # type: ignore[no-any-return]


def _calm(checkpoint: Path) -> Callable[[], bool]:
    from penstock.spark.quarantine.replay import calm

    plans = local_folder("--when-calm", checkpoint) / "penstock" / "plans"
    if not plans.is_dir():
        raise PenstockError.setting(
            "--when-calm", str(checkpoint), "the checkpoint of a guarded query", "there are no plans in it"
        )
    log = PlanLog(plans, make=False)
    return lambda: calm(log, time.time())
