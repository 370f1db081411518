"""A guard's metrics for OpenTelemetry, observed by the readers of the application's meter provider.

All guards of a provider share one set of instruments: the API can remove none, and warns of a second one of the same
name. A counter never falls, even if a guard starts anew, because exporters may send differences.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from penstock.errors import PenstockError
from penstock.spark.guard.guard import QueryGuard
from penstock.spark.guard.metrics import METRICS, Metric

#: The attributes of all values, and of those by reason.
GUARD, REASON = "penstock.guard", "penstock.reason"

_Guards = Callable[[], Sequence[QueryGuard]]
_Of = tuple[str, str | None]  # a guard's name and a reason


def _instruments() -> list[Metric]:
    """The metrics; a summary as two counters, because no instrument accepts sums that were made elsewhere."""
    found = []
    for metric in METRICS:
        if metric.kind == "summary":
            for place, part, unit in ((0, "count", metric.counted), (1, "sum", metric.unit)):
                one = partial(lambda read, at, guard: read(guard)[at], metric.read, place)
                found.append(Metric("counter", f"{metric.name}.{part}", unit, metric.text, one))
        else:
            found.append(metric)
    return found


class Exports:
    """The instruments of one meter provider, with the guards that they observe."""

    def __init__(self, provider: MeterProvider) -> None:
        self._lock = threading.Lock()  # each reader of the provider has its own thread
        self._sources: list[_Guards] = []
        self._totals: dict[str, dict[_Of, float]] = {}  # by counter
        self._seen: WeakKeyDictionary[QueryGuard, dict[tuple[str, str | None], float]] = WeakKeyDictionary()
        meter = provider.get_meter("penstock")
        self._metrics = _instruments()
        for metric in self._metrics:
            counts = metric.kind == "counter"
            make = meter.create_observable_counter if counts else meter.create_observable_gauge
            observe = self._counted if counts else self._gauged
            make(f"penstock.{metric.name}", [partial(observe, metric)], metric.unit, metric.text)

    def add(self, guards: _Guards) -> None:
        """Observe these guards from now on."""
        with self._lock:
            self._sources.append(guards)

    def remove(self, guards: _Guards) -> None:
        """Observe these guards no more; their counters keep what was counted last."""
        with self._lock:
            for metric in self._metrics:
                if metric.kind == "counter":
                    self._count(metric)
            self._sources.remove(guards)

    def _gauged(self, metric: Metric, _: CallbackOptions) -> list[Observation]:
        with self._lock:
            return [
                Observation(value, _attributes(guard.name, reason))
                for guard in self._observed()
                for reason, value in metric.values(guard)
            ]

    def _counted(self, metric: Metric, _: CallbackOptions) -> list[Observation]:
        with self._lock:
            return [Observation(total, _attributes(*of)) for of, total in self._count(metric).items()]

    def _count(self, metric: Metric) -> dict[_Of, float]:
        """Add what the guards have counted since they were last seen."""
        totals = self._totals.setdefault(metric.name, {})
        for guard in self._observed():
            seen = self._seen.setdefault(guard, {})
            for reason, value in metric.values(guard):
                before = seen.get((metric.name, reason), 0)
                # A guard that watches a query again counts from zero.
                more = value - before if value >= before else value
                totals[guard.name, reason] = totals.get((guard.name, reason), 0) + more
                seen[metric.name, reason] = value
        return totals

    def _observed(self) -> list[QueryGuard]:
        return [guard for guards in self._sources for guard in guards()]


def _attributes(guard: str, reason: str | None) -> dict[str, str]:
    return {GUARD: guard} if reason is None else {GUARD: guard, REASON: reason}


_exports: WeakKeyDictionary[MeterProvider, Exports] = WeakKeyDictionary()
_lock = threading.Lock()


def export(guards: _Guards, provider: MeterProvider | None) -> Callable[[], None]:
    """Let the readers of a provider observe guards, until the returned function is called."""
    chosen = get_meter_provider() if provider is None else provider
    if not isinstance(chosen, MeterProvider):
        raise PenstockError.setting("meter_provider", provider, "a MeterProvider of OpenTelemetry")
    if provider is None and "Proxy" in type(chosen).__name__:
        # The API's own placeholder, which nothing reads.
        raise PenstockError("OpenTelemetry has no meter provider yet: call set_meter_provider first, or give one")
    with _lock:
        exports = _exports.get(chosen) or _exports.setdefault(chosen, Exports(chosen))
    exports.add(guards)
    return partial(exports.remove, guards)
