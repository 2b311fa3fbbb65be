"""Where Prometheus reads metrics: GET /metrics on a listener of its own, in a thread.

There is no authentication, so the default is loopback; elsewhere it needs TLS, or has to be allowed explicitly. On loopback
requests for names of other machines are refused: a web page can make its own name resolve to 127.0.0.1 (DNS rebinding), and
read metrics by the browser of a user of this machine.

Several processes of one machine may have the same address: the first one serves it, the others log that and continue.
"""

import contextlib
import ipaddress
import logging
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any, Final

from oslo_config import cfg
from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.registry import Collector

from neutrino.errors import RefusedToStart
from neutrino.tls import ReloadingContext, reloading_context

LOG = logging.getLogger(__name__)
CLIENT_SECONDS: Final = 10.0  # for a whole request
MAX_CONNECTIONS: Final = 16  # each has a thread; Prometheus uses one
PORT: Final = re.compile(r":\d*$")


def options(default: str) -> Sequence[cfg.Opt]:
    """The options of [metrics], with the default address of the process."""
    return [
        cfg.StrOpt("bind", default=default, help="host:port that Prometheus reads metrics from; empty: no metrics."),
        cfg.StrOpt(
            "tls_cert_file", default=None, help="Certificate of that listener; without one it serves plain HTTP."
        ),
        cfg.StrOpt("tls_key_file", default=None, help="Its key."),
        cfg.BoolOpt(
            "allow_plain_beyond_loopback",
            default=False,
            help="Serve metrics without TLS on an address that other machines reach. Metrics name hosts and bridges.",
        ),
    ]


def address(conf: cfg.ConfigOpts) -> tuple[str, int] | None:
    """Where to listen; None: metrics are off. RefusedToStart for an address that is not usable."""
    text = conf.metrics.bind.strip()
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise RefusedToStart(f"[metrics] bind={text} is not host:port, such as 127.0.0.1:9699")
    if bool(conf.metrics.tls_cert_file) != bool(conf.metrics.tls_key_file):
        raise RefusedToStart("[metrics] tls_cert_file and tls_key_file have to be set together")
    if not (_is_loopback(host) or conf.metrics.tls_cert_file or conf.metrics.allow_plain_beyond_loopback):
        raise RefusedToStart(
            f"[metrics] bind={text} is reachable from other machines: set tls_cert_file and tls_key_file, or "
            "allow_plain_beyond_loopback=true"
        )
    _context(conf)  # for its errors
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _context(conf: cfg.ConfigOpts) -> ReloadingContext | None:
    options = conf.metrics
    return (
        reloading_context(options.tls_cert_file, options.tls_key_file, group="metrics")
        if options.tls_cert_file
        else None
    )


class _Server(ThreadingHTTPServer):
    """A thread for each connection, limited in number and time. With TLS, changed files are used for new connections."""

    daemon_threads = True
    # Of several servers of a machine one listens. Without it, the kernel would refuse a restart for a minute.
    allow_reuse_address = True

    def __init__(self, where: tuple[str, int], conf: cfg.ConfigOpts, collector: Collector) -> None:
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        self._context = _context(conf)
        self._bound = where[0].lower()
        self._lock = threading.Lock()
        self._ends: dict[Any, float] = {}  # open connections, until when each may last
        registry = CollectorRegistry(support_collectors_without_names=True)
        registry.register(collector)
        super().__init__(where, _Handler.factory(registry))

    def get_request(self) -> tuple[Any, Any]:
        connection, client = super().get_request()
        connection.settimeout(CLIENT_SECONDS)
        if self._context is not None:
            # The handshake is left to the handler's thread: a client that stalls must not hold up others.
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, client

    def is_served(self, host: str) -> bool:
        """Whether requests with this Host header are answered. Without the header it is no browser."""
        name = PORT.sub("", host.strip()).strip("[]").lower()
        return not name or not _is_loopback(self._bound) or name == self._bound or _is_loopback(name)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._ends) >= MAX_CONNECTIONS:  # not the new one: clients that never ask would keep Prometheus out
                oldest = min(self._ends, key=self._ends.__getitem__)
                del self._ends[oldest]
                _shut_down(oldest)
            self._ends[request] = time.monotonic() + CLIENT_SECONDS
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        with self._lock:  # `service_actions` must not shut down a later connection with the same file descriptor
            self._ends.pop(request, None)
            super().close_request(request)

    def service_actions(self) -> None:
        """Called twice a second: ends late requests, and logs TLS files that cannot be used also if nobody reads metrics.

        The timeout of the socket does not end a client that sends a byte now and then.
        """
        now = time.monotonic()
        with self._lock:
            for request in [request for request, ends in self._ends.items() if ends <= now]:
                _shut_down(request)
        if self._context is not None:
            self._context.watch.check()

    def handle_error(self, request: object, client_address: object) -> None:
        LOG.debug("a request for metrics of %s failed", client_address, exc_info=True)


def _shut_down(request: Any) -> None:
    """End a connection that another thread serves. Not by TLS's own shutdown, which changes the object that it is using."""
    with contextlib.suppress(OSError):  # the client has disconnected
        socket.socket.shutdown(request, socket.SHUT_RDWR)


class _Handler(MetricsHandler):
    """prometheus_client's handler, for one path and the names of this machine."""

    server: _Server
    server_version = "neutrino"
    sys_version = ""

    def do_GET(self) -> None:
        if not all(map(self.server.is_served, self.headers.get_all("Host", ()))):
            self.send_error(HTTPStatus.FORBIDDEN, explain="Host is not a name of this machine's loopback interface.")
        elif self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, explain="Metrics are at /metrics.")
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        LOG.debug(format, *args)


@contextlib.contextmanager
def serving(conf: cfg.ConfigOpts, collector: Collector) -> Iterator[None]:
    """Serve metrics in a thread until the end of the block; without them if the address is in use."""
    where = address(conf)
    if where is None:
        yield
        return
    try:
        server = _Server(where, conf, collector)
    except OSError as error:
        LOG.warning(
            "metrics are not served on %s: %s; [metrics] bind sets another address", conf.metrics.bind,
            error.strerror or error,
        )  # fmt: skip
        yield
        return
    LOG.info(
        "metrics are served on %s://%s/metrics", "https" if conf.metrics.tls_cert_file else "http", conf.metrics.bind
    )
    with running(server):
        yield


@contextlib.contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    """Serve in a thread until the end of the block."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True, name="metrics").start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
