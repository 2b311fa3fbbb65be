"""The text that Prometheus reads, of one machine's server: the API workers' sums, the feed's metrics, the supervisor's own.

Workers hold their metrics in files of a directory (`instruments.start_shared`), the feed in its memory, behind a socket in
the same directory. A family that several of them have appears once, as the text format requires.
"""

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from neutrino import private
from neutrino.feed.address import short_path
from neutrino.metrics.files import AllocatedDict

LOG = logging.getLogger(__name__)
FEED_SOCKET: Final = "feed.sock"
SOCKET_SECONDS: Final = 5.0
MAX_ENDED: Final = 8  # files of ended workers before they are summed up in one
ENDED: Final = 0  # the "process" of that file
_PROCESS: Final = "process_"  # metrics of a process itself, which others on the machine have too
# The listener has a thread per client: two that add up the files of ended workers at once would count them twice.
_READING: Final = threading.Lock()


def prepare(directory: Path) -> None:
    """Create the directory, and remove the files of a server that ran before: its counts are not ours."""
    private.own_directory(directory)
    for path in directory.glob("*.db*"):
        path.unlink(missing_ok=True)


def server_text(directory: Path, own: CollectorRegistry, *, feed: bool = True) -> bytes:
    """The metrics of a server: of this process (`own`), its workers and its feed, unless this is the feed."""
    with _READING:
        _forget_ended(directory)
        workers = CollectorRegistry()
        if any(directory.glob("*.db")):  # none before the first worker has started
            MultiProcessCollector(workers, str(directory))  # type: ignore[no-untyped-call]
        return merged(own.collect(), workers.collect(), read_families(directory / FEED_SOCKET) if feed else ())


def merged(*several: Iterable[Metric]) -> bytes:
    families: dict[str, Metric] = {}
    for metrics in several:
        for family in metrics:
            if family.name in families:
                families[family.name].samples += family.samples
            else:
                families[family.name] = family

    class Families:
        def collect(self) -> Iterator[Metric]:
            yield from families.values()

    return generate_latest(Families())


def read_families(path: Path) -> list[Metric]:
    """The metrics of a process that serves them on a socket; none if it does not run."""
    try:
        text = read_socket(path).decode()
    except (OSError, UnicodeDecodeError):
        return []
    return [family for family in text_string_to_metric_families(text) if not family.name.startswith(_PROCESS)]


def read_socket(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection, short_path(str(path)) as short:
        connection.settimeout(SOCKET_SECONDS)
        connection.connect(short)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def _forget_ended(directory: Path) -> None:
    """Gauges of ended workers are no longer true; their counts are added up, or each reload would leave files for good."""
    ended: dict[str, list[Path]] = {}
    for path in directory.glob("*.db"):
        kind, _, pid = path.stem.rpartition("_")
        if pid.isdigit() and int(pid) != ENDED and not Path("/proc", pid).exists():
            ended.setdefault(kind, []).append(path)
    for kind, paths in ended.items():
        if kind.startswith("gauge"):
            for path in paths:
                path.unlink(missing_ok=True)
        elif len(paths) > MAX_ENDED:
            try:
                _add_up(directory / f"{kind}_{ENDED}.db", paths)
            except OSError as error:  # such as a full disk: they stay, and are read one by one
                LOG.warning("metrics of ended workers cannot be added up: %s", error)


def _add_up(target: Path, paths: Iterable[Path]) -> None:
    """Add the counts of files to those of a file, and remove them."""
    sums = AllocatedDict(str(target))
    try:
        for path in paths:
            counts = [(key, value) for key, value, *_ in MmapedDict.read_all_values_from_file(str(path))]  # type: ignore[no-untyped-call]
            # All entries are created before one is changed: on a full disk, a file is added as a whole or not at all.
            known = {key: sums.read_value(key)[0] for key, _ in counts}  # type: ignore[no-untyped-call]
            for key, value in counts:
                sums.write_value(key, known[key] + value, 0.0)  # type: ignore[no-untyped-call]
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    finally:
        sums.close()  # type: ignore[no-untyped-call]
