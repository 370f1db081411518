"""The place of a guard's plans and bindings: one that this process can reach; `remote` has the other kind."""

import atexit
import shutil
import tempfile
from os import PathLike

from pyspark.sql import SparkSession

from penstock.messages.claim import Claim
from penstock.messages.plan import Rules
from penstock.spark.checkpoint import query_id
from penstock.spark.plans.binding import GateOptions, bindings_of, control_row
from penstock.spark.plans.claim import claim
from penstock.spark.plans.rules import Open, begin
from penstock.store.logs import BindingLog, PlanLog
from penstock.store.place import Place
from penstock.store.remembering import Remembering
from penstock.store.report_log import FOLDER, ReportLog

#: How long a driver remembers plans in a bucket. It reads the newest one before it writes the next, because another
#: driver may have replaced and deleted it; that takes such a driver at least 50 batches.
_REMEMBER_S = 2.0


def on_connect(spark: SparkSession | None) -> bool:
    """Whether a session is a client of Spark Connect, by its class, because Connect need not be installed."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class LocalStore:
    """A folder of a file system that is mounted here and where executors run, or one in a bucket."""

    def __init__(self, checkpoint: str | PathLike[str] | Place | None) -> None:
        """Under this checkpoint; without one, in a temporary folder that is removed at the end of the program."""
        if checkpoint is None:
            checkpoint = tempfile.mkdtemp(prefix="penstock-")
            atexit.register(shutil.rmtree, checkpoint, ignore_errors=True)
        # A place, not a Store: executors open the same logs by it, and Spark's own files lie beside it.
        self.place = Place.of(checkpoint, "checkpoint") / "penstock"

    def serves(self, spark: SparkSession) -> bool:
        """Whether a query of that session finds the place: on classic Spark it does."""
        return not on_connect(spark)

    def claim(self, own: Claim) -> str:
        """Sign the folder, or refuse one that was signed differently; its identity."""
        return claim(self.place, own)

    def begin(self, gate: str, rules: Rules) -> list[Open]:
        """Record the rules of a gate; returns the batches that Spark may run again."""
        return begin(self.place, gate, rules)

    def plans(self) -> PlanLog:
        """The plans in it."""
        store = (self.place / "plans").store()
        return PlanLog(Remembering(store, _REMEMBER_S) if self.place.in_bucket else store)

    def bindings(self, query: str) -> BindingLog:
        """The bindings of a query in it."""
        return bindings_of(self.place, query)

    def bound(self, but: str) -> dict[str, float]:
        """The queries but this one that have bound batches here, with the time of the last binding."""
        bindings = self.place / "bindings"
        store = bindings.store(make=False)
        return {query: store.changed_s(query) for query in bindings.below() if query != but}

    def reports(self, query: str) -> ReportLog:
        """Where the reports of a query are kept."""
        return ReportLog((self.place / FOLDER).store(make=False), query)

    def query_id(self) -> str | None:
        """The query whose checkpoint the folder is in, as Spark has written it there; None if it is in none."""
        return query_id(self.place.parent)

    def control_row(self, place: str) -> list[int]:
        """The control row of a batch data frame."""
        return control_row(GateOptions(str(self.place), place))
