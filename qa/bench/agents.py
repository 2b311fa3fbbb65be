"""Agents that are registered and never connect: objects are scheduled to them as in production."""

from __future__ import annotations

import time
from typing import Any

from neutrino.model.agents import AGENT_MODE, DHCP, DHCP_PORT_BY_SERVER, L3, OVS, AgentState
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry

HOSTS = 5
_AHEAD = 24 * 3600  # they are alive for a day without reporting again


def register(connection: str) -> None:
    """Switches, DHCP agents and L3 agents on some hosts."""
    db = Database(connection)
    registry = Registry(db, clock=lambda: time.time() + _AHEAD)
    try:
        for number in range(HOSTS):
            switch = {"tunnel_types": ["vxlan"], "tunneling_ip": f"192.0.2.{number + 1}", "bridge_mappings": {}}
            kinds: dict[str, dict[str, Any]] = {
                OVS: switch,
                DHCP: {DHCP_PORT_BY_SERVER: True},
                L3: {AGENT_MODE: "legacy"},
            }
            registry.report_all(
                [
                    AgentState(kind, kind, f"host{number}", "topic", configurations=configurations, start_flag=True)
                    for kind, configurations in kinds.items()
                ]
            )
    finally:
        db.close()
