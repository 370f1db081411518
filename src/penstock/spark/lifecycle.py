"""The lifecycle of what runs beside a query: `watch` starts it, `stop` or the end of a `with` block ends it.

`Guard`, `Fair` and `Grouping` are `Stoppable`; those with one query are `Watcher`s, those with metrics `Metered`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.errors import PenstockError
from penstock.extras import missing
from penstock.spark.plans.remote import store_for
from penstock.store.place import Place

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import TracebackType
    from wsgiref.simple_server import WSGIServer

    from opentelemetry.metrics import MeterProvider
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.messages.plan import Costs
    from penstock.messages.report import Report
    from penstock.spark.guard.controller import Controller
    from penstock.spark.guard.guard import QueryGuard
    from penstock.spark.plans.remote import Store
    from penstock.store.logs import PlanStore

#: The port that OpenTelemetry's exporters for Prometheus use.
METRICS_PORT = 9464


class Stoppable(ABC):
    """Stops at the end of a `with` block."""

    @abstractmethod
    def stop(self) -> None:
        """Stop."""

    def __enter__(self) -> Self:
        """Nothing to do: `watch` starts the work."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


class Metered(Stoppable):
    """Answers Prometheus, or exports to OpenTelemetry, until it is stopped."""

    _metrics_server: WSGIServer | None = None
    _end_export: Callable[[], None] | None = None

    @abstractmethod
    def _measured_guards(self) -> list[QueryGuard]:
        """The guards whose metrics are served, as of now."""

    def serve_metrics(self, port: int = METRICS_PORT, address: str = "127.0.0.1") -> int:
        """Answer Prometheus at `http://address:port/metrics` until `stop`; port 0 takes any that is free.

        Returns:
            The port.
        """
        try:
            from penstock.spark.guard.prometheus import serve  # noqa: PLC0415 - only this needs Prometheus' client
        except ModuleNotFoundError as error:
            raise missing(error) from None

        self._close_port()
        self._metrics_server = serve(self._measured_guards, port, address)
        return self._metrics_server.server_port

    def export_metrics(self, meter_provider: MeterProvider | None = None) -> None:
        """Export metrics through OpenTelemetry until `stop`.

        Args:
            meter_provider: The provider whose readers observe the metrics; if not given, the global one.
        """
        try:
            from penstock.spark.guard.otel import export  # noqa: PLC0415 - only this needs OpenTelemetry
        except ModuleNotFoundError as error:
            raise missing(error) from None

        self._withdraw()
        self._end_export = export(self._measured_guards, meter_provider)

    def stop_metrics(self) -> None:
        """Close the port, and end the export."""
        self._close_port()
        self._withdraw()

    def _close_port(self) -> None:
        server, self._metrics_server = self._metrics_server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _withdraw(self) -> None:
        end, self._end_export = self._end_export, None
        if end is not None:
            end()


class Watcher(Stoppable):
    """Has a controller for one query, and a folder for its plans under the query's checkpoint."""

    kind: str  #: what it is called in errors
    name: str

    def __init__(self, checkpoint: str | os.PathLike[str] | None) -> None:
        if checkpoint is not None:
            Place.of(checkpoint, "checkpoint")
        self._checkpoint = checkpoint
        self._store: Store | None = None
        self._controller: Controller | None = None

    def _refuse_query(self, query: StreamingQuery) -> None:
        """Refuse to watch what is no query, or a second one."""
        if not hasattr(query, "lastProgress"):
            raise PenstockError.setting("query", query, "a streaming query, what writeStream's start() returns")
        if self.watching:
            raise PenstockError(
                f"{self.kind} {self.name!r} watches a query already: one query a {self.kind}; make another "
                f"{self.kind} for this one"
            )

    @property
    def watching(self) -> bool:
        """Whether it watches a query at the moment."""
        return self._controller is not None and self._controller.alive

    @property
    def errors(self) -> int:
        """Errors that the controller caught."""
        return self._controller.errors if self._controller else 0

    def report(self) -> Report | None:
        """The Report of the last batch; None before the first."""
        return self._controller.reports[-1] if self._controller and self._controller.reports else None

    def history(self) -> list[Report]:
        """The Reports since it began to watch: up to 1,000 batches and 7 days, the last 10 with their costs."""
        return list(self._controller.reports) if self._controller else []

    @property
    def folder(self) -> Path | Place:
        """Where its plans are kept, an address if that is in a bucket; with Spark Connect, on the server."""
        place = self._stored().place
        return place if place.in_bucket else Path(str(place))

    def plans(self) -> PlanStore:
        """The log of its plans."""
        return self._stored().plans()

    def _newest_costs(self, place: str) -> Costs | None:
        """The costs of its newest plan at a place; None if none are known."""
        newest = self.plans().latest()
        return newest.costs_at(place) if newest else None

    def stop(self) -> None:
        """Stop watching the query."""
        if self._controller is not None:
            self._controller.stop()

    def _stored(self, spark: SparkSession | None = None) -> Store:
        """Where its plans are kept: as the session needs it, or the active one if none was seen yet."""
        if self._store is None or (spark is not None and not self._store.serves(spark)):
            self._store = store_for(spark, self._checkpoint)
        return self._store
