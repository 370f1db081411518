"""The place of a guard's plans and bindings: a folder that this process can reach; `remote` has the other kind."""

import atexit
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.messages.claim import Claim
from penstock.messages.plan import Rules
from penstock.spark.checkpoint import query_id
from penstock.spark.plans.binding import GateOptions, bindings_of, control_row
from penstock.spark.plans.claim import claim
from penstock.spark.plans.rules import Open, begin
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.report_log import ReportLog


def on_connect(spark: SparkSession | None) -> bool:
    """Whether a session is a client of Spark Connect, by its class, because Connect need not be installed."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class LocalStore:
    """A folder of a file system that is mounted here and where executors run."""

    def __init__(self, checkpoint: Path | None) -> None:
        """Under this checkpoint; without one, in a temporary folder that is removed at the end of the program."""
        if checkpoint is None:
            checkpoint = Path(tempfile.mkdtemp(prefix="penstock-"))
            atexit.register(shutil.rmtree, checkpoint, ignore_errors=True)
        # A path, not a Store: executors open the same logs by it, and Spark's own files lie beside it.
        self.folder = checkpoint / "penstock"

    def serves(self, spark: SparkSession) -> bool:
        """Whether a query of that session finds the folder: on classic Spark it does."""
        return not on_connect(spark)

    def claim(self, own: Claim) -> str:
        """Sign the folder, or refuse one that was signed differently; its identity."""
        return claim(self.folder, own)

    def begin(self, gate: str, rules: Rules) -> list[Open]:
        """Record the rules of a gate; returns the batches that Spark may run again."""
        return begin(self.folder, gate, rules)

    def plans(self) -> PlanLog:
        """The plans in it."""
        return PlanLog(self.folder / "plans")

    def bindings(self, query: str) -> BindingLog:
        """The bindings of a query in it."""
        return bindings_of(self.folder, query)

    def bound(self) -> dict[str, float]:
        """The queries that have bound batches here, with the time of the last binding."""
        return {one.name: one.stat().st_mtime for one in (self.folder / "bindings").glob("*")}

    def reports(self, query: str) -> ReportLog:
        """Where the reports of a query are kept."""
        return ReportLog(self.folder, query)

    def query_id(self) -> str | None:
        """The query whose checkpoint the folder is in, as Spark has written it there; None if it is in none."""
        return query_id(self.folder.parent)

    def control_row(self, place: str) -> list[int]:
        """The control row of a batch data frame."""
        return control_row(GateOptions(str(self.folder), place))
