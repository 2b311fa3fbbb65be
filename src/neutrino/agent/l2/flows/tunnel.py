"""The tunnel bridge: local VLANs to tunnel ids, and packets to the one host that needs them.

From the integration bridge: PATCH sends unicast to UNICAST, which has the host of a MAC from the server, or has learned it;
requests for addresses to RESPONDER (see `arp`); the rest to FLOOD, which copies it to the hosts that have the network.
Neighbour solicitations are flooded where the datapath cannot answer them. From a tunnel: the table of its type translates
the tunnel id to the local VLAN, or drops the packet where the id is unknown here, and LEARN sends it to the integration
bridge. Nothing is forwarded from one tunnel to another.

With l2population the server sends the host of every port and nothing is learned, so that no packet follows a stale learned
flow after a port has moved. A host that does not take part in l2population is learned from, and always flooded to.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import TUNNEL_TYPES, Desired, L2Options, LocalNetwork, Plugged, TunnelPort
from neutrino.agent.l2.extension_api import LEARNED_COOKIE, Contribution, L2Extension, Unit, network_owner
from neutrino.agent.l2.flows.integration import LEARNED_SECONDS, MULTICAST, UNICAST, push_tag
from neutrino.agent.l2.pipeline import Bridge
from neutrino.dataplane.openflow.api import Flow
from neutrino.model import state

_LEARN_SENDER = (
    f"learn(table={pipeline.UNICAST.number},hard_timeout={LEARNED_SECONDS},priority=1,cookie={LEARNED_COOKIE:#x},"
    "NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0->NXM_OF_VLAN_TCI[],"
    "load:NXM_NX_TUN_ID[]->NXM_NX_TUN_ID[],output:NXM_OF_IN_PORT[])"
)


class Tunnels(L2Extension):
    name = "tunnels"

    def units(self, desired: Desired) -> Iterator[Unit]:
        options, bridge, hosts = desired.options, desired.options.tunnel_bridge, desired.host_state.hosts
        plugged = dataclasses.replace(desired.plugged, ports={}, devices={}, extension_ports={})  # as it is compared
        if not plugged.patch_int:
            return
        yield Unit("bridge", (plugged.patch_int, options), lambda: Contribution({bridge: _base(plugged, options)}))
        for port in plugged.tunnels:
            host = hosts.get(port.host)
            learns = options.l2_population and host is not None and not host.l2_population
            inputs = bridge, port, plugged.patch_int, learns
            yield Unit(f"tunnel {port.network_type} {port.host}", inputs, partial(_tunnel, *inputs))
        for network, entries in tunnel_networks(desired):
            given = network, plugged, options, hosts, entries
            yield Unit(network_owner(network), given, partial(_network, *given))


def tunnel_networks(desired: Desired) -> Iterator[tuple[LocalNetwork, tuple[state.Forwarding, ...]]]:
    """The tunnel networks with ports here, each with the forwarding entries of its ports on other hosts."""
    for network in desired.networks:
        if network.key.network_type in TUNNEL_TYPES:
            yield network, desired.forwarding.get(network.key.network_id, ())


def _base(plugged: Plugged, options: L2Options) -> Iterator[Flow]:
    patch = pipeline.PATCH
    yield from pipeline.miss_flows(Bridge.TUNNEL)
    onward = pipeline.DVR_PROCESS if options.distributed else patch
    yield pipeline.TUNNEL_ENTRY.flow(1, f"in_port={plugged.patch_int}", then=onward)
    yield patch.flow(1, UNICAST, then=pipeline.UNICAST)
    yield patch.flow(1, MULTICAST, then=pipeline.FLOOD)
    learning = () if options.l2_population else (_LEARN_SENDER,)
    yield pipeline.LEARN.flow(1, "", *learning, f"output:{plugged.patch_int}")


def _tunnel(bridge: str, port: TunnelPort, patch_int: int, learns: bool) -> Contribution:
    """A tunnel to another host; `learns` where that host's ports are not in the forwarding entries."""
    match = f"in_port={port.ofport}"
    flows = [pipeline.TUNNEL_ENTRY.flow(1, match, then=pipeline.FROM_TUNNEL[port.network_type])]
    if learns:
        flows.append(pipeline.LEARN.flow(2, match, _LEARN_SENDER, f"output:{patch_int}"))
    return Contribution({bridge: flows})


def _network(
    network: LocalNetwork,
    plugged: Plugged,
    options: L2Options,
    hosts: Mapping[str, state.Host],
    entries: tuple[state.Forwarding, ...],
) -> Contribution:
    tunnels = {port.host: port.ofport for port in plugged.tunnels if port.network_type == network.key.network_type}
    arriving = pipeline.FROM_TUNNEL[network.key.network_type].flow(
        1,
        f"tun_id={network.key.segmentation_id}",
        push_tag(network.vlan),
        then=pipeline.DVR_NOT_LEARN if options.distributed else pipeline.LEARN,
    )
    flows = [arriving, *_render_flood(network, _flooded(tunnels, options, hosts, entries))]
    if options.l2_population:
        flows += _render_unicast(network, tunnels, entries)
    return Contribution({options.tunnel_bridge: flows})


def _flooded(
    tunnels: Mapping[str, int], options: L2Options, hosts: Mapping[str, state.Host], known: Iterable[state.Forwarding]
) -> list[int]:
    if not options.l2_population:
        return sorted(tunnels.values())
    having = {entry.host for entry in known}
    without_l2population = {name for name, host in hosts.items() if not host.l2_population}
    return sorted(ofport for host, ofport in tunnels.items() if host in having | without_l2population)


def _into_tunnel(network: LocalNetwork) -> str:
    return f"pop_vlan,set_field:{network.key.segmentation_id}->tun_id"


def _render_flood(network: LocalNetwork, ofports: list[int]) -> tuple[Flow, ...]:
    if not ofports:
        return ()
    outputs = (f"output:{ofport}" for ofport in ofports)
    return (pipeline.FLOOD.flow(1, f"dl_vlan={network.vlan}", _into_tunnel(network), *outputs),)


def _render_unicast(network: LocalNetwork, tunnels: Mapping[str, int], known: Iterable[state.Forwarding]) -> list[Flow]:
    where: dict[str, int] = {}
    # In order of ids: for a MAC with several entries, such as during a live migration, the choice must be stable.
    for entry in sorted(known, key=lambda item: item.id):
        if entry.host in tunnels:
            where.setdefault(entry.mac_address.lower(), tunnels[entry.host])
    return [
        pipeline.UNICAST.flow(2, f"dl_vlan={network.vlan},dl_dst={mac}", _into_tunnel(network), f"output:{ofport}")
        for mac, ofport in sorted(where.items())
    ]
