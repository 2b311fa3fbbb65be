"""The metrics of one machine's server: the sums of its API workers, the feed's metrics and the supervisor's own.

Workers hold their metrics in files of a directory (`process.start_worker`), the feed in its memory, behind a socket in the
same directory. A family that several of them have appears once, as the text format requires.
"""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from neutrino import private
from neutrino.metrics import feed_socket
from neutrino.metrics.process import forget_ended


def prepare(directory: Path) -> None:
    """Create the directory, and remove the files of a server that ran before: its counts are not ours."""
    private.own_directory(directory)
    for path in directory.glob("*.db"):
        path.unlink(missing_ok=True)


class ServerMetrics:
    """Collector of the metrics of this process (`own`), of the workers and, unless this is the feed, of the feed."""

    def __init__(self, own: Collector, directory: Path, *, feed: bool = True) -> None:
        self._own, self._directory, self._feed = own, directory, feed

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for family in (*self._own.collect(), *self._workers(), *self._of_feed()):
            if family.name in families:
                families[family.name].samples += family.samples
            else:
                families[family.name] = family
        return families.values()

    def _workers(self) -> Iterable[Metric]:
        if not self._directory.is_dir():  # no worker has started yet
            return ()
        forget_ended(self._directory)
        collector = MultiProcessCollector(None, str(self._directory))  # type: ignore[no-untyped-call]
        return collector.collect()  # type: ignore[no-untyped-call,no-any-return]

    def _of_feed(self) -> Iterable[Metric]:
        return feed_socket.read(self._directory) if self._feed else ()
