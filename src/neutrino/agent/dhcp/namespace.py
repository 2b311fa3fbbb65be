"""The DHCP namespace of a network: its device, addresses and routes. Pure.

The device is `tap` and the start of the port's id. On the userspace datapath of Open vSwitch, or with `ovs_use_veth`, it
is a veth pair: `tap…` on the bridge and `ns-…` in the namespace, as an internal port does not survive a restart of
ovs-vswitchd there.
"""

import dataclasses
import ipaddress
from collections.abc import Iterator
from typing import Final

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.extension_api import DEVICE_PREFIX, Contribution, device_name, plugged_name
from neutrino.agent.dhcp.network import SLAAC, STATELESS, ServedNetwork
from neutrino.agent.namespaces import LOOPBACK, DesiredDevice, Plug
from neutrino.dataplane.netlink.values import Route, address, route
from neutrino.model.state import Subnet

METADATA_IPV4: Final = "169.254.169.254/32"
METADATA_IPV6: Final = "fe80::a9fe:a9fe/128"
SYSCTLS: Final = {"net/ipv6/conf/default/accept_ra": "0"}  # RAs would add addresses and routes besides ours
PREFIXES: Final = ("tap", "ns-", DEVICE_PREFIX)


def mark(network_id: str) -> str:
    """Of the switch port in OVSDB: by it an agent that has lost its memory recognises the port as its own."""
    return f"dhcp:{network_id}"


def render_plug(network: ServedNetwork, settings: DhcpSettings) -> Plug:
    own = network.own
    assert own is not None
    return Plug(
        bridge=settings.integration_bridge,
        name=plugged_name(network),
        port_id=own.id,
        mac=own.mac_address,
        internal=not settings.use_veth,
        mark=mark(network.id),
    )


def contribute(network: ServedNetwork, settings: DhcpSettings) -> Contribution:
    own = network.own
    assert own is not None
    name = device_name(network, settings)
    device = DesiredDevice(name, mac=own.mac_address, mtu=network.network.mtu)
    if settings.use_veth:
        # Without tx_checksum=False replies leave with a partial checksum, and clients drop them.
        device = dataclasses.replace(device, peer=plugged_name(network), tx_checksum=False)
    return Contribution(
        devices=(LOOPBACK, device),
        addresses=tuple(address(name, text, nodad=True) for text in _addresses(network, settings)),
        routes=tuple(_routes(network, settings, name)),
        sysctls=SYSCTLS,
    )


def _addresses(network: ServedNetwork, settings: DhcpSettings) -> Iterator[str]:
    for subnet in network.dhcp_subnets:
        here = subnet.gateway_ip if settings.use_gateway_ips else network.own_address(subnet.id)
        if here is not None:
            yield f"{here}/{ipaddress.ip_network(subnet.cidr).prefixlen}"
    if settings.force_metadata or settings.enable_isolated_metadata:
        yield METADATA_IPV4  # the metadata proxy listens on it in this namespace
        if any(subnet.ip_version == 6 for subnet in network.network.subnets):
            yield METADATA_IPV6


def _routes(network: ServedNetwork, settings: DhcpSettings, name: str) -> Iterator[Route]:
    """A default route per family, through the gateway of the first subnet that has one."""
    for version, anywhere in ((4, "0.0.0.0/0"), (6, "::/0")):
        subnet = next((s for s in network.dhcp_subnets if s.ip_version == version and _has_usable_gateway(s)), None)
        # With use_gateway_ips the namespace has the gateway's address itself.
        if subnet is None or subnet.gateway_ip is None or settings.use_gateway_ips:
            continue
        if network.own_address(subnet.id) is None:
            continue
        outside = ipaddress.ip_address(subnet.gateway_ip) not in ipaddress.ip_network(subnet.cidr)
        link_local = ipaddress.ip_address(subnet.gateway_ip).is_link_local
        yield route(anywhere, name, via=subnet.gateway_ip, onlink=outside and not (version == 6 and link_local))


def _has_usable_gateway(subnet: Subnet) -> bool:
    if subnet.gateway_ip is None:
        return False
    if subnet.ip_version == 4:
        return True
    length = ipaddress.ip_network(subnet.cidr).prefixlen
    self_configured = {subnet.ipv6_address_mode, subnet.ipv6_ra_mode} & {SLAAC, STATELESS}
    return 0 < length <= 126 and (length == 64 or not self_configured)
