"""Client of a server without authentication, in the name of one of the recording's users.

Such a server takes project, user and roles from headers. The projects are new in every run, so that a recording can be
put to one server more than once.
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
import uuid
from types import TracebackType
from typing import Any

from tests.conformance.recording.exchange import Names, Step

# actor -> first digits of the project, roles. Alice and Carol share project A; Bob has project B.
_PEOPLE = {
    "admin": ("ad", "admin,manager,member,reader"),
    "alice": ("aa", "member,reader"),
    "carol": ("aa", "reader"),
    "bob": ("bb", "member,reader"),
    "nova": ("cc", "service"),
}


class Cast:
    """The people of one run: their projects and the headers that make them known."""

    def __init__(self) -> None:
        tail = uuid.uuid4().hex[:30]
        self._projects = {actor: digits + tail for actor, (digits, _) in _PEOPLE.items()}

    def names(self) -> Names:
        """The names that the recording takes for granted."""
        project = self._projects
        return Names({"project_admin": project["admin"], "project_a": project["alice"], "project_b": project["bob"]})

    def headers(self, actor: str) -> dict[str, str]:
        return {"X-Project-Id": self._projects[actor], "X-User-Id": actor, "X-Roles": _PEOPLE[actor][1]}


class Asker:
    """One kept-alive connection to the server under test."""

    def __init__(self, url: str, cast: Cast, timeout: float = 60.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"not an http URL: {url}")
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout)
        self._prefix = parts.path.rstrip("/")
        self._cast = cast

    def __enter__(self) -> Asker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ask(self, step: Step, names: Names) -> tuple[int, Any]:
        """Status and parsed body of the answer; what the step saves is learnt."""
        headers = {"Accept": "application/json", **self._cast.headers(step.actor)}
        data: bytes | None = None
        if step.raw is not None:
            data, headers["Content-Type"] = step.raw.encode(), step.ctype
        elif step.body is not None:
            data, headers["Content-Type"] = names.fill(json.dumps(step.body)).encode(), "application/json"
        headers.update({key: names.fill(value) for key, value in step.headers.items()})
        status, content = self._exchange(step.method, self._prefix + names.fill(step.path), data, headers)
        answer = _parsed(content)
        names.learn(step, answer)
        return status, answer

    def _exchange(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        reused = self._connection.sock is not None
        try:
            return self._once(method, target, data, headers)
        except (http.client.HTTPException, ConnectionError):
            self._connection.close()
            if not reused:
                raise
        # The server had closed the idle connection.
        return self._once(method, target, data, headers)

    def _once(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        self._connection.request(method, target, data, headers)
        response = self._connection.getresponse()
        return response.status, response.read()


def _parsed(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return {"<not json>": content.decode(errors="replace")[:200]}
