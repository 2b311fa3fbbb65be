"""Values of `device_owner` of the ports of routers and floating IPs, as Neutron has them."""

from typing import Final

INTERFACE: Final = "network:router_interface"
HA_INTERFACE: Final = "network:ha_router_replicated_interface"
DVR_INTERFACE: Final = "network:router_interface_distributed"
INTERFACES: Final = (INTERFACE, HA_INTERFACE, DVR_INTERFACE)  # by the kind of the router
SNAT: Final = "network:router_centralized_snat"
GATEWAY: Final = "network:router_gateway"
HA_PORT: Final = "network:router_ha_interface"
FLOATING: Final = "network:floatingip"
AGENT_GATEWAY: Final = "network:floatingip_agent_gateway"
