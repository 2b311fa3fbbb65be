"""Counters, histograms and gauges that count nothing until their process starts its metrics (`process.py`).

The code that counts does not know in which process it runs, or whether metrics are on: `RETRIES.inc("deadlock")` changes
nothing before `begin`, nor in a process that does not have this metric.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

LOG = logging.getLogger(__name__)
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # buckets of histograms
Labels = tuple[str, ...]
Values = Mapping[Labels, float]
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each of ours


class Instrument:
    """A metric with its help text, its labels and the processes (`components`) that have it."""

    type: ClassVar[str]
    _registry: CollectorRegistry | None = None  # None: nothing is counted
    _metric: Any = None  # of prometheus_client
    _collector: Any = None  # what is registered: the metric, or its function
    _function: Callable[[], Values | float] | None = None
    _prefix: Labels = ()

    def __init__(
        self,
        name: str,
        help_: str,
        components: Iterable[str],
        labels: Sequence[str] = (),
        *,
        by_process: bool = False,
        initial: Iterable[str] = (),
    ) -> None:
        """`by_process`: with a label `process`, as several processes of a machine have it.

        `initial`: values of the label that are there from the start: Prometheus does not see the increase of a series that
        begins at 1.
        """
        self.name, self.help, self.components = name, help_, frozenset(components)
        self.labels = (*(("process",) if by_process else ()), *labels)
        self._initial: list[Labels] = [(value,) for value in initial] if labels else [()]
        self._by_process = by_process

    def begin(self, component: str, registry: CollectorRegistry) -> None:
        """Count from now on."""
        self._prefix = (component,) if self._by_process else ()
        self._registry = registry
        self._metric = self._collector = self._make(registry)
        for labels in self._initial:
            self._child(labels)

    def end(self) -> None:
        """Count nothing from now on, as in a process that was forked from one that counts."""
        self._registry = self._metric = self._collector = self._function = None

    def watch(self, function: Callable[[], Values | float]) -> None:
        """Show the values of a function, by labels, or the one value of a metric without labels. Called at each scrape."""
        self._function = function
        if self._registry is not None:
            self._registry.unregister(self._collector)
            self._collector = _Watched(self)
            self._registry.register(self._collector)

    def current(self) -> Values:
        """Return the values of the function."""
        values = self._function() if self._function is not None else {}
        return values if isinstance(values, Mapping) else {(): values}

    def family(self) -> Metric:
        """Return the values of the function, as prometheus_client has them."""
        family_type = CounterMetricFamily if self.type == "counter" else GaugeMetricFamily
        family = family_type(self.name, self.help, labels=self.labels)
        for labels, value in self.current().items():
            family.add_metric((*self._prefix, *labels), value)
        return family

    def _make(self, registry: CollectorRegistry) -> Any:
        raise NotImplementedError

    def _child(self, labels: Labels) -> Any:
        return self._metric.labels(*self._prefix, *labels) if self.labels else self._metric


class _Watched:
    """Collector of a metric whose values are a function."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument

    def collect(self) -> Iterator[Metric]:
        try:
            yield self._instrument.family()
        except Exception as error:  # the database or the switch may be away: the other metrics are read all the same
            LOG.warning("metric %s cannot be read: %s", self._instrument.name, error)


class Counter(Instrument):
    type = "counter"

    def _make(self, registry: CollectorRegistry) -> Any:
        return prometheus_client.Counter(self.name, self.help, self.labels, registry=registry)

    def inc(self, *labels: str, by: float = 1) -> None:
        if self._metric is not None:
            self._child(labels).inc(by)


class Histogram(Instrument):
    type = "histogram"

    def _make(self, registry: CollectorRegistry) -> Any:
        return prometheus_client.Histogram(self.name, self.help, self.labels, registry=registry, buckets=SECONDS)

    def observe(self, value: float, *labels: str) -> None:
        if self._metric is not None:
            self._child(labels).observe(value)


class Gauge(Instrument):
    """A value that rises and falls; of API workers the sum over those that live."""

    type = "gauge"

    def _make(self, registry: CollectorRegistry) -> Any:
        return prometheus_client.Gauge(
            self.name, self.help, self.labels, registry=registry, multiprocess_mode="livesum"
        )

    def write(self) -> None:
        """Set the gauge to the values of its function: files that processes share hold values only."""
        try:
            for labels, value in self.current().items():
                self._child(labels).set(value)
        except Exception as error:  # written in the next round
            LOG.warning("metric %s cannot be written: %s", self.name, error)
