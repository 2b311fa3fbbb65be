"""A copy of a DHCP port: it answers the ports of its own host, and nobody beyond it hears of it.

Several hosts have the same DHCP port, with the same MAC and addresses (`dhcp_distributed`). A request from a port here is
flooded to the ports here, the copy among them, and ends there: it is not also answered elsewhere. What the copy sends goes
to ports here or nowhere, else switches outside would find its MAC in several places. What comes from outside does not reach
it (see `integration`): that is for the host to which the network is scheduled.
"""

from __future__ import annotations

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import LocalNetwork, LocalPort
from neutrino.dataplane.openflow.api import Flow

_MULTICAST = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
_REQUESTS = ("udp,tp_src=68,tp_dst=67", "udp6,tp_src=546,tp_dst=547")
_BEYOND_PORTS_HERE = 13  # below the MACs of ports here, above what was learned or is not known


def render_copies(network: LocalNetwork, ports: tuple[LocalPort, ...]) -> tuple[Flow, ...]:
    copies = [port for port in ports if port.copy]
    if not copies:
        return ()
    outward, here = pipeline.ACCEPTED_EGRESS_NORMAL, f"{pipeline.REG_NET}={network.vlan}"
    return (
        *(outward.flow(_BEYOND_PORTS_HERE, f"in_port={port.ofport}", "drop") for port in copies),
        *(outward.flow(_BEYOND_PORTS_HERE, f"{request},{here},{_MULTICAST}", "drop") for request in _REQUESTS),
    )
