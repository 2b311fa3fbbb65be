"""The start of a process' metrics: in memory, or in files that a server sums up.

- In memory (agent, feed, supervisor): `start` returns the registry, which is read at each scrape.
- In files (API workers): prometheus_client's multiprocess mode. It is chosen here and not by PROMETHEUS_MULTIPROC_DIR in
  the environment of the service, because prometheus_client reads that when it is imported, before our options: metrics are
  created at the start of each process, after `values.ValueClass` was set.

The files of a worker are named by a slot instead of its process id. The worker holds a lock on the slot while it runs. One
that replaces it takes over the slot and its files: counters continue, and the number of files is bounded. A slot without a
worker has no gauges.
"""

import fcntl
import itertools
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, values
from prometheus_client.multiprocess import mark_process_dead

from neutrino.metrics import catalog
from neutrino.metrics.instruments import Gauge, Instrument

WRITE_SECONDS: Final = 1.0  # between writes of gauges that are functions
# Space of a worker's files. Of the histogram, 4 KiB for each resource, method and class of status that was requested.
SIZES: Final[Mapping[str, int]] = {"counter": 1 << 16, "gauge_livesum": 1 << 16, "histogram": 1 << 22}


def start(component: str, version: str) -> CollectorRegistry:
    """Hold the metrics of a component in memory from now on; return the registry to read them from."""
    values.ValueClass = values.MutexValue
    registry = CollectorRegistry()
    _begin(component, registry)
    ProcessCollector(registry=registry)
    catalog.BUILD_INFO.watch(lambda: {(version, component): 1.0})
    return registry


def start_worker(directory: Path, stop: threading.Event) -> None:
    """Hold the metrics of an API worker in files of this directory.

    OSError if there is no space for them; nothing is counted then.
    """
    end()
    slot = _take_slot(directory)
    for name, size in SIZES.items():
        _allocate(directory / f"{name}_{slot}.db", size)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: slot)  # type: ignore[no-untyped-call]
    gauges = [one for one in _begin(catalog.API, CollectorRegistry()) if isinstance(one, Gauge)]

    def write() -> None:
        while not stop.wait(WRITE_SECONDS):
            for gauge in gauges:
                gauge.write()

    threading.Thread(target=write, daemon=True, name="metrics").start()


def end() -> None:
    """Count nothing from now on."""
    for instrument in catalog.ALL:
        instrument.end()


def forget_ended(directory: Path) -> None:
    """Remove the gauges of workers that have ended; their counters stay."""
    for path in directory.glob("*.lock"):
        if (descriptor := _lock(path)) is not None:
            mark_process_dead(path.stem, str(directory))  # type: ignore[no-untyped-call]
            os.close(descriptor)


def _begin(component: str, registry: CollectorRegistry) -> list[Instrument]:
    end()  # those of the process that this one was forked from
    instruments = [one for one in catalog.ALL if component in one.components]
    for instrument in instruments:
        instrument.begin(component, registry)
    return instruments


def _take_slot(directory: Path) -> int:
    """Return the first number that no living process has, as ours until this process ends."""
    slot = next(number for number in itertools.count() if _lock(directory / f"{number}.lock") is not None)
    mark_process_dead(slot, str(directory))  # type: ignore[no-untyped-call]
    return slot


def _lock(path: Path) -> int | None:
    """Lock a file and return its descriptor, which holds the lock; None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _allocate(path: Path, size: int) -> None:
    """Create a file with its space on the disk, unless it exists.

    prometheus_client writes to a memory mapping of a sparse file. On a full disk such a write ends the process by SIGBUS,
    which no handler can turn into an error: metrics would end the API. Allocated first, a full disk is an OSError.
    """
    if path.exists():
        return
    new = path.with_suffix(".new")  # an empty file could not be read, so the file appears with its size
    try:
        with new.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
