"""A WSGI application that forwards each request to one of several real servers, and to another if that one is killed."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

SECONDS = 60.0  # how long a request is tried
AGAIN = (500, 502, 503)  # a server that stops, or a write that was retried to its limit


@dataclass
class Counts:
    requests: int = 0
    tried_again: int = 0
    slowest: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, tries: int, seconds: float) -> None:
        with self.lock:
            self.requests += 1
            self.tried_again += tries - 1
            self.slowest = max(self.slowest, seconds)


class Forward:
    """A WSGI application for tests that otherwise call the server's own. Each thread has connections of its own.

    An interrupted request may have been carried out: when a delete is repeated, the object may not exist any more.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._local = threading.local()
        self.counts = Counts()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, query = environ["REQUEST_METHOD"], environ["QUERY_STRING"]
        target = environ["PATH_INFO"] + (f"?{query}" if query else "")
        data = environ["wsgi.input"].read()
        headers = {"Content-Type": "application/json"}
        for name in ("X-Project-Id", "X-Roles", "X-User-Id"):
            headers[name] = environ["HTTP_" + name.upper().replace("-", "_")]
        started, tries = time.monotonic(), 0
        while True:
            tries += 1
            status, content = self._once(method, target, data, headers)
            if status and status not in AGAIN:
                break
            if time.monotonic() - started > SECONDS:
                raise TimeoutError(
                    f"{method} {target}: no server took it within {SECONDS:.0f} s, the last status was {status}"
                )
            time.sleep(random.random() * 0.1)
        if tries > 1 and method == "DELETE" and status == 404:
            status, content = 204, b""
        self.counts.add(tries, time.monotonic() - started)
        start_response(f"{status} ", [("Content-Type", "application/json")])
        return [content]

    def _once(self, method: str, target: str, data: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """The answer of one server; a status of 0 if there is none."""
        port = random.choice(self._ports)
        kept: dict[int, http.client.HTTPConnection] = self._local.__dict__.setdefault("kept", {})
        connection = kept.pop(port, None) or http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0, b""
        kept[port] = connection
        return answer.status, content
