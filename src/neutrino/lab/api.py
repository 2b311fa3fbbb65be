"""The lab's side of the Networking API: a few requests, each with an answer or a LabError in the server's words."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from neutrino.lab.errors import LabError

Object = dict[str, Any]
SECONDS = 30.0


class Refused(LabError):
    """The server's answer to a request that it does not do."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        self.status = status
        self.kind = kind
        super().__init__(message)


class Api:
    def __init__(self, url: str) -> None:
        self.url = url

    # --- one object of a kind, as in `api.create("network", name="blue")` ---

    def create(self, kind: str, **values: Any) -> Object:
        made: Object = self.request("POST", _path(kind), {kind: values})[kind]
        return made

    def update(self, kind: str, key: str, **values: Any) -> Object:
        changed: Object = self.request("PUT", f"{_path(kind)}/{key}", {kind: values})[kind]
        return changed

    def show(self, kind: str, key: str) -> Object:
        found: Object = self.request("GET", f"{_path(kind)}/{key}")[kind]
        return found

    def delete(self, kind: str, key: str) -> None:
        self.request("DELETE", f"{_path(kind)}/{key}")

    def list(self, kind: str, **filters: str) -> list[Object]:
        query = f"?{urlencode(filters)}" if filters else ""
        found: list[Object] = self.request("GET", f"{_path(kind)}{query}")[several(kind)]
        return found

    def find(self, kind: str, name_or_id: str) -> Object:
        """By id, or by a name that only one has."""
        called = kind.replace("_", " ")
        found = self.list(kind, id=name_or_id) or self.list(kind, name=name_or_id)
        if not found:
            raise LabError(f"there is no {called} {name_or_id}")
        if len(found) > 1:
            raise LabError(f"{len(found)} {several(called)} are called {name_or_id}: name the one you mean by its id")
        return found[0]

    # --- requests ---

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Object:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=SECONDS)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise LabError(f"the API at {self.url} does not answer: {error}") from None
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise _refused(answer.status, content)
        decoded: Object = json.loads(content) if content else {}
        return decoded

    def answers(self) -> bool:
        try:
            self.request("GET", "/")
        except LabError:
            return False
        return True


def _refused(status: int, content: bytes) -> Refused:
    try:
        error = json.loads(content)["NeutronError"]
        return Refused(status, error["type"], error["message"])
    except (ValueError, LookupError, TypeError):
        return Refused(status, "", f"the API answered {status}: {content.decode(errors='replace')[:200]}")


def several(kind: str) -> str:
    return f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"


def _path(kind: str) -> str:
    return f"/v2.0/{several(kind).replace('_', '-')}"
