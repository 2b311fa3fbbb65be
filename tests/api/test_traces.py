"""Packet traces: `POST /v2.0/traces` on real objects, who may trace what, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.l3 import inside

Object = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def hosts(server: Server) -> None:
    for host in ("trace-1", "trace-2"):
        switch(server, host)


def instance(api: Api, server: Server, network: Object, host: str = "trace-1", **values: Any) -> Object:
    """A port that is bound and wired."""
    port = api.make("port", network_id=network["id"], device_owner="compute:nova", **values)
    api.as_admin().change("port", port["id"], **{"binding:host_id": host})
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.ports).where(t.ports.c.id == port["id"]).values(status="ACTIVE"))
    return port


def trace(api: Api, **values: Any) -> Object:
    made: Object = api.post("/traces", {"trace": values}).expect(201).body["trace"]
    return made


def kinds(made: Object, steps: str = "steps") -> list[str]:
    return [step["kind"] for step in made[steps]]


def test_between_two_ports_of_a_network(api: Api, server: Server) -> None:
    network, _ = inside(api)
    one, two = instance(api, server, network), instance(api, server, network, "trace-2")
    made = trace(api, source_port_id=one["id"], destination_port_id=two["id"])
    assert (made["verdict"], made["cause"], made["return_verdict"]) == ("delivered", "", "delivered"), made
    assert made["summary"] == "The packet is delivered."
    assert kinds(made) == [
        "port",
        "anti-spoofing",
        "security-group-egress",
        "tunnel",
        "port",
        "security-group-ingress",
        "delivered",
    ]
    assert made["hosts"] == {}
    assert {step["host"] for step in made["steps"]} == {""}
    seen = trace(api.as_admin(), source_port_id=one["id"], destination_port_id=two["id"])
    assert set(seen["hosts"]) == {"trace-1", "trace-2"}
