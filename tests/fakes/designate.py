"""Designate's API v2 as far as the driver uses it: zones of projects and their record sets, over HTTP, in memory.

The token is an administrator's, who acts as another project with X-Auth-Sudo-Project-ID, as Designate has it.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from neutrino.model.objects import Object

TOKEN = "token-of-the-service"
SERVICE_PROJECT = "service"


@dataclass
class Zone:
    id: str
    name: str
    project_id: str
    email: str
    record_sets: dict[str, Object] = field(default_factory=dict)  # by id

    def shown(self) -> Object:
        return {"id": self.id, "name": self.name, "project_id": self.project_id, "email": self.email}


class Error(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


class FakeDesignate:
    """The service, with its HTTP server: a context manager."""

    def __init__(self) -> None:
        self.zones: dict[str, Zone] = {}
        self.is_down = False
        self.requests: list[tuple[str, str, str]] = []  # method, path, project
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"designate": self}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    # --- for tests ------------------------------------------------------------------------------------------------

    def add_zone(self, name: str, project_id: str, email: str = "admin@example.org") -> Zone:
        if any(name == zone.name for zone in self.zones.values()):
            raise Error(409, "duplicate_zone", "Duplicate Zone")
        zone = Zone(str(uuid.uuid4()), name, project_id, email)
        self.zones[zone.id] = zone
        return zone

    def look(self, name: str, type_: str = "A") -> set[str]:
        found = [one for zone in self.zones.values() for one in zone.record_sets.values()]
        return {value for one in found if (one["name"], one["type"]) == (name, type_) for value in one["records"]}

    def put(self, name: str, type_: str, values: set[str]) -> None:
        zone = next(zone for zone in self.zones.values() if name.endswith(f".{zone.name}"))
        self._create_record_set(zone, {"name": name, "type": type_, "records": sorted(values)})

    def wait(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Until the condition holds, which is checked after every request."""
        with self._changed:
            assert self._changed.wait_for(condition, seconds), self.requests

    # --- requests -------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, headers: Any) -> tuple[int, Object]:
        if self.is_down:
            raise Error(503, "service_unavailable", "down")
        if headers.get("X-Auth-Token") != TOKEN:
            raise Error(401, "unauthorized", "no token")
        project = headers.get("X-Auth-Sudo-Project-ID") or SERVICE_PROJECT
        with self._changed:
            self._changed.notify_all()
            self.requests.append((method, path, project))
            match [method, *path.strip("/").split("/")]:
                case ["GET", "v2", "zones"]:
                    own = [zone.shown() for zone in self.zones.values() if zone.project_id == project]
                    return 200, {"zones": [z for z in own if query.get("name", z["name"]) == z["name"]]}
                case ["POST", "v2", "zones"]:
                    if not body.get("email") or not body["name"].endswith("."):
                        raise Error(400, "invalid_object", "email and name with a dot at its end are required")
                    return 202, self.add_zone(body["name"], project, body["email"]).shown()
                case [_, "v2", "zones", zone_id, "recordsets", *rest]:
                    zone = self.zones.get(zone_id)
                    if zone is None or zone.project_id != project:
                        raise Error(404, "zone_not_found", "Could not find Zone")
                    return self._record_sets(method, zone, rest, query, body)
                case _:
                    raise Error(404, "not_found", path)

    def _record_sets(
        self, method: str, zone: Zone, rest: list[str], query: dict[str, str], body: Any
    ) -> tuple[int, Object]:
        if not rest and method == "GET":
            found = [
                one
                for one in zone.record_sets.values()
                if query.get("name", one["name"]) == one["name"] and query.get("type", one["type"]) == one["type"]
            ]
            return 200, {"recordsets": found}
        if not rest and method == "POST":
            return 201, self._create_record_set(zone, body)
        if rest and rest[0] not in zone.record_sets:
            raise Error(404, "recordset_not_found", "Could not find RecordSet")
        if rest and method == "PUT":
            if not body["records"]:
                raise Error(400, "invalid_object", "records must not be empty")
            zone.record_sets[rest[0]] |= {"records": body["records"]}
            return 200, zone.record_sets[rest[0]]
        if rest and method == "DELETE":
            return 202, zone.record_sets.pop(rest[0])
        raise Error(405, "method_not_allowed", method)

    def _create_record_set(self, zone: Zone, body: Object) -> Object:
        name, type_ = body["name"], body["type"]
        if not (name == zone.name or name.endswith(f".{zone.name}")) or not body["records"]:
            raise Error(400, "invalid_recordset_location", "RecordSet is not contained within its parent zone")
        if any((one["name"], one["type"]) == (name, type_) for one in zone.record_sets.values()):
            raise Error(409, "duplicate_recordset", "Duplicate RecordSet")
        made = {"id": str(uuid.uuid4()), "name": name, "type": type_, "records": list(body["records"])}
        zone.record_sets[made["id"]] = made
        return made


class _Handler(BaseHTTPRequestHandler):
    designate: FakeDesignate
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        try:
            status, answer = self.designate.answer(
                self.command, parts.path, dict(parse_qsl(parts.query)), body, self.headers
            )
        except Error as error:
            status, answer = error.status, {"code": error.status, "type": error.kind, "message": error.message}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _handle

    def log_message(self, format: str, *args: Any) -> None:
        """No output."""
