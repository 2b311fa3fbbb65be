"""Replies between subnets of a distributed router with firewall groups: found by the switch, and marked for the router.

A packet is routed on its sender's host, so the router's namespace on each host sees one direction of a connection, and its
conntrack cannot say which packets are replies. The switch sees both: what the router here has routed, and what arrives from
routers of other hosts. It commits both to one conntrack zone for each router, and looks up packets on their way to the
router. A reply, or an error about a connection, gets REPLY_MAC as its source, by which the router's rules know it
(`l3/extensions/firewall.py`). All other packets go to the router as they are, and are filtered there.

    to the router's port     ingress table: conntrack ── reply, related ─▶ source REPLY_MAC ─▶ router
                                                      └─ any other ──────────────────────────▶ router
    from the router's port   egress table: committed ─▶ …
    routed on another host   DVR_TO_SRC_MAC: committed, and the gateway's MAC as source (see `dvr`) ─▶ …

What is committed has passed the firewall groups, here or on the sender's host: a packet that they drop opens nothing. On a
network with several such routers, packets from other hosts are committed to the zones of all of them, as nothing in a
packet says by which one it came.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options, LocalNetwork
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, stable_numbers
from neutrino.agent.l2.extensions.dvr import RoutedPort, resolve_routing
from neutrino.agent.l2.extensions.integration import segment_match
from neutrino.agent.l2.pipeline import REG_PORT
from neutrino.agent.reply_mac import REPLY_MAC, UNKNOWN_MAC
from neutrino.dataplane.openflow.api import Flow
from neutrino.model.routing import Router

ROUTER = "router"  # the feed's kind, which a host with distributed routers gets for its L3 role
ZONES = range(0x6000, 0x7000)  # above the hybrid firewall's zones, below those of local IPs
_FAMILIES = ("ip", "ipv6")
_FORGED, _TRACKED, _OTHER, _ENTRY = 40, 30, 20, 10  # priorities
_TO_PORT, _TO_ANY = 5, 3  # priorities in DVR_TO_SRC_MAC: above the same flows of `dvr`, for IP packets


class FilteredPort(NamedTuple):
    """A port, plugged here, of a distributed router with a firewall group on any of its ports."""

    ofport: int
    vlan: int
    zone: int


class RoutedReplies(L2Extension):
    name = "routed replies"
    kinds = frozenset({ROUTER})
    has_table = True
    has_ingress_table = True

    def egress_ports(self, desired: Desired) -> list[str]:
        return [*_routers(desired)]

    def ingress_ports(self, desired: Desired) -> list[str]:
        return [*_routers(desired)]

    def units(self, desired: Desired) -> Iterator[Unit]:
        routers = _routers(desired)
        zones = stable_numbers(routers.values(), ZONES)
        ports = tuple(
            FilteredPort(port.ofport, port.vlan, zones[routers[port.id]])
            for port in desired.ports
            if port.id in routers
        )
        if ports:
            vlans = {port.vlan for port in ports}
            routed = tuple(port for port in resolve_routing(desired).routed_ports if port.vlan in vlans)
            networks = tuple(network for network in desired.networks if network.vlan in vlans)
            yield Unit(self.name, (desired.options, ports, routed, networks), _render)


def _routers(desired: Desired) -> dict[str, str]:
    """The routers whose replies are marked, by the ids of their ports."""
    if not desired.options.distributed:
        return {}
    routers = (each for each in desired.objects.get(ROUTER, {}).values() if isinstance(each, Router))
    return {
        port.id: router.id
        for router in routers
        if router.distributed and any(port.firewall_group_id for port in router.interfaces)
        for port in router.interfaces
    }


def _render(
    options: L2Options,
    ports: tuple[FilteredPort, ...],
    routed: tuple[RoutedPort, ...],
    networks: tuple[LocalNetwork, ...],
) -> Contribution:
    zones: defaultdict[int, list[int]] = defaultdict(list)
    for port in ports:
        zones[port.vlan].append(port.zone)
    flows = [*_to_router(options, ports), *_from_router(options, ports)]
    for network in networks:
        commits = [_commit(zone) for zone in sorted({*zones[network.vlan]})]
        flows += _arriving(network, commits, [port for port in routed if port.vlan == network.vlan])
    return Contribution({options.integration_bridge: flows})


def _commit(zone: int) -> str:
    return f"ct(commit,zone={zone}),ct_clear"


def _to_router(options: L2Options, ports: tuple[FilteredPort, ...]) -> Iterator[Flow]:
    table = options.ingress_table(RoutedReplies.name)
    onward = "ct_clear", table.goto(options.after_ingress(table))
    for port in ports:
        track = f"ct(table={table.number},zone={port.zone})"
        for family in _FAMILIES:
            entering = f"{REG_PORT}={port.ofport},{family},ct_state=-trk"
            yield table.flow(_ENTRY, entering, track)
            yield table.flow(_FORGED, f"{entering},dl_src={REPLY_MAC}", f"set_field:{UNKNOWN_MAC}->eth_src", track)
    for state in ("+rpl-inv+trk", "+rel-inv+trk"):
        yield table.flow(_TRACKED, f"ct_state={state}", f"set_field:{REPLY_MAC}->eth_src", *onward)
    yield table.flow(_OTHER, "ct_state=+trk", *onward)


def _from_router(options: L2Options, ports: tuple[FilteredPort, ...]) -> Iterator[Flow]:
    table = options.extension_table(RoutedReplies.name)
    for port in ports:
        for family in _FAMILIES:
            match = f"in_port={port.ofport},{family}"
            yield table.flow(_ENTRY, match, _commit(port.zone), then=options.after_extension(table))


def _arriving(network: LocalNetwork, commits: list[str], routed: list[RoutedPort]) -> Iterator[Flow]:
    """Packets that another host has routed: to ports whose gateway is known, and to other MACs, such as those of pairs."""
    physical = network.is_physical
    table = pipeline.DVR_TO_SRC_MAC_PHYSICAL if physical else pipeline.DVR_TO_SRC_MAC
    segment, *translate = segment_match(network) if physical else (f"dl_vlan={network.vlan}",)
    for family in _FAMILIES:
        match, actions = f"{segment},{family}", (*translate, *commits)
        yield table.flow(_TO_ANY, match, *actions, then=pipeline.TRANSIENT)
        for port in routed:
            gateway = f"set_field:{port.gateway_mac}->eth_src"
            yield table.flow(_TO_PORT, f"{match},dl_dst={port.mac}", *actions, gateway, then=pipeline.TRANSIENT)
