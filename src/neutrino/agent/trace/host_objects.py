"""The server's objects on this host, as far as a packet in a namespace needs them: ports of namespaces, MACs, routers."""

import dataclasses
from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from typing import Any

from neutrino.agent.dhcp.network import NAMESPACE_PREFIX
from neutrino.agent.l3.names import AGENT_GATEWAY, HA, device, fip_namespace, gateway_namespace
from neutrino.agent.l3.role import L3Role
from neutrino.agent.l3.router import router_namespaces
from neutrino.agent.runtime.role import RoleFeed
from neutrino.agent.trace.owners import NOBODY, Owner
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.values import HOST
from neutrino.model.routing import Router, RouterInterface

DHCP_OWNER = "network:dhcp"
_TAP_LENGTH = 14


@dataclasses.dataclass(frozen=True)
class HostObjects:
    """`l3` and `serves_dhcp`: the roles of this agent. Blocking where devices or daemons are looked at."""

    feed: RoleFeed
    netlink: Netlink
    l3: L3Role | None = None
    serves_dhcp: bool = False

    def find(self, port_id: str) -> tuple[str, str] | None:
        """The namespace and the device of a port that a role of this agent has plugged."""
        for namespace, name, interface in self._devices():
            if interface.id == port_id:
                return namespace, name
        port = self.feed.state.objects["port"].get(port_id)
        if port is None or port.device_owner != DHCP_OWNER or not self.serves_dhcp:
            return None
        tap = f"tap{port_id}"[:_TAP_LENGTH]
        pair = self.netlink.read_device(HOST, tap)  # an internal port is in the namespace itself
        return f"{NAMESPACE_PREFIX}{port.network_id}", pair.peer if pair is not None and pair.peer else tap

    def find_mac(self, namespace: str, name: str, address: str) -> str:
        """The MAC of an address on the network of a device, by the server's ports; empty: no port has the address."""
        network_id = next(
            (port.network_id for where, own, port in self._devices() if (where, own) == (namespace, name)), ""
        )
        if not network_id:
            return ""
        objects = self.feed.state.objects
        paired = ""
        for kind in ("port", "dhcp_port", "forwarding"):
            for each in list(objects.get(kind, {}).values()):
                if each.network_id != network_id:
                    continue
                if address in _addresses(each):
                    return str(each.mac_address).lower()
                paired = paired or _paired(each, address)
        return paired

    def find_translation(self, outside: str, inside: str) -> Owner:
        """The floating IP or port forwarding between an external and an internal address."""
        for router in self._routers():
            for floating in router.floating_ips:
                if (floating.floating_ip_address, floating.fixed_ip_address) == (outside, inside):
                    return "floatingip", floating.id
            for forwarding in router.port_forwardings:
                if (forwarding.external_ip_address, forwarding.internal_ip_address) == (outside, inside):
                    return "port_forwarding", forwarding.id
        return NOBODY

    def is_standby(self, namespace: str) -> bool:
        router = self._router_of(namespace)
        if router is None or router.ha is None or self.l3 is None or gateway_namespace(router) != namespace:
            return False
        return not self.l3.routers.is_active(router)

    def find_changes(self, router_id: str) -> Sequence[str]:
        """Planned changes of a router that this host serves."""
        if self.l3 is None:
            return ()
        router = next((each for each in self.l3.desired.served() if each.id == router_id), None)
        return self.l3.routers.find(router) if router is not None else ()

    def _router_of(self, namespace: str) -> Router | None:
        return next((router for router in self._routers() if namespace.endswith(router.id)), None)

    def _routers(self) -> list[Router]:
        return self.l3.desired.served() if self.l3 is not None else []

    def _devices(self) -> Iterator[tuple[str, str, RouterInterface]]:
        """Namespace, device and port of everything that routers have on this host."""
        for router in self._routers():
            assert self.l3 is not None
            for namespace in router_namespaces(router, self.l3.routers.options):
                yield from ((namespace.name, name, port) for name, port in namespace.ports.items())
            if (gateway := router.agent_gateway) is not None:
                yield fip_namespace(gateway.network_id), device(AGENT_GATEWAY, gateway.id), gateway
            if router.ha is not None:
                yield gateway_namespace(router), device(HA, router.ha.interface.id), router.ha.interface


def _addresses(each: object) -> Iterator[str]:
    fixed = getattr(each, "fixed_ips", ())
    yield from (item.ip_address for item in fixed)
    yield from getattr(each, "ip_addresses", ())


def _paired(each: Any, address: str) -> str:
    """The MAC of an allowed address pair of one address."""
    for pair in getattr(each, "allowed_address_pairs", ()):
        network = ip_network(pair.ip_address, strict=False)
        if network.num_addresses == 1 and str(network.network_address) == address:
            return str(pair.mac_address or each.mac_address).lower()
    return ""
