"""A client with minimal overhead: one keep-alive connection, standard library only.

A time is taken from the first byte sent to the last byte received; writing and reading JSON happens outside of it.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

_SUCCESS = frozenset({200, 201, 202, 204})


class LoadError(RuntimeError):
    """A request failed, so that its time is meaningless."""


@dataclass(frozen=True)
class Reply:
    """One response and its duration."""

    status: int
    content: bytes
    millis: float

    def json(self) -> Any:
        return json.loads(self.content)

    def item(self) -> dict[str, Any]:
        """The resource in the response."""
        (item,) = self.json().values()
        return dict(item)

    def items(self) -> list[dict[str, Any]]:
        """The resources of a list response, without its links."""
        lists = [value for key, value in self.json().items() if not key.endswith("_links")]
        (items,) = lists
        return list(items)


@dataclass(frozen=True)
class Target:
    """URL, headers and deadline of requests."""

    url: str
    headers: Mapping[str, str]
    deadline: float
    timeout: float = 120.0

    def until(self, deadline: float) -> Target:
        return Target(self.url, self.headers, deadline, self.timeout)


class Client:
    """One connection; not to be shared between threads."""

    def __init__(self, target: Target) -> None:
        parts = urllib.parse.urlsplit(target.url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"not an http URL: {target.url}")
        self.target = target
        self.reopened = 0
        self._base = parts.path.rstrip("/") + "/v2.0"
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=target.timeout)

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> Reply:
        return self.request("GET", path)

    def post(self, path: str, body: Any) -> Reply:
        return self.request("POST", path, body)

    def put(self, path: str, body: Any) -> Reply:
        return self.request("PUT", path, body)

    def delete(self, path: str, accept: Collection[int] = _SUCCESS) -> Reply:
        return self.request("DELETE", path, accept=accept)

    def request(self, method: str, path: str, body: Any = None, accept: Collection[int] = _SUCCESS) -> Reply:
        """Send a request. A status outside `accept`, or a passed deadline, is a LoadError."""
        if time.monotonic() > self.target.deadline:
            raise LoadError("out of time")
        headers = {"Accept": "application/json", **self.target.headers}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        started = time.perf_counter()
        try:
            status, content = self._send(method, self._base + path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise LoadError(f"{method} {path}: {error!r}") from error
        millis = (time.perf_counter() - started) * 1000
        if status not in accept:
            raise LoadError(f"{method} {path}: {status} {content[:300].decode(errors='replace')}")
        return Reply(status, content, millis)

    def _send(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        reused = self._connection.sock is not None
        try:
            return self._once(method, target, data, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._connection.close()
            if not reused:
                raise
        # The server had closed the idle connection; reconnecting is part of the time.
        self.reopened += 1
        return self._once(method, target, data, headers)

    def _once(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        self._connection.request(method, target, data, headers)
        response = self._connection.getresponse()
        return response.status, response.read()
