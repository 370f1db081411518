"""A guard's metrics for Prometheus, computed at each request from its Reports.

Names follow Prometheus' conventions: one prefix, base units, `_total` for what only rises.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from penstock.errors import PenstockError
from penstock.spark.guard.guard import QueryGuard
from penstock.spark.guard.metrics import METRICS, Metric

_PORTS = range(2**16)
#: How a name ends, by unit.
_ENDS = {"s": "_seconds", "{row}/s": "_per_second"}


class GuardMetrics(Collector):
    """The metrics of guards, to be registered in a `CollectorRegistry`: each family once, with the values of all."""

    def __init__(self, guards: Callable[[], Sequence[QueryGuard]]) -> None:
        self._guards = guards

    def describe(self) -> list[Family]:
        """Nothing: the metrics depend on events so far."""
        return []

    def collect(self) -> Iterator[Family]:
        """The current value of every metric."""
        guards = self._guards()
        for metric in METRICS:
            found = [(guard.name, *one) for guard in guards for one in metric.values(guard)]
            if found:
                yield _family(metric, found)


def _family(metric: Metric, found: list[tuple[str, str | None, Any]]) -> Family:
    name = f"penstock_{metric.name.replace('.', '_')}{_ENDS.get(metric.unit, '')}"
    labels = ["guard"] if found[0][1] is None else ["guard", "reason"]
    if metric.kind == "summary":
        summary = SummaryMetricFamily(name, metric.text, labels=labels)
        for guard, _, (count, total) in found:
            summary.add_metric([guard], count, total)
        return summary
    made = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(name, metric.text, labels=labels)
    for guard, reason, value in found:
        made.add_metric([guard] if reason is None else [guard, reason], value)
    return made


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
