"""A guard's metrics for Prometheus, computed at each request from its Reports.

Names follow Prometheus' conventions: one prefix, base units, `_total` for what only rises. There is no label for keys:
they may number millions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from penstock.core.control.targets import MaxLag, MeanQueueLatency, Throughput
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.metrics_core import Metric

    from penstock.spark.guard.guard import Guard

_PORTS = range(2**16)


class GuardMetrics(Collector):
    """A guard's metrics, to be registered in a `CollectorRegistry`."""

    def __init__(self, guard: Guard) -> None:
        """Tell of this guard."""
        self._guard = guard

    def describe(self) -> list[Metric]:
        """Nothing: what there is depends on what has happened."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric as it stands."""
        totals, last = self._guard.totals, self._guard.report()
        yield self._counter("rows_in", "Rows that reached the gate.", totals.rows_in)
        yield self._counter("rows_kept", "Rows that the guard kept.", totals.rows_kept)
        yield self._by_reason("rows_shed", "Rows that the guard shed.", totals.rows_shed)
        yield self._by_reason("rows_would_shed", "Rows that a dry run would have shed.", totals.rows_would_shed)
        yield self._counter("rows_must_keep", "Kept rows that match keep.", totals.rows_must_keep)
        yield self._counter("batches", "Micro-batches with rows.", totals.batches)
        yield self._counter("batches_missing", "Batches without a report.", totals.batches_missing)
        yield self._counter("busy_seconds", "Work of the measured operator.", totals.busy_s)
        yield self._counter("controller_errors", "Errors that the guard caught.", self._guard.errors)
        yield self._summary(
            "queuing_latency_seconds",
            "Time from arrival to start, of processed rows.",
            totals.queued_rows,
            totals.queued_s,
        )
        yield self._summary(
            "control_table_seconds", "Time the gate took to read its plan.", totals.batches, totals.control_s
        )
        yield self._gauge("watching", "1 while the guard plans for its query.", float(self._guard.watching))
        yield self._gauge("alarms", "Alarms, as of the last batch.", len(self._guard.alarms))
        yield from self._target()
        if last is not None:
            yield self._gauge("backlog_rows", "Rows that waited at the source after the last batch.", last.backlog_rows)
            yield self._gauge("backlog_age_seconds", "How long the oldest of them had waited.", last.backlog_age_s)
            if last.source_rows_behind is not None:
                yield self._gauge(
                    "source_rows_behind",
                    "Rows beyond the last batch that the source itself knew of.",
                    last.source_rows_behind,
                )
            for sic in last.sic.values():
                yield self._gauge("sic", "Source information content of results, in the last source time window.", sic)
            # 0 is a version, so no plan is told by an absent one.
            if last.plan_version is not None:
                yield self._gauge("plan_version", "Plan that judged the last batch.", last.plan_version)

    def _target(self) -> Iterator[Metric]:
        match self._guard.target:
            case MeanQueueLatency() as target:
                yield self._gauge("target_seconds", "Latency to hold.", target.limit_s)
            case MaxLag() as target:
                yield self._gauge("target_seconds", "Latency to hold.", target.age_s)
            case Throughput() as target:
                yield self._gauge("target_rows_per_second", "Rate to hold.", target.rows_per_s)

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"penstock_{name}", text, labels=["guard"])
        family.add_metric([self._guard.name], value)
        return family

    def _by_reason(self, name: str, text: str, values: Mapping[str, int]) -> Metric:
        family = CounterMetricFamily(f"penstock_{name}", text, labels=["guard", "reason"])
        for reason, value in values.items():
            family.add_metric([self._guard.name, reason], value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"penstock_{name}", text, labels=["guard"])
        family.add_metric([self._guard.name], value)
        return family

    def _summary(self, name: str, text: str, count: int, total: float) -> Metric:
        family = SummaryMetricFamily(f"penstock_{name}", text, labels=["guard"])
        family.add_metric([self._guard.name], count, total)
        return family


class FairMetrics(Collector):
    """The metrics of several queries: each family once, with the values of all."""

    def __init__(self, queries: Callable[[], Sequence[Guard]]) -> None:
        """Tell of the queries that there are when it is asked."""
        self._queries = queries

    def describe(self) -> list[Metric]:
        """Nothing: what there is depends on what has happened."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric as it stands."""
        families: dict[str, Metric] = {}
        for query in self._queries():
            for family in GuardMetrics(query).collect():
                families.setdefault(family.name, family)
                if families[family.name] is not family:
                    families[family.name].samples.extend(family.samples)
        yield from families.values()


def serve(guards: Callable[[], Sequence[Guard]], port: int, address: str) -> WSGIServer:
    """Answer `http://address:port/metrics` from a thread of its own until the server is shut down."""
    if type(port) is not int or port not in _PORTS:
        raise PenstockError.setting("port", port, "a port from 1 to 65535, or 0 for any that is free")
    registry = CollectorRegistry()
    registry.register(FairMetrics(guards))
    try:
        server, _ = start_http_server(port, address, registry)
    except OSError as error:
        raise PenstockError.setting(
            "port", port, f"a port that is free at {address}", f"the system says: {error.strerror}"
        ) from None
    return server
