"""The document of GET /v2.0/status: pages of hosts."""

from __future__ import annotations

from typing import Any

from neutrino.model.agents import DHCP, OVS
from neutrino.server.status.document import Page, document
from neutrino.server.status.facts import Facts


def agent(host: str, kind: str) -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    row = {
        "id": f"{host}-{kind}",
        "agent_type": kind,
        "host": host,
        "availability_zone": "nova",
        "admin_state_up": True,
    }
    return {**row, "started_at": at, "heartbeat_timestamp": at, "configurations": {}}


def facts(agents: list[dict[str, Any]]) -> Facts:
    return Facts(
        now=0.0,
        dialect="mysql",
        server_version="",
        round_trip=0.0,
        schema="1",
        position=0,
        removed=0,
        pending=0,
        processes=[],
        agents=agents,
        ports=[],
        networks={},
        subnets=0,
        routers=[],
        ha_routers={},
        floatingips={},
        named={},
    )


def test_pages_have_each_host_once_whatever_the_collation_of_the_database() -> None:
    """A collation that ignores case sorts "a", "B", "c", and rows of "H1" and "h1" by their second column."""
    rows = [agent(host, OVS) for host in ("a", "B", "c", "D")]
    rows += [agent("h1", DHCP), agent("H1", DHCP), agent("h1", OVS), agent("H1", OVS)]
    found: list[str] = []
    marker = ""
    for _ in range(len(rows)):
        shown = document(facts(rows), [], 75.0, "1", Page(limit=2, marker=marker))
        assert shown["hosts_total"] == 6
        found += [host["name"] for host in shown["hosts"]]
        assert shown["hosts_left"] == 6 - len(found)
        if not shown["hosts_left"]:
            break
        marker = found[-1]
    assert found == ["B", "D", "H1", "a", "c", "h1"]
