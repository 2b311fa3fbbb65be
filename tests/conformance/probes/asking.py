"""How probes ask, and the types that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neutrino.model.objects import Object
from tests.conformance.server import ROLES, LiveServer

Shown = dict[str, Object]
Probe = Callable[[LiveServer, Shown], None]


def by_own_id(server: LiveServer, type_: str, key: str) -> Object:
    found: Object = server.ask("GET", f"/v2.0/qos/alias_{type_}_rules/{key}")[f"alias_{type_}_rule"]
    return found


def bindings_of(server: LiveServer, port_id: str) -> list[Object]:
    status, answer = server.exchange("GET", f"/v2.0/ports/{port_id}/bindings", headers={"X-Roles": "service"})
    assert status == 200, answer
    found: list[Object] = answer["bindings"]
    return found


def refused(server: LiveServer, method: str, path: str, body: Any = None, status: int = 400) -> None:
    got, answer = server.exchange(method, path, body)
    assert got == status, answer
    assert answer["NeutronError"]["message"]


def ids(server: LiveServer, path: str) -> list[str]:
    (listed,) = (value for key, value in server.ask("GET", f"/v2.0/{path}").items() if not key.endswith("_links"))
    return [item["id"] for item in listed]


def created_port(server: LiveServer, shown: Shown, **values: Any) -> Object:
    """A new port as it is shown; it is deleted again."""
    body = {"port": {"network_id": shown["networks"]["id"], **values}}
    status, answer = server.exchange("POST", "/v2.0/ports", body, {"X-Roles": f"{ROLES},service"})
    assert status == 201, answer
    port: Object = server.ask("GET", f"/v2.0/ports/{answer['port']['id']}")["port"]
    server.ask("DELETE", f"/v2.0/ports/{port['id']}")
    return port
