"""Reports of agents, as tests need them."""

from __future__ import annotations

import ipaddress
import zlib
from typing import Any

from neutrino.model.agents import DHCP, NIC_SWITCH, OVS, AgentState
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.main import Server

BINARIES = {OVS: "neutron-openvswitch-agent", DHCP: "neutron-dhcp-agent", NIC_SWITCH: "neutron-sriov-nic-agent"}


def report(server: Server, kind: str, host: str, zone: str | None = None, **configurations: Any) -> AgentReport:
    """One report, and what follows from it; gives what it meant."""
    state = AgentState(kind, BINARIES[kind], host, "topic", zone, configurations=configurations, start_flag=True)
    made = server.registry.report(state)
    server.scheduler.reported(made)
    return made


def switch(server: Server, host: str, **configurations: Any) -> AgentReport:
    """An Open vSwitch agent that reaches physnet1 and supports VXLAN, unless configured otherwise."""
    address = str(ipaddress.IPv4Address("198.18.0.0") + zlib.crc32(host.encode()) % 2**17)
    known = {"bridge_mappings": {"physnet1": "br-ex"}, "tunnel_types": ["vxlan"], "tunneling_ip": address}
    return report(server, OVS, host, **{**known, **configurations})


def set_clock(server: Server, ahead: float) -> None:
    """Let so many seconds pass for the registry."""
    real = server.registry.clock
    server.registry.clock = lambda: real() + ahead
