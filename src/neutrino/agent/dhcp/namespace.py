"""The namespace that a network is served from: its device, addresses and routes. Pure.

The device is `tap` and the start of the port's id. On Open vSwitch's userspace datapath, or with `ovs_use_veth`, it is a
veth pair instead: `tap…` on the bridge and `ns-…` in the namespace, for an internal port there does not survive a restart
of the switch.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from neutrino.agent.dhcp.served import SLAAC, STATELESS, Served
from neutrino.agent.dhcp.settings import Settings
from neutrino.agent.namespaces import DesiredDevice, DesiredNamespace
from neutrino.dataplane.netlink.values import Route, address, route
from neutrino.model.state import Subnet

NAME_LENGTH: Final = 11  # of the port's id that a device's name holds
METADATA_IPV4: Final = "169.254.169.254/32"
METADATA_IPV6: Final = "fe80::a9fe:a9fe/128"
SYSCTLS: Final = {"net/ipv6/conf/default/accept_ra": "0"}  # addresses and routes are ours to set
PREFIXES: Final = ("tap", "ns-")


@dataclass(frozen=True)
class Plug:
    """The device on the switch."""

    switch_port: str  # the name on the bridge; that of the other end if it is a veth pair
    device: str  # the name in the namespace
    port_id: str
    mac: str
    mtu: int

    @property
    def is_veth(self) -> bool:
        return self.device != self.switch_port


@dataclass(frozen=True)
class DhcpNamespace:
    plug: Plug
    desired: DesiredNamespace

    @property
    def addresses(self) -> frozenset[str]:
        return frozenset(address.address for address in self.desired.addresses)


def switch_port(port_id: str) -> str:
    return f"tap{port_id[:NAME_LENGTH]}"


def device(port_id: str, settings: Settings) -> str:
    return f"ns-{port_id[:NAME_LENGTH]}" if settings.use_veth else switch_port(port_id)


def render_namespace(this: Served, settings: Settings) -> DhcpNamespace:
    """For a network that is served."""
    assert this.own is not None
    plug = Plug(
        switch_port=switch_port(this.own.id),
        device=device(this.own.id, settings),
        port_id=this.own.id,
        mac=this.own.mac_address,
        mtu=this.network.mtu,
    )
    desired = DesiredNamespace(
        name=this.namespace,
        devices=(_device(plug),),
        addresses=frozenset(address(plug.device, text, nodad=True) for text in _addresses(this, settings)),
        routes=frozenset(_routes(this, settings, plug.device)),
        sysctls=SYSCTLS,
        device_prefixes=PREFIXES,
    )
    return DhcpNamespace(plug, desired)


def _device(plug: Plug) -> DesiredDevice:
    """An answer that leaves with its checksum still to be filled in is thrown away by clients: so it is filled in here."""
    if plug.is_veth:
        return DesiredDevice(plug.device, peer=plug.switch_port, mac=plug.mac, mtu=plug.mtu, tx_checksum=False)
    return DesiredDevice(plug.device, mac=plug.mac, mtu=plug.mtu)


def _addresses(this: Served, settings: Settings) -> Iterator[str]:
    for subnet in this.dhcp_subnets:
        here = subnet.gateway_ip if settings.use_gateway_ips else this.own_address(subnet.id)
        if here is not None:
            yield f"{here}/{ipaddress.ip_network(subnet.cidr).prefixlen}"
    if settings.force_metadata or settings.enable_isolated_metadata:
        yield METADATA_IPV4
        if any(subnet.ip_version == 6 for subnet in this.network.subnets):
            yield METADATA_IPV6


def _routes(this: Served, settings: Settings, name: str) -> Iterator[Route]:
    """The default route of each family, by the first subnet that has a gateway."""
    for version, anywhere in ((4, "0.0.0.0/0"), (6, "::/0")):
        subnet = next((s for s in this.dhcp_subnets if s.ip_version == version and _leads_out(s)), None)
        if subnet is None or subnet.gateway_ip is None or settings.use_gateway_ips:
            continue
        if this.own_address(subnet.id) is None:
            continue
        outside = ipaddress.ip_address(subnet.gateway_ip) not in ipaddress.ip_network(subnet.cidr)
        link_local = ipaddress.ip_address(subnet.gateway_ip).is_link_local
        yield route(anywhere, name, via=subnet.gateway_ip, onlink=outside and not (version == 6 and link_local))


def _leads_out(subnet: Subnet) -> bool:
    if subnet.gateway_ip is None:
        return False
    if subnet.ip_version == 4:
        return True
    length = ipaddress.ip_network(subnet.cidr).prefixlen
    forms_itself = {subnet.ipv6_address_mode, subnet.ipv6_ra_mode} & {SLAAC, STATELESS}
    return 0 < length <= 126 and (length == 64 or not forms_itself)
