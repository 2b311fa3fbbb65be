"""Every kind of object that the feed carries, by the name that it has on the wire."""

from __future__ import annotations

from neutrino.model import state
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import Object

KINDS: dict[str, type[Object]] = {
    **state.KINDS,
    "dhcp_network": DhcpNetwork,
    "dhcp_port": DhcpPort,
    "router": Router,
}
