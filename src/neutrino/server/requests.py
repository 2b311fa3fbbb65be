"""What is observed of every API request: its id, its log line and its metrics. The outermost WSGI middleware.

Same headers as oslo.middleware's request ids, whose class uses webob: parsing and writing each request and answer again was
a fifth of the time to show a port.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from neutrino import request_ids
from neutrino.metrics.catalog import REQUESTS
from neutrino.server.client_address import ClientAddress, peer

LOG = logging.getLogger(__name__)
# Names of oslo.middleware, which is not imported for them: it loads webob and jinja2.
ID_HEADER: Final = "x-openstack-request-id"
ID_VARIABLE: Final = "openstack.request_id"  # in the environment
CALLER_ID_VARIABLE: Final = "openstack.global_request_id"
CALLER_ID: Final = re.compile(r"req-[a-f0-9]{8}(-[a-f0-9]{4}){3}-[a-f0-9]{12}$")
Header = tuple[str, str]
Headers = Sequence[Header]
Failure = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]  # of WSGI
RESOURCE: Final = "neutrino.resource"  # in the environment: what a request is about, once its route is known
CLIENT: Final = "neutrino.client"  # in the environment: address of the client, which it cannot choose itself
OTHER: Final = "other"
METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
LINE: Final = '%s "%s %s %s" status: %s  len: %s time: %.7f'
_SECRET: Final = re.compile(r"((?:^|&)psk=)[^&]*")  # lists can be filtered by pre-shared keys, as in Neutron
ALL, WRITES, NONE = "all", "writes", "none"  # of log_requests


def observed(app: WSGIApplication, log_requests: str, address: ClientAddress = peer) -> WSGIApplication:
    """The application with a request id for every request, in the environment, the answer and the log lines.

    `address`: how the client's address is found.
    """
    callers = "HTTP_" + ID_HEADER.upper().replace("-", "_")
    no_caller = request_ids.CALLER.get()

    def handle(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        began = time.perf_counter()
        name = f"req-{uuid.uuid4()}"
        environ[ID_VARIABLE] = name
        environ[CLIENT] = address(environ)
        if CALLER_ID.match(environ.get(callers, "")):
            environ[CALLER_ID_VARIABLE] = environ[callers]
        answered = "500"  # if the application raises
        sent: Headers = ()

        def start(status: str, headers: list[Header], *rest: Failure | None) -> Callable[[bytes], object]:
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
                _log(environ, method, answered, sent, seconds)
            request_ids.CURRENT.reset(token)

    return handle


def _is_logged(log_requests: str, method: str, status: str) -> bool:
    """Whether a request is logged: by default no read, as its line would cost a tenth of its time."""
    if log_requests == WRITES:
        return method not in READS or status >= "400" or LOG.isEnabledFor(logging.DEBUG)
    return log_requests == ALL


def _log(environ: WSGIEnvironment, method: str, status: str, headers: Headers, seconds: float) -> None:
    """Write one line in the form of Neutron's, by which operators' tools recognise it."""
    query = _SECRET.sub(r"\1***", environ.get("QUERY_STRING", ""))
    path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}{'?' if query else ''}{query}"
    size = next((value for name, value in headers if name.lower() == "content-length"), "-")
    client, protocol = environ[CLIENT], environ.get("SERVER_PROTOCOL", "HTTP/1.1")
    LOG.info(LINE, *map(_printable, (client, method, path, protocol)), status, size, seconds)


def _printable(text: str) -> str:
    """No line of ours may be forged by texts of a client: a path is decoded, and NEL ends a line for some readers."""
    return text if text.isprintable() else ascii(text)
