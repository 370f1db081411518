"""The guard's metrics for OpenTelemetry: held against Prometheus', through restarts, and over OTLP."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("opentelemetry.sdk")

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    PeriodicExportingMetricReader,
    Sum,
)
from tests.spark.metered import Watched, batch

import penstock as ps
from penstock.spark.guard.otel import _instruments  # what is registered, also if no guard has a value
from penstock.spark.guard.prometheus import GuardMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
Values = dict[tuple[str, ...], Any]


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader: InMemoryMetricReader) -> Iterator[MeterProvider]:
    made = MeterProvider([reader])
    yield made
    made.shutdown()


def guarded(*reports: ps.Report, name: str = "mine") -> Watched:
    guard = Watched(ps.MeanQueueLatency("2 s"), name=name)
    guard.reports = reports
    return guard


def metrics(reader: InMemoryMetricReader) -> list[Any]:
    data = reader.get_metrics_data()
    found = data.resource_metrics if data else []
    return [metric for resource in found for scope in resource.scope_metrics for metric in scope.metrics]


def values(reader: InMemoryMetricReader) -> Values:
    """Each value by its metric, its guard and, if it has one, its reason."""
    return {
        (metric.name, *point.attributes.values()): point.value
        for metric in metrics(reader)
        for point in metric.data.data_points
    }


def test_every_value_is_the_one_that_prometheus_reads(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    reports = batch(0), batch(1, rows_would_shed={"over capacity": 1}, sic={"query": 0.5})
    guards = [guarded(*reports), Watched(ps.Throughput(5), name="other")]
    for guard in guards:
        guard.export_metrics(provider)
    ends = {"s": "_seconds", "{row}/s": "_per_second"}
    exported = {
        (re.sub(r"_(sum|count)(_seconds)?$", r"_seconds_\1", name), *point.attributes.values()): point.value
        for metric in metrics(reader)
        for name in [metric.name.replace(".", "_") + ends.get(metric.unit, "")]
        for point in metric.data.data_points
    }
    served = {
        (re.sub("_total$", "", sample.name), *sample.labels.values()): sample.value
        for family in GuardMetrics(lambda: guards).collect()
        for sample in family.samples
    }
    assert exported == served
    assert exported["penstock_rows_in", "mine"] == 200
    assert exported["penstock_rows_shed", "mine", 'a "quoted" reason'] == 20
    for guard in guards:
        guard.stop()


def test_names_units_and_attributes_follow_the_conventions(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    guard = guarded(batch(0, rows_would_shed={"over capacity": 1}, sic={"query": 0.5}))
    guard.export_metrics(provider)
    found = metrics(reader)
    names = [metric.name for metric in found]
    assert all(re.fullmatch(r"penstock(\.[a-z]+(_[a-z]+)*)+", name) for name in names)
    assert not any(re.search("total|seconds", name) for name in names)  # the unit and the kind are told apart from it
    assert [(one, other) for one in names for other in names if other.startswith(f"{one}.")] == []  # no namespace
    assert {metric.unit for metric in found} == {"{row}", "{batch}", "{error}", "{alarm}", "{row}/s", "s", "1"} - {
        "{row}/s"
    }
    assert all(metric.description for metric in found)
    assert {key for metric in found for point in metric.data.data_points for key in point.attributes} == {
        "penstock.guard",
        "penstock.reason",
    }
    assert {metric.name for metric in found if isinstance(metric.data, Sum) and not metric.data.is_monotonic} == set()
    guard.stop()


def test_the_page_names_what_there_is() -> None:
    page = re.findall(r"`(penstock\.[\w.]+)`", (DOCS / "metrics.md").read_text())
    assert set(page) - {"penstock.guard", "penstock.reason"} == {f"penstock.{one.name}" for one in _instruments()}


def test_counters_outlive_a_guard_and_never_fall(caplog: pytest.LogCaptureFixture) -> None:
    """Exporters of differences would send negative ones."""
    deltas = InMemoryMetricReader({ObservableCounter: AggregationTemporality.DELTA})
    sums = InMemoryMetricReader()
    provider = MeterProvider([deltas, sums])
    rows, shed = ("penstock.rows.in", "mine"), ("penstock.rows.shed", "mine", "over capacity")

    first = guarded(batch(0), batch(1), batch(2))
    first.export_metrics(provider)
    assert values(deltas)[rows] == 300
    first.reports = (*first.reports, batch(3))  # counted by nobody before the end
    first.stop()
    assert (values(sums)[rows], values(sums)[shed]) == (400, 80)
    assert values(deltas)[rows] == 100
    assert ("penstock.watching", "mine") not in values(sums)

    second = guarded(batch(0))  # the query starts again, in the same process
    second.export_metrics(provider)
    assert (values(sums)[rows], values(deltas)[rows]) == (500, 100)
    second.reports = ()
    assert (values(sums)[rows], values(deltas)[rows]) == (500, 0)
    second.reports = (batch(0), batch(1))
    assert (values(sums)[rows], values(deltas)[rows]) == (700, 200)
    second.stop()
    assert caplog.messages == []  # the SDK warns of instruments that are made twice
    provider.shutdown()


def test_the_number_of_series_depends_on_guards_and_reasons_alone(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    guard = guarded(batch(0))
    guard.export_metrics(provider)
    guard.export_metrics(provider)  # again: not twice
    few = values(reader)
    for number in range(50):
        guard.reports = (*guard.reports, batch(number))
        values(reader)
    assert values(reader).keys() == few.keys()
    for _ in range(20):
        again = guarded(batch(0))
        again.export_metrics(provider)
        again.stop()
    assert values(reader).keys() == few.keys()
    guard.stop()


def test_two_guards_of_one_name_add_up(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    guards = [guarded(batch(0)), guarded(batch(0), batch(1))]
    for guard in guards:
        guard.export_metrics(provider)
    assert values(reader)["penstock.rows.in", "mine"] == 300
    assert values(reader)["penstock.rows.in", "mine"] == 300
    for guard in guards:
        guard.stop()


def test_prometheus_is_served_beside(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    guard = guarded(batch(0))
    guard.export_metrics(provider)
    port = guard.serve_metrics(port=0)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b'penstock_rows_in_total{guard="mine"} 100.0' in answer.read()
    assert values(reader)["penstock.rows.in", "mine"] == 100
    guard.stop_metrics()
    guard.reports = (batch(0), batch(1))
    assert values(reader)["penstock.rows.in", "mine"] == 100


def test_what_is_no_provider_is_one_line() -> None:
    guard = guarded()
    with pytest.raises(ps.PenstockError, match=r"^meter_provider = 'otlp' is not usable: give a MeterProvider"):
        guard.export_metrics("otlp")  # type: ignore[arg-type]
    with pytest.raises(ps.PenstockError, match=r"^OpenTelemetry has no meter provider yet: call set_meter_provider"):
        guard.export_metrics()


def test_they_arrive_over_otlp() -> None:
    """At a receiver that decodes requests by OpenTelemetry's own definition of the protocol."""
    received: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    exporter = OTLPMetricExporter(f"http://127.0.0.1:{server.server_port}/v1/metrics")
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)])
    guard = guarded(batch(0), batch(1))
    guard.export_metrics(provider)
    assert provider.force_flush(10_000)
    guard.stop()
    provider.shutdown()
    server.shutdown()
    server.server_close()

    request = ExportMetricsServiceRequest.FromString(received[0])
    (scope,) = (scope for resource in request.resource_metrics for scope in resource.scope_metrics)
    assert scope.scope.name == "penstock"
    found = {metric.name: metric for metric in scope.metrics}
    rows, target = found["penstock.rows.in"], found["penstock.target"]
    assert (rows.unit, rows.sum.is_monotonic, rows.sum.data_points[0].as_int) == ("{row}", True, 200)
    assert (target.unit, target.gauge.data_points[0].as_double) == ("s", 2.0)
    by_reason = {
        tuple(sorted((one.key, one.value.string_value) for one in point.attributes)): point.as_int
        for point in found["penstock.rows.shed"].sum.data_points
    }
    assert by_reason[("penstock.guard", "mine"), ("penstock.reason", "over capacity")] == 40
