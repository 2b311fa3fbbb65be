"""The tunnel bridge: local VLANs to tunnel ids, and packets to the one host that needs them.

From the integration bridge: PATCH sends unicast to UNICAST, which has the host of a MAC from the server, or has learned it;
requests for addresses to RESPONDER (see `arp`); the rest to FLOOD, which copies it to the hosts that have the network.
Neighbour solicitations are flooded where the datapath cannot answer them. From a tunnel: the table of its type translates
the tunnel id to the local VLAN, or drops the packet where the id is unknown here, and LEARN sends it to the integration
bridge. Nothing is forwarded from one tunnel to another.

With l2population the server sends the host of every port and nothing is learned, so that no packet follows a stale learned
flow after a port has moved. A host that does not take part in l2population is learned from, and always flooded to. On a
network that carries VLAN tags of instances nothing is learned either.
"""

from collections.abc import Iterator

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options, LocalNetwork, TunnelPort
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, network_owner
from neutrino.agent.l2.extensions.integration import LEARNED_SECONDS, MULTICAST, UNICAST, push_tag
from neutrino.agent.l2.pipeline import Bridge
from neutrino.caches import cached
from neutrino.dataplane.openflow.api import LEARNED_COOKIE, Flow
from neutrino.model import state

_LEARN_SENDER = (
    f"learn(table={pipeline.UNICAST.number},hard_timeout={LEARNED_SECONDS},priority=1,cookie={LEARNED_COOKIE:#x},"
    "NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0->NXM_OF_VLAN_TCI[],"
    "load:NXM_NX_TUN_ID[]->NXM_NX_TUN_ID[],output:NXM_OF_IN_PORT[])"
)


class Tunnels(L2Extension):
    name = "tunnels"

    def units(self, desired: Desired) -> Iterator[Unit]:
        options, tunnels, patch_int = desired.options, desired.plugged.tunnels, desired.plugged.patch_int
        if not patch_int:
            return
        yield Unit("bridge", (options, patch_int), _base)
        for port in tunnels:
            yield Unit(f"tunnel {port.network_type} {port.host}", (options, port), _tunnel)
        for network, entries in desired.tunnel_networks:
            yield Unit(network_owner(network), (options, network, tunnels, entries, patch_int), _network)


def _base(options: L2Options, patch_int: int) -> Contribution:
    patch = pipeline.PATCH
    onward = pipeline.DVR_PROCESS if options.distributed else patch
    learning = () if options.l2_population else (_LEARN_SENDER,)
    flows = [
        *pipeline.miss_flows(Bridge.TUNNEL),
        pipeline.TUNNEL_ENTRY.flow(1, f"in_port={patch_int}", then=onward),
        patch.flow(1, UNICAST, then=pipeline.UNICAST),
        patch.flow(1, MULTICAST, then=pipeline.FLOOD),
        pipeline.LEARN.flow(1, "", *learning, f"output:{patch_int}"),
    ]
    return Contribution({options.tunnel_bridge: flows})


def _tunnel(options: L2Options, port: TunnelPort) -> Contribution:
    """A tunnel to another host."""
    flows = [pipeline.TUNNEL_ENTRY.flow(1, f"in_port={port.ofport}", then=pipeline.FROM_TUNNEL[port.network_type])]
    return Contribution({options.tunnel_bridge: flows})


def _network(
    options: L2Options,
    network: LocalNetwork,
    tunnel_ports: tuple[TunnelPort, ...],
    entries: tuple[state.Forwarding, ...],
    patch_int: int,
) -> Contribution:
    """A network's packets from and to other hosts."""
    segment, tag = network.key, f"dl_vlan={network.vlan}"
    tunnels = {port.host: port.ofport for port in tunnel_ports if port.network_type == segment.network_type}
    from_tunnel = pipeline.FROM_TUNNEL[segment.network_type]
    onward = pipeline.DVR_NOT_LEARN if options.distributed else pipeline.LEARN
    flows = [from_tunnel.flow(1, f"tun_id={segment.segmentation_id}", push_tag(network.vlan), then=onward)]
    into_tunnel = f"pop_vlan,set_field:{segment.segmentation_id}->tun_id"
    # Broadcast only reaches hosts that have ports on the network, as far as the server knows, whatever a host reports of
    # itself: the entries have all hosts, with l2population or not. If it is off on this host, all.
    receivers = {host for entry in entries for host in _hosts(entry)} if options.l2_population else {*tunnels}
    outputs = [f"output:{ofport}" for ofport in sorted(tunnels[host] for host in tunnels.keys() & receivers)]
    if outputs:
        flows.append(pipeline.FLOOD.flow(1, tag, into_tunnel, *outputs))
    if network.carries_tags:
        # Not learned: a learned flow removes all tags of a packet, not the local VLAN alone. Unknown MACs are flooded.
        flows.append(pipeline.LEARN.flow(3, tag, f"output:{patch_int}"))
    if options.l2_population:
        where: dict[str, str] = {}
        # For a MAC with several entries the first by id: the choice must be stable.
        for entry in entries:
            if reached := [f"output:{tunnels[host]}" for host in _hosts(entry) if host in tunnels]:
                where.setdefault(entry.mac_address.lower(), ",".join(reached))
        flows += [_unicast(network.vlan, mac, f"{into_tunnel},{outputs}") for mac, outputs in where.items()]
    return Contribution({options.tunnel_bridge: flows})


@cached(maxsize=65536)  # a change of one port renders all those of its network
def _unicast(vlan: int, mac: str, actions: str) -> Flow:
    return pipeline.UNICAST.flow(2, f"dl_vlan={vlan},dl_dst={mac}", actions)


def _hosts(entry: state.Forwarding) -> tuple[str, ...]:
    """The hosts that packets to a port go to: during a live migration two, of which the one without the instance drops
    them."""
    return (entry.host, entry.migrates_to) if entry.migrates_to else (entry.host,)
