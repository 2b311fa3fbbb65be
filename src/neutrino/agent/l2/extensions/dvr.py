"""Distributed routers on the bridges: a router's MAC is on every host, and never on the network between hosts.

A port of a distributed router has the same MAC and addresses on every host. Leaving, on the tunnel bridge and on physical
bridges: requests for a router's address, and packets to its MAC, are dropped, as the router on this host is meant. Packets
from the router here get this host's own DVR MAC as source: other switches would see the router's MAC in many places. A
packet that has a DVR MAC as source before that is forged by an instance: elsewhere it would count as routed.

Arriving, on the integration bridge: a packet from another host's DVR MAC was routed there. It gets the MAC of the
receiver's gateway back and goes on like any other. DVR MACs are not learned: each stands for many addresses.
"""

from collections.abc import Iterator
from typing import NamedTuple

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import TUNNEL_TYPES, Desired, L2Options, LocalNetwork, Uplink
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit
from neutrino.agent.l2.extensions.integration import segment_match
from neutrino.agent.l2.pipeline import Table
from neutrino.dataplane.openflow.api import Flow
from neutrino.model.addresses import link_local


class RouterPort(NamedTuple):
    """A port of a distributed router that is plugged here."""

    vlan: int
    mac: str
    addresses: tuple[str, ...]


class RoutedPort(NamedTuple):
    """A port here whose gateway is a distributed router."""

    vlan: int
    mac: str
    gateway_mac: str


class Routing(NamedTuple):
    mac: str  # this host's DVR MAC; empty until the server has sent it
    other_macs: list[str]  # those of the other hosts
    router_ports: list[RouterPort]
    routed_ports: list[RoutedPort]


class Dvr(L2Extension):
    name = "dvr"

    def units(self, desired: Desired) -> Iterator[Unit]:
        if desired.options.distributed:
            plugged = desired.plugged
            routing = resolve_routing(desired)
            inputs = desired.options, routing, desired.networks, plugged.uplinks, plugged.patch_tun, plugged.patch_int
            yield Unit("dvr", inputs, _render)


def resolve_routing(desired: Desired) -> Routing:
    """The distributed routers' ports here, and the ports that have one of them as gateway."""
    macs = {host: entry.mac_address.lower() for host, entry in desired.host_state.dvr_macs.items()}
    here = [(port.vlan, port.mac, desired.host_state.ports[port.id]) for port in desired.ports]
    gateways: dict[tuple[int, str], str] = {}
    router_ports = []
    for vlan, mac, port in here:
        if port.distributed:
            addresses = (*(fixed.ip_address for fixed in port.fixed_ips), str(link_local(mac)))
            router_ports.append(RouterPort(vlan, mac, tuple(sorted(addresses))))
            gateways |= {(vlan, fixed.subnet_id): mac for fixed in port.fixed_ips}
    routed = {
        (vlan, mac): gateways[vlan, fixed.subnet_id]
        for vlan, mac, port in here
        if not port.distributed
        for fixed in port.fixed_ips
        if (vlan, fixed.subnet_id) in gateways
    }
    own = macs.pop(desired.options.host, "")
    routed_ports = sorted(RoutedPort(*port, gateway) for port, gateway in routed.items())
    return Routing(own, sorted(macs.values()), sorted(router_ports), routed_ports)


