"""Hosts that serve DHCP, and the ports that they serve from, as tests need them."""

from __future__ import annotations

from typing import Any

from neutrino.model.agents import DHCP
from neutrino.server.main import Server
from tests.api.agents import report, switch
from tests.api.client import Api


def serve(server: Server, host: str) -> str:
    """A host with an L2 and a DHCP agent; the DHCP agent's id."""
    switch(server, host)
    return report(server, DHCP, host, dhcp_port_by_server=True).agent_id


def dhcp_ports(api: Api, network: dict[str, Any]) -> list[dict[str, Any]]:
    return api.all("/ports", {"network_id": network["id"], "device_owner": "network:dhcp"})
