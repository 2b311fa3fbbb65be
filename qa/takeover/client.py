"""A client of the Networking API as an administrator, for building a cloud."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

SECONDS = 120.0


@dataclass(frozen=True)
class Client:
    url: str
    project: str

    def of(self, project: str) -> Client:
        return Client(self.url, project)

    def call(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(  # the URL is that of a server started here
            f"{self.url}/v2.0/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "X-Project-Id": self.project,
                "X-User-Id": "recorder",
                "X-Roles": "admin,member,reader,service",
                "Content-Type": "application/json",
            },
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                data = answer.read()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from error
        return json.loads(data) if data else None

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def put(self, path: str, kind: str, **values: object) -> Any:
        return self.call("PUT", path, {kind: _attributes(values)})[kind]

    def make(self, path: str, kind: str, **values: object) -> Any:
        """Create an object; colons of attributes are written as double underscores."""
        return self.call("POST", path, {kind: _attributes(values)})[kind]


def _attributes(values: dict[str, object]) -> dict[str, object]:
    return {name.replace("__", ":"): value for name, value in values.items()}
