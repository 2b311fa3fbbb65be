"""Counters, histograms and gauges that cost nothing until their process starts its metrics.

The code that counts does not know in which process it runs, or whether metrics are on: `RETRIES.inc("deadlock")` changes
nothing before `start`. Values are held in one of two ways:

- in memory (feed, agent, supervisor), read at each scrape; gauges may be functions, evaluated then;
- shared (API workers): prometheus_client's files in a directory, which the supervisor sums up. The file of a worker
  outlives it, so counters do not fall when a worker is replaced. Every second a thread writes to the file what was counted
  since, and evaluates functions: writing for each request would take a hundredth of the time to show a port.
"""

import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import prometheus_client
from prometheus_client import CollectorRegistry, values
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from neutrino.metrics.files import AllocatedDict, allocate

LOG = logging.getLogger(__name__)
FLUSH_SECONDS: Final = 1.0  # between writes of API workers to their files
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_FILES: Final = ("counter", "histogram", "gauge_livesum")  # of a worker, as prometheus_client names them
Labels = tuple[str, ...]
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each of ours
Values = Mapping[Labels, float]


class Instrument:
    """Base: a metric with its help text, its labels and the processes (`components`) that have it."""

    every: ClassVar[dict[str, "Instrument"]] = {}
    type: ClassVar[str]

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
        self._initial: list[Labels] = [(value,) for value in initial] if labels else [()]
        self.name, self.help, self.components = name, help_, frozenset(components)
        self.labels = (*(("process",) if by_process else ()), *labels)
        self._by_process = by_process
        self._prefix: Labels = ()
        self._children: dict[Labels, Any] = {}
        self._metric: Any = None
        self._is_shared = False
        self.function: Callable[[], Values | float] | None = None
        assert name not in self.every, name
        self.every[name] = self

    def begin(self, component: str, registry: CollectorRegistry, *, shared: bool = False) -> None:
        """Count from now on."""
        self._is_shared = shared
        self._prefix = (component,) if self._by_process else ()
        self._children = {}
        self.function = None
        self._metric = self._make(registry)
        for one in self._initial:
            self._child(one)

    @property
    def is_shared(self) -> bool:
        return self._is_shared and self._metric is not None

    def end(self) -> None:
        self._children, self._metric, self.function = {}, None, None

    def watch(self, function: Callable[[], Values | float]) -> None:
        """Take the values of a function, by labels, or the one value of a metric without labels."""
        self.function = function

    def current(self) -> Iterator[tuple[Labels, float]]:
        """The values of the function."""
        assert self.function is not None
        found = self.function()
        for labels, value in ({(): found} if isinstance(found, int | float) else found).items():
            yield (*self._prefix, *labels), float(value)

    def _make(self, registry: CollectorRegistry) -> Any:
        raise NotImplementedError

    def _child(self, labels: Labels) -> Any:
        try:
            made = self._metric.labels(*self._prefix, *labels) if self.labels else self._metric
        except OSError as error:  # the disk is full: the request that is counted goes on
            if not any(isinstance(one, _Uncounted) for one in tuple(self._children.values())):
                LOG.warning("some series of metric %s are not counted: %s", self.name, error.strerror or error)
            return self._children.setdefault(labels, _Uncounted())
        made = self._buffered(made) if self._is_shared else made
        # Of two threads that create it at once, both use the first: the other's counts would be lost.
        return self._children.setdefault(labels, made)

    def _buffered(self, child: Any) -> Any:
        return child

    def flush(self) -> None:
        """Write what was counted since the last time."""
        for child in tuple(self._children.values()):
            child.flush()


class _Uncounted:
    """A series that has no place in the file, until the worker is replaced."""

    def inc(self, by: float) -> None: ...

    def observe(self, value: float) -> None: ...

    def set(self, value: float) -> None: ...

    def flush(self) -> None: ...


class _CounterBuffer:
    """Counts of one series that are not in the file yet."""

    def __init__(self, child: Any) -> None:
        self._child, self._lock, self._count = child, threading.Lock(), 0.0

    def inc(self, by: float) -> None:
        with self._lock:
            self._count += by

    def flush(self) -> None:
        with self._lock:
            count, self._count = self._count, 0.0
        if count:
            self._child.inc(count)


