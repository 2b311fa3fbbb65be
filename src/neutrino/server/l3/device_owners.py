"""What a port is of a router: the words that operators find in `device_owner`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

INTERFACE: Final = "network:router_interface"
HA_INTERFACE: Final = "network:ha_router_replicated_interface"
DVR_INTERFACE: Final = "network:router_interface_distributed"
SNAT: Final = "network:router_centralized_snat"
GATEWAY: Final = "network:router_gateway"
HA_PORT: Final = "network:router_ha_interface"
FLOATING: Final = "network:floatingip"
AGENT_GATEWAY: Final = "network:floatingip_agent_gateway"

INTERFACES: Final = (INTERFACE, HA_INTERFACE, DVR_INTERFACE)
# Ports that go with their router, or their floating IP, and not by themselves.
OF_ROUTERS: Final = (*INTERFACES, SNAT, GATEWAY, HA_PORT)


def interface_owner(router: Mapping[str, Any]) -> str:
    """What the ports on a router's own subnets are."""
    if router["distributed"]:
        return DVR_INTERFACE
    return HA_INTERFACE if router["ha"] else INTERFACE