def _render(
    options: L2Options,
    routing: Routing,
    networks: tuple[LocalNetwork, ...],
    uplinks: tuple[Uplink, ...],
    patch_tun: int,
    patch_int: int,
) -> Contribution:
    flows = {options.integration_bridge: [*_arriving(routing, networks, uplinks, patch_tun)]}
    if patch_int:
        vlans = {network.vlan for network in networks if network.key.network_type in TUNNEL_TYPES}
        flows[options.tunnel_bridge] = [
            *(pipeline.DVR_NOT_LEARN.flow(1, f"dl_src={mac}", f"output:{patch_int}") for mac in routing.other_macs),
            *_leaving(routing, vlans, "", pipeline.DVR_PROCESS, pipeline.PATCH),
        ]
    for uplink in uplinks:
        vlans = {network.vlan for network in networks if network.uplink == uplink.integration_ofport}
        patch, not_learned = uplink.physical_ofport, pipeline.DVR_NOT_LEARN_PHYSICAL
        flows[uplink.bridge] = [
            pipeline.PHYSICAL_ENTRY.flow(3, f"in_port={patch}", then=pipeline.DVR_PROCESS_PHYSICAL),
            pipeline.PHYSICAL_ENTRY.flow(1, "", then=not_learned),
            *(not_learned.flow(2, f"dl_src={mac}", f"output:{patch}") for mac in routing.other_macs),
            *_leaving(*(routing, vlans, f"in_port={patch},"), pipeline.DVR_PROCESS_PHYSICAL, pipeline.VLAN_TRANSLATION),
        ]
    return Contribution(flows)


def _arriving(
    routing: Routing, networks: tuple[LocalNetwork, ...], uplinks: tuple[Uplink, ...], patch_tun: int
) -> Iterator[Flow]:
    """Yield flows of the integration bridge: packets that another host has routed get the receiver's gateway MAC back."""
    tunnelled, physical = pipeline.DVR_TO_SRC_MAC, pipeline.DVR_TO_SRC_MAC_PHYSICAL
    entries = [(uplink.integration_ofport, physical) for uplink in uplinks]
    entries += [(patch_tun, tunnelled)] if patch_tun else []
    for mac in routing.other_macs:
        for ofport, table in entries:
            # Above the uplink's own flows (2 and 3), which would pass the packet on with the DVR MAC as its source.
            yield pipeline.LOCAL_SWITCHING.flow(5, f"in_port={ofport},dl_src={mac}", then=table)
    segments = {network.vlan: segment_match(network) for network in networks if network.is_physical}
    for match, action in segments.values():
        yield physical.flow(2, match, action, then=pipeline.TRANSIENT)
    for port in routing.routed_ports:
        receiver, gateway = f"dl_dst={port.mac}", f"set_field:{port.gateway_mac}->eth_src"
        yield tunnelled.flow(4, f"dl_vlan={port.vlan},{receiver}", gateway, then=pipeline.TRANSIENT)
        if port.vlan in segments:
            match, action = segments[port.vlan]
            yield physical.flow(4, f"{match},{receiver}", action, gateway, then=pipeline.TRANSIENT)


def _leaving(routing: Routing, vlans: set[int], before: str, table: Table, onward: Table) -> Iterator[Flow]:
    """Out of this host: nothing for the router's own addresses, and everything from it with this host's DVR MAC."""
    for mac in (*routing.other_macs, *((routing.mac,) if routing.mac else ())):
        yield table.flow(4, f"{before}dl_src={mac}", "drop")
    for port in routing.router_ports:
        if port.vlan in vlans:
            network = f"{before}dl_vlan={port.vlan}"
            # On each host its own router answers requests, announces its addresses and sends RAs.
            for address in port.addresses:
                if ":" in address:
                    matches = [f"icmp6,icmp_type={kind},{network},nd_target={address}" for kind in (135, 136)]
                else:
                    matches = [f"arp,{network},arp_tpa={address}"]
                yield from (table.flow(3, match, "drop") for match in matches)
            yield table.flow(3, f"icmp6,icmp_type=134,{network},dl_src={port.mac}", "drop")
            yield table.flow(2, f"{network},dl_dst={port.mac}", "drop")
            # Until the server has sent this host's DVR MAC, drop: the router's own MAC must not be seen outside.
            actions = (f"set_field:{routing.mac}->eth_src", table.goto(onward)) if routing.mac else ("drop",)
            yield table.flow(1, f"{network},dl_src={port.mac}", *actions)
