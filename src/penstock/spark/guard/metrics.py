"""A guard's metrics for Prometheus, computed at each request from its Reports.

Names follow Prometheus' conventions: one prefix, base units, `_total` for what only rises. There is no label for keys:
they may number millions.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from penstock.errors import PenstockError
from penstock.messages.report import Report
from penstock.spark.guard.guard import QueryGuard

_PORTS = range(2**16)


#: Sums over all Reports: the metric, its description, and the field of `Totals`.
_TOTALS = (
    ("rows_in", "Rows that reached the gate.", "rows_in"),
    ("rows_kept", "Rows that the guard kept.", "rows_kept"),
    ("rows_must_keep", "Kept rows that match keep.", "rows_must_keep"),
    ("batches", "Micro-batches with rows.", "batches"),
    ("batches_missing", "Batches without a report.", "batches_missing"),
    ("busy_seconds", "Work of the measured operator.", "busy_s"),
)


class Sample(NamedTuple):
    """One value of a guard: a number, or a summary's count and sum."""

    family: type[CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily]
    name: str
    text: str
    value: tuple[float, ...]
    reason: str | None = None  #: a label, where a metric has one value for each reason


class GuardMetrics(Collector):
    """The metrics of guards, to be registered in a `CollectorRegistry`: each family once, with the values of all."""

    def __init__(self, guards: Callable[[], Sequence[QueryGuard]]) -> None:
        self._guards = guards

    def describe(self) -> list[Metric]:
        """Nothing: the metrics depend on events so far."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The current value of every metric."""
        families: dict[str, Any] = {}
        for guard in self._guards():
            for kind, name, text, value, reason in _samples(guard):
                more = {} if reason is None else {"reason": reason}
                if name not in families:
                    families[name] = kind(f"penstock_{name}", text, labels=["guard", *more])
                families[name].add_metric([guard.name, *more.values()], *value)
        yield from families.values()


def _samples(guard: QueryGuard) -> Iterator[Sample]:
    totals, last = guard.totals, guard.report()
    for name, text, field in _TOTALS:
        yield Sample(CounterMetricFamily, name, text, (getattr(totals, field),))
    for reason, rows in totals.rows_shed.items():
        yield Sample(CounterMetricFamily, "rows_shed", "Rows that the guard shed.", (rows,), reason)
    for reason, rows in totals.rows_would_shed.items():
        text = "Rows that a dry run would have shed."
        yield Sample(CounterMetricFamily, "rows_would_shed", text, (rows,), reason)
    yield Sample(CounterMetricFamily, "controller_errors", "Errors that the guard caught.", (guard.errors,))
    text, waits = "Time from arrival to start, of processed rows.", (totals.queued_rows, totals.queued_s)
    yield Sample(SummaryMetricFamily, "queuing_latency_seconds", text, waits)
    text = "Time the gate took to read its plan."
    yield Sample(SummaryMetricFamily, "control_table_seconds", text, (totals.batches, totals.control_s))
    for name, text, value in _gauges(guard, last):
        if value is not None:
            yield Sample(GaugeMetricFamily, name, text, (value,))


def _gauges(guard: QueryGuard, last: Report | None) -> Iterator[tuple[str, str, float | None]]:
    """Gauges; None is omitted: 0 is a version, so a missing plan is an absent value."""
    yield "watching", "1 while the guard plans for its query.", guard.watching
    yield "alarms", "Alarms, as of the last batch.", len(guard.alarms)
    target = guard.target
    yield "target_seconds", "Latency to hold.", getattr(target, "limit_s", getattr(target, "age_s", None))
    yield "target_rows_per_second", "Rate to hold.", getattr(target, "rows_per_s", None)
    if last is None:
        return
    yield "backlog_rows", "Rows that waited at the source after the last batch.", last.backlog_rows
    yield "backlog_age_seconds", "How long the oldest of them had waited.", last.backlog_age_s
    text = "Rows beyond the last batch that the source itself knew of."
    yield "source_rows_behind", text, last.source_rows_behind
    for sic in last.sic.values():
        yield "sic", "Source information content of results, in the last source time window.", sic
    yield "plan_version", "Plan that judged the last batch.", last.plan_version


def serve(guards: Callable[[], Sequence[QueryGuard]], port: int, address: str) -> WSGIServer:
    """Serve `http://address:port/metrics` from a separate thread until the server is shut down."""
    if type(port) is not int or port not in _PORTS:
        raise PenstockError.setting("port", port, "a port from 1 to 65535, or 0 for any that is free")
    registry = CollectorRegistry()
    registry.register(GuardMetrics(guards))
    try:
        server, _ = start_http_server(port, address, registry)
    except OSError as error:
        raise PenstockError.setting(
            "port", port, f"a port that is free at {address}", f"the system says: {error.strerror}"
        ) from None
    return server
