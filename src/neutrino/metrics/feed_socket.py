"""The socket by which a server reads the metrics of its feed process, which are evaluated when they are asked for."""

import contextlib
import logging
import socket
import socketserver
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from neutrino.feed.address import short_path
from neutrino.metrics.listener import CLIENT_SECONDS, running

LOG = logging.getLogger(__name__)
NAME: Final = "feed.sock"
READ_SECONDS: Final = 5.0
_PROCESS: Final = "process_"  # metrics of a process itself, which the server has too


@contextlib.contextmanager
def serving(directory: Path, registry: Collector) -> Iterator[None]:
    """Send the metrics to each connection to a socket in this directory, for other processes of this user."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(CLIENT_SECONDS)
            self.request.sendall(generate_latest(registry))

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            LOG.debug("metrics could not be written to the socket", exc_info=True)

    path = directory / NAME
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)  # of a process that was killed
        with short_path(str(path)) as short:
            server = Server(short, Handler)
    except OSError as error:
        LOG.warning("metrics are not served on %s: %s", path, error.strerror or error)
        yield
        return
    try:
        with running(server):
            yield
    finally:
        path.unlink(missing_ok=True)


def read(directory: Path) -> list[Metric]:
    """Return the metrics of the feed process that serves them in this directory; none if it does not run."""
    try:
        with socket.socket(socket.AF_UNIX) as connection, short_path(str(directory / NAME)) as short:
            connection.settimeout(READ_SECONDS)
            connection.connect(short)
            text = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
    except (OSError, UnicodeDecodeError):
        return []
    return [family for family in text_string_to_metric_families(text) if not family.name.startswith(_PROCESS)]