class _HistogramBuffer:
    def __init__(self, child: Any, bounds: Sequence[float]) -> None:
        self._child, self._lock, self._bounds = child, threading.Lock(), bounds
        self._counts, self._sum = [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += value

    def flush(self) -> None:
        with self._lock:
            if not any(self._counts):
                return
            counts, self._counts = self._counts, [0] * len(self._counts)
            total, self._sum = self._sum, 0.0
        self._child._sum.inc(total)
        for bucket, count in zip(self._child._buckets, counts, strict=True):
            if count:
                bucket.inc(count)


class Counter(Instrument):
    type = "counter"

    def _make(self, registry: CollectorRegistry) -> Any:
        return prometheus_client.Counter(self.name, self.help, self.labels, registry=registry)

    def _buffered(self, child: Any) -> Any:
        return _CounterBuffer(child)

    def inc(self, *labels: str, by: float = 1) -> None:
        if self._metric is not None:
            (self._children.get(labels) or self._child(labels)).inc(by)


class Histogram(Instrument):
    type = "histogram"
    buckets: Sequence[float] = SECONDS

    def _make(self, registry: CollectorRegistry) -> Any:
        return prometheus_client.Histogram(self.name, self.help, self.labels, registry=registry, buckets=self.buckets)

    def _buffered(self, child: Any) -> Any:
        return _HistogramBuffer(child, self.buckets)

    def observe(self, value: float, *labels: str) -> None:
        if self._metric is not None:
            (self._children.get(labels) or self._child(labels)).observe(value)


class Gauge(Instrument):
    """A value that rises and falls; of API workers the sum over those that live."""

    type = "gauge"

    def _make(self, registry: CollectorRegistry) -> Any:
        return prometheus_client.Gauge(
            self.name, self.help, self.labels, registry=registry, multiprocess_mode="livesum"
        )

    def flush(self) -> None:
        """Gauges are written at once."""

    def set(self, value: float, *labels: str) -> None:
        if self._metric is not None:
            (self._children.get(labels) or self._child(labels)).set(value)


class _Functions:
    """The metrics whose values are functions, evaluated when they are read."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._instruments = instruments

    def collect(self) -> Iterator[Metric]:
        for one in self._instruments:
            if one.function is None:
                continue
            family = (CounterMetricFamily if one.type == "counter" else GaugeMetricFamily)(
                one.name, one.help, labels=one.labels
            )
            try:
                for labels, value in one.current():
                    family.add_metric(labels, value)
            except (
                Exception
            ) as error:  # the database or the switch may be away: the other metrics are read all the same
                LOG.warning("metric %s cannot be read: %s", one.name, error)
                continue
            yield family


class _Registry(CollectorRegistry):
    """Without the plain values of metrics that have a function."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        super().__init__(auto_describe=False)
        self._watched = instruments

    def collect(self) -> Iterator[Metric]:
        # Decided once: a process that is starting may give another metric its function meanwhile.
        watched = [one for one in self._watched if one.function is not None]
        replaced = {one.name.removesuffix("_total") for one in watched}
        for family in super().collect():
            if family.name not in replaced:
                yield family
        yield from _Functions(watched).collect()


def start(component: str, version: str) -> CollectorRegistry:
    """Hold the metrics of a component in memory from now on; gives the registry to read them from."""
    values.ValueClass = values.MutexValue
    instruments = _begin(component)
    registry = _Registry(instruments)
    for one in instruments:
        one.begin(component, registry)
    ProcessCollector(registry=registry)
    Instrument.every["neutrino_build_info"].watch(lambda: {(version, component): 1.0})
    return registry


def start_shared(component: str, directory: str, stop: threading.Event) -> None:
    """Hold the metrics of a component in files of this directory, which other processes can read.

    OSError if there is no space for them; nothing is counted then.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
    values.MmapedDict = AllocatedDict  # type: ignore[attr-defined]  # MultiProcessValue opens its files by this name
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
    instruments = _begin(component)
    registry = CollectorRegistry(auto_describe=False)
    try:
        for kind in _FILES:
            allocate(os.path.join(directory, f"{kind}_{os.getpid()}.db"))
        for one in instruments:
            one.begin(component, registry, shared=True)
    except OSError:
        for one in instruments:
            one.end()
        raise

    def write() -> None:
        while not stop.wait(FLUSH_SECONDS):
            _flush(instruments)
        _flush(instruments)

    threading.Thread(target=write, daemon=True, name="metrics").start()


def flush() -> None:
    """Write to the files what has been counted, at the end of an API worker."""
    _flush([one for one in Instrument.every.values() if one.is_shared])


def _flush(instruments: Iterable[Instrument]) -> None:
    for one in instruments:
        try:
            one.flush()
            if one.function is not None and isinstance(one, Gauge):
                for labels, value in one.current():
                    one.set(value, *labels[1:] if one._by_process else labels)
        except Exception as error:  # the others are written all the same, and this one in the next round
            LOG.warning("metric %s cannot be written: %s", one.name, error)


def _begin(component: str) -> list[Instrument]:
    """The metrics of a component; those of others end, as of the process that this one was forked from."""
    from neutrino.metrics import catalog  # noqa: F401  (declares all of them)

    for one in Instrument.every.values():
        one.end()
    return [one for one in Instrument.every.values() if component in one.components]
