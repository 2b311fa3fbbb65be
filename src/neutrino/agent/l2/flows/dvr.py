"""Distributed routers on the bridges: a router's MAC is on every host, and never on the network between hosts.

A port of a distributed router has the same MAC and addresses on every host. Leaving, on the tunnel bridge and on physical
bridges: requests for a router's address, and packets to its MAC, are dropped, as the router on this host is meant. Packets
from the router here get this host's own DVR MAC as source: other switches would see the router's MAC in many places.

Arriving, on the integration bridge: a packet from another host's DVR MAC was routed there. It gets the MAC of the
receiver's gateway back and goes on like any other. DVR MACs are not learned: each stands for many addresses.
"""

import dataclasses
from collections.abc import Iterator

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import TUNNEL_TYPES, Desired, L2Options, LocalNetwork, Uplink
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit
from neutrino.agent.l2.flows.integration import segment_match
from neutrino.agent.l2.pipeline import Table
from neutrino.dataplane.openflow.api import Flow
from neutrino.model.link_local import link_local


@dataclasses.dataclass(frozen=True, order=True)
class RouterPort:
    """A port of a distributed router that is plugged here."""

    vlan: int
    mac: str
    addresses: tuple[str, ...]


@dataclasses.dataclass(frozen=True, order=True)
class RoutedPort:
    """A port here whose gateway is a distributed router."""

    vlan: int
    mac: str
    gateway_mac: str


@dataclasses.dataclass(frozen=True)
class Routing:
    mac: str = ""  # this host's DVR MAC; empty until the server has sent it
    other_macs: tuple[str, ...] = ()  # those of the other hosts
    router_ports: tuple[RouterPort, ...] = ()
    routed_ports: tuple[RoutedPort, ...] = ()


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
    host, macs = desired.options.host, desired.host_state.dvr_macs
    here = [(port.vlan, desired.host_state.ports[port.id]) for port in desired.ports]
    gateways: dict[tuple[int, str], str] = {}
    found = []
    for vlan, port in here:
        if port.distributed:
            mac = port.mac_address.lower()
            addresses = (*(fixed.ip_address for fixed in port.fixed_ips), str(link_local(mac)))
            found.append(RouterPort(vlan, mac, tuple(sorted(addresses))))
            gateways |= {(vlan, fixed.subnet_id): mac for fixed in port.fixed_ips}
    routed = {
        (vlan, port.mac_address.lower()): gateways[vlan, fixed.subnet_id]
        for vlan, port in here
        if not port.distributed
        for fixed in port.fixed_ips
        if (vlan, fixed.subnet_id) in gateways
    }
    return Routing(
        mac=macs[host].mac_address.lower() if host in macs else "",
        other_macs=tuple(sorted(each.mac_address.lower() for name, each in macs.items() if name != host)),
        router_ports=tuple(sorted(found)),
        routed_ports=tuple(sorted(RoutedPort(vlan, mac, gateway) for (vlan, mac), gateway in routed.items())),
    )


def _render(
    options: L2Options,
    routing: Routing,
    networks: tuple[LocalNetwork, ...],
    uplinks: tuple[Uplink, ...],
    patch_tun: int,
    patch_int: int,
) -> Contribution:
    entries = [(uplink.integration_ofport, pipeline.DVR_TO_SRC_MAC_PHYSICAL) for uplink in uplinks]
    if patch_tun:
        entries.append((patch_tun, pipeline.DVR_TO_SRC_MAC))
    flows = {options.integration_bridge: [*_render_integration(routing, networks, entries)]}
    if patch_int:
        vlans = frozenset(each.vlan for each in networks if each.key.network_type in TUNNEL_TYPES)
        not_learned, to_integration = pipeline.DVR_NOT_LEARN, f"output:{patch_int}"
        flows[options.tunnel_bridge] = [
            *(not_learned.flow(1, f"dl_src={mac}", to_integration) for mac in routing.other_macs),
            *_leaving(routing, vlans, "", pipeline.DVR_PROCESS, pipeline.PATCH),
        ]
    for uplink in uplinks:
        vlans = frozenset(each.vlan for each in networks if each.uplink == uplink.integration_ofport)
        flows[uplink.bridge] = [*_render_physical(routing, vlans, uplink)]
    return Contribution(flows)


def _render_integration(
    routing: Routing, networks: tuple[LocalNetwork, ...], entries: list[tuple[int, Table]]
) -> Iterator[Flow]:
    """`entries`: the ofports through which routed packets of other hosts arrive, and the tables for these."""
    for mac in routing.other_macs:
        for ofport, table in entries:
            yield pipeline.LOCAL_SWITCHING.flow(5, f"in_port={ofport},dl_src={mac}", then=table)
    for port in routing.routed_ports:
        yield _restore_gateway(pipeline.DVR_TO_SRC_MAC, f"dl_vlan={port.vlan}", port)
    for network in networks:
        if network.key.network_type in ("vlan", "flat"):
            table, (match, action) = pipeline.DVR_TO_SRC_MAC_PHYSICAL, segment_match(network)
            yield table.flow(2, match, action, then=pipeline.TRANSIENT)
            for port in routing.routed_ports:
                if port.vlan == network.vlan:
                    yield _restore_gateway(table, match, port, action)


def _restore_gateway(table: Table, match: str, port: RoutedPort, *before: str) -> Flow:
    source = f"set_field:{port.gateway_mac}->eth_src"
    return table.flow(4, f"{match},dl_dst={port.mac}", *before, source, then=pipeline.TRANSIENT)


def _render_physical(routing: Routing, vlans: frozenset[int], uplink: Uplink) -> Iterator[Flow]:
    patch, not_learned = f"in_port={uplink.physical_ofport}", pipeline.DVR_NOT_LEARN_PHYSICAL
    yield pipeline.PHYSICAL_ENTRY.flow(3, patch, then=pipeline.DVR_PROCESS_PHYSICAL)
    yield pipeline.PHYSICAL_ENTRY.flow(1, "", then=not_learned)
    for mac in routing.other_macs:
        yield not_learned.flow(2, f"dl_src={mac}", f"output:{uplink.physical_ofport}")
    yield from _leaving(routing, vlans, f"{patch},", pipeline.DVR_PROCESS_PHYSICAL, pipeline.VLAN_TRANSLATION)


def _leaving(routing: Routing, vlans: frozenset[int], before: str, table: Table, onward: Table) -> Iterator[Flow]:
    for port in routing.router_ports:
        if port.vlan in vlans:
            network = f"{before}dl_vlan={port.vlan}"
            yield from (table.flow(3, f"{request},{network}{more}", "drop") for request, more in _requests(port))
            yield table.flow(2, f"{network},dl_dst={port.mac}", "drop")
            # Until the server has sent this host's DVR MAC, drop: the router's own MAC must not be seen outside.
            actions = (f"set_field:{routing.mac}->eth_src", table.goto(onward)) if routing.mac else ("drop",)
            yield table.flow(1, f"{network},dl_src={port.mac}", *actions)


def _requests(port: RouterPort) -> Iterator[tuple[str, str]]:
    """Requests for and announcements of a router's addresses, and its RAs: on each host its own router sends these."""
    for address in port.addresses:
        if ":" in address:
            yield "icmp6,icmp_type=135", f",nd_target={address}"
            yield "icmp6,icmp_type=136", f",nd_target={address}"
        else:
            yield "arp", f",arp_tpa={address}"
    yield "icmp6,icmp_type=134", f",dl_src={port.mac}"
