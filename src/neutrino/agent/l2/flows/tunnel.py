"""The tunnel bridge: local VLANs to tunnel ids, and packets to the one host that needs them.

From the integration bridge: PATCH sends unicast to UNICAST, which knows from the server on which host a MAC is, or has
learned it; questions about addresses to RESPONDER (see `arp`), which answers those it can; the rest to FLOOD, which copies
it to the hosts that have the network. Neighbour solicitations are among the rest where the datapath cannot answer them.
From a tunnel: the table of its type turns the tunnel id into the local VLAN, or drops what has none here, and LEARN hands
it to the integration bridge. Nothing goes from one tunnel to another.

With l2population the server tells where every port is, and nothing is learned, so that a port that moves is not looked
for where it was. A host that does not take part in it is learned from and always flooded to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import FlowOptions, LocalNetwork, Plugged, TunnelPort
from neutrino.agent.l2.flows.arp import render_responses
from neutrino.agent.l2.flows.integration import push_tag
from neutrino.agent.l2.ownership import LEARNED_COOKIE
from neutrino.agent.l2.pipeline import Bridge
from neutrino.dataplane.openflow.api import Flow
from neutrino.model import state

_UNICAST = "dl_dst=00:00:00:00:00:00/01:00:00:00:00:00"
_MULTICAST = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
_LEARNED_FOR = 300
_QUESTIONS = {
    4: ("arp", "arp_spa=0.0.0.0"),
    6: ("icmp6,icmp_type=135", "ipv6_src=::"),
}  # and when nobody has the address

_LEARN_SENDER = (
    f"learn(table={pipeline.UNICAST.number},hard_timeout={_LEARNED_FOR},priority=1,cookie={LEARNED_COOKIE:#x},"
    "NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0->NXM_OF_VLAN_TCI[],"
    "load:NXM_NX_TUN_ID[]->NXM_NX_TUN_ID[],output:NXM_OF_IN_PORT[])"
)


def answered_versions(plugged: Plugged, options: FlowOptions) -> tuple[int, ...]:
    """The IP versions of which questions for addresses are answered here; those of others go to all hosts of the network.

    The kernel's datapath cannot turn a neighbour solicitation into an advertisement, and the switch rejects such a flow.
    """
    if not (options.l2_population and options.arp_responder):
        return ()
    return (4, 6) if plugged.features.nd_extension else (4,)


def render_base(plugged: Plugged, options: FlowOptions) -> tuple[Flow, ...]:
    patch = pipeline.PATCH
    to_integration = f"output:{plugged.patch_int}"
    flows = [
        *pipeline.miss_flows(Bridge.TUNNEL),
        pipeline.TUNNEL_ENTRY.flow(
            1, f"in_port={plugged.patch_int}", then=pipeline.DVR_PROCESS if options.distributed else patch
        ),
        patch.flow(1, _UNICAST, then=pipeline.UNICAST),
        patch.flow(1, _MULTICAST, then=pipeline.FLOOD),
    ]
    for version in answered_versions(plugged, options):
        question, probe = _QUESTIONS[version]
        flows.append(patch.flow(2, f"{question},{_MULTICAST}", then=pipeline.RESPONDER))
        # Who asks whether an address is free asks all: we may not yet know that it has moved to the one who asks.
        flows.append(pipeline.RESPONDER.flow(2, f"{question},{probe}", then=pipeline.FLOOD))
    learning = () if options.l2_population else (_LEARN_SENDER,)
    flows.append(pipeline.LEARN.flow(1, "", *learning, to_integration))
    return tuple(flows)


def render_tunnel(port: TunnelPort, plugged: Plugged, *, learns: bool) -> tuple[Flow, ...]:
    """A tunnel to another host; `learns` where that host does not say which ports it has."""
    match = f"in_port={port.ofport}"
    entry = pipeline.TUNNEL_ENTRY.flow(1, match, then=pipeline.FROM_TUNNEL[port.network_type])
    if not learns:
        return (entry,)
    return (entry, pipeline.LEARN.flow(2, match, _LEARN_SENDER, f"output:{plugged.patch_int}"))


def render_network(
    network: LocalNetwork,
    plugged: Plugged,
    options: FlowOptions,
    hosts: Mapping[str, state.Host],
    entries: Iterable[state.Forwarding],
) -> tuple[Flow, ...]:
    known = [entry for entry in entries if entry.network_id == network.key.network_id]
    tunnels = {port.host: port.ofport for port in plugged.tunnels if port.network_type == network.key.network_type}
    arriving = pipeline.FROM_TUNNEL[network.key.network_type].flow(
        1,
        f"tun_id={network.key.segmentation_id}",
        push_tag(network.vlan),
        then=pipeline.DVR_NOT_LEARN if options.distributed else pipeline.LEARN,
    )
    return (
        arriving,
        *_render_flood(network, _flooded(tunnels, options, hosts, known)),
        *(_render_unicast(network, tunnels, known) if options.l2_population else ()),
        *render_responses(network.vlan, known, answered_versions(plugged, options)),
    )


def _flooded(
    tunnels: Mapping[str, int], options: FlowOptions, hosts: Mapping[str, state.Host], known: list[state.Forwarding]
) -> list[int]:
    if not options.l2_population:
        return sorted(tunnels.values())
    having = {entry.host for entry in known}
    silent = {name for name, host in hosts.items() if not host.l2_population}
    return sorted(ofport for host, ofport in tunnels.items() if host in having | silent)


def _into_tunnel(network: LocalNetwork) -> str:
    return f"pop_vlan,set_field:{network.key.segmentation_id}->tun_id"


def _render_flood(network: LocalNetwork, ofports: list[int]) -> tuple[Flow, ...]:
    if not ofports:
        return ()
    outputs = (f"output:{ofport}" for ofport in ofports)
    return (pipeline.FLOOD.flow(1, f"dl_vlan={network.vlan}", _into_tunnel(network), *outputs),)


def _render_unicast(network: LocalNetwork, tunnels: Mapping[str, int], known: list[state.Forwarding]) -> list[Flow]:
    where: dict[str, int] = {}
    for entry in sorted(known, key=lambda item: item.id):
        if entry.host in tunnels:
            where.setdefault(entry.mac_address.lower(), tunnels[entry.host])
    return [
        pipeline.UNICAST.flow(2, f"dl_vlan={network.vlan},dl_dst={mac}", _into_tunnel(network), f"output:{ofport}")
        for mac, ofport in sorted(where.items())
    ]
