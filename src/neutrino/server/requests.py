"""What is observed of every API request: its id, its log line and its metrics. The outermost WSGI middleware.

Same headers as oslo.middleware's request ids, whose class uses webob: parsing and writing each request and answer again was
a fifth of the time to show a port.
"""

import ipaddress
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Any, Final

from neutrino import request_ids
from neutrino.metrics.catalog import REQUESTS

LOG = logging.getLogger(__name__)
# Names of oslo.middleware, which is not imported for them: it loads webob and jinja2.
ID_HEADER: Final = "x-openstack-request-id"
ID_VARIABLE: Final = "openstack.request_id"  # in the environment
CALLER_ID_VARIABLE: Final = "openstack.global_request_id"
CALLER_ID: Final = re.compile(r"req-[a-f0-9]{8}(-[a-f0-9]{4}){3}-[a-f0-9]{12}$")
Headers = Sequence[tuple[str, str]]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Any]
RESOURCE: Final = (
    "neutrino.resource"  # in the environment: the resource that a request is about, once its route is known
)
CLIENT: Final = "neutrino.client"  # in the environment: address of the client, which it cannot choose itself
FORWARDED_FOR: Final = "HTTP_X_FORWARDED_FOR"
OTHER: Final = "other"
METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
LINE: Final = '%s "%s %s %s" status: %s  len: %s time: %.7f'
_SECRET: Final = re.compile(r"((?:^|&)psk=)[^&]*")  # lists can be filtered by pre-shared keys, as in Neutron
MAX_LINES: Final = 10_000  # that wait to be written; beyond, a request writes its own
CLOSE_SECONDS: Final = 5.0  # at the end of a worker
GATHER_SECONDS: Final = 0.02  # lines within this time are written together: a thread that wakes up interrupts a request
ALL, WRITES, NONE = "all", "writes", "none"  # of log_requests


def observed(app: Wsgi, log_requests: str, behind_proxy: bool = False) -> Wsgi:
    """The application with a request id for every request, in the environment, the answer and the log lines.

    `behind_proxy`: the client's address is the one that the proxy has added to X-Forwarded-For.
    """
    callers = "HTTP_" + ID_HEADER.upper().replace("-", "_")
    no_caller = request_ids.CALLER.get()
    lines = _Writer()

    def handle(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        began = time.perf_counter()
        name = f"req-{uuid.uuid4()}"
        environ[ID_VARIABLE] = name
        environ[CLIENT] = _client(environ, behind_proxy)
        if CALLER_ID.match(environ.get(callers, "")):
            environ[CALLER_ID_VARIABLE] = environ[callers]
        answered = "500"  # if the application raises
        sent: Headers = ()

        def start(status: str, headers: Headers, *rest: Any) -> Any:
            nonlocal answered, sent
            answered, sent = status[:3], headers
            return start_response(status, [*headers, (ID_HEADER, name)], *rest)

        token = request_ids.CURRENT.set(name)
        for caller in (request_ids.CALLER, request_ids.CALLER_NAMES):
            caller.set(no_caller)  # of the thread's last request
        try:
            return app(environ, start)
        finally:
            seconds = time.perf_counter() - began
            method = environ["REQUEST_METHOD"]
            resource = environ.get(RESOURCE, OTHER)
            REQUESTS.observe(seconds, resource, method if method in METHODS else OTHER, f"{answered[0]}xx")
            if _is_logged(log_requests, method, answered):
                lines.put(_record(environ, method, answered, sent, seconds))
            request_ids.CURRENT.reset(token)

    return handle


def _client(environ: dict[str, Any], behind_proxy: bool) -> str:
    """The peer of the connection, or the last address of X-Forwarded-For: the nearest proxy wrote it, the client the rest.

    Not REMOTE_ADDR after oslo's proxy middleware, which prefers the first address of Forwarded: clients choose that one.
    """
    peer = str(environ.get("REMOTE_ADDR") or "-")
    if not behind_proxy:
        return peer
    last = environ.get(FORWARDED_FOR, "").rpartition(",")[2].strip()
    try:
        # A zone ("fe80::1%…") could be any text.
        return peer if "%" in last else str(ipaddress.ip_address(last))
    except ValueError:
        return peer


def _is_logged(log_requests: str, method: str, status: str) -> bool:
    """By default writes and failures: a line for each read would cost a tenth of its time."""
    if log_requests == WRITES:
        return method not in READS or status >= "400" or LOG.isEnabledFor(logging.DEBUG)
    return log_requests == ALL


def _record(environ: dict[str, Any], method: str, status: str, headers: Headers, seconds: float) -> logging.LogRecord:
    """One line in the form of Neutron's, by which operators' tools recognise it."""
    query = _SECRET.sub(r"\1***", environ.get("QUERY_STRING", ""))
    path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}{'?' if query else ''}{query}"
    size = next((value for name, value in headers if name.lower() == "content-length"), "-")
    client, protocol = environ[CLIENT], environ.get("SERVER_PROTOCOL", "HTTP/1.1")
    args = (*map(_printable, (client, method, path, protocol)), status, size, seconds)
    # Not `LOG.info`, which looks for the line of source that it was called from: a quarter of the time.
    return LOG.makeRecord(LOG.name, logging.INFO, __file__, 0, LINE, args, None)


def _printable(text: str) -> str:
    """No line of ours may be forged by texts of a client: a path is decoded, and NEL ends a line for some readers."""
    return text if text.isprintable() else ascii(text)


class _Writer:
    """Formats and writes the lines in a thread, while the worker waits for its next request or for the database.

    A line takes oslo.log as long as a twentieth of creating a port. The record has the request's id and time already.
    """

    def __init__(self) -> None:
        self._lines: SimpleQueue[logging.LogRecord | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def put(self, record: logging.LogRecord) -> None:
        if not LOG.isEnabledFor(logging.INFO):
            return
        if self._pid != os.getpid():  # the first line of this process, which was forked
            self._pid = os.getpid()
            self._thread = threading.Thread(target=self._write, daemon=True, name="request log")
            self._thread.start()
            # Of multiprocessing: granian's workers run no atexit handlers, and other WSGI servers run these as such.
            Finalize(None, self.close, exitpriority=0)
        if self._thread is None or self._lines.qsize() >= MAX_LINES:
            LOG.handle(record)  # the request waits for the log: it is slower than requests arrive, or closed
        else:
            self._lines.put(record)

    def close(self) -> None:
        """Write the lines that wait; later ones are written at once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._lines.put(None)
            thread.join(CLOSE_SECONDS)

    def _write(self) -> None:
        for record in iter(self._lines.get, None):
            LOG.handle(record)
            if self._lines.empty():
                time.sleep(GATHER_SECONDS)
