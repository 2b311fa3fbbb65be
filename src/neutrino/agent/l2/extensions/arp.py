"""ARP and neighbour discovery: the spoofing guard of secured ports, and the responder on the tunnel bridge.

A secured port's packet enters LOCAL_SWITCHING. ARP and neighbour advertisements go to ARP_SPOOFING, which passes those for
an address of the port with the MAC that belongs to it; then all packets go to MAC_SPOOFING, which passes the port's MACs.
Everything else is dropped. Ports that are filtered here and hybrid ports are checked alike.

On the tunnel bridge an ARP request for a known port of another host is turned into its reply, which leaves through the
in_port; no other host sees the request. A neighbour solicitation takes two passes through RESPONDER, as the switch lets a
flow set the advertisement's option only if the flow matches an advertisement. Only the userspace datapath can do that (see
`Responder`): with the kernel's datapath, solicitations are flooded and the port itself answers.
"""

from collections.abc import Collection, Iterable, Iterator
from ipaddress import ip_address, ip_network

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options, LocalPort
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, network_owner, port_owner
from neutrino.agent.l2.extensions.integration import MULTICAST, entries_of
from neutrino.caches import cached
from neutrino.dataplane.openflow.api import Flow
from neutrino.model import state

_ADVERTISEMENT = "icmp6,icmp_type=136"
_SOLICITED_OVERRIDE = 0x60000000  # flags of a solicited advertisement (RFC 4861)
# By IP version: the match of a request for an address, and of a probe whether an address is free.
_REQUESTS = {4: ("arp", "arp_spa=0.0.0.0"), 6: ("icmp6,icmp_type=135", "ipv6_src=::")}


class SpoofingGuard(L2Extension):
    name = "spoofing guard"

    def units(self, desired: Desired) -> Iterator[Unit]:
        for port in desired.ports:
            if port.secured:
                yield Unit(port_owner(port), (desired.options, port.ruleless), _guard)


class Responder(L2Extension):
    name = "arp responder"

    def units(self, desired: Desired) -> Iterator[Unit]:
        options, plugged = desired.options, desired.plugged
        if not (options.l2_population and options.arp_responder and plugged.patch_int):
            return
        # The kernel's datapath cannot turn a neighbour solicitation into an advertisement, and the switch rejects such a
        # flow. Requests that are not answered here are flooded to all hosts of the network.
        versions = (4, 6) if plugged.features.nd_extension else (4,)
        bridge = options.tunnel_bridge
        yield Unit("bridge", (bridge, versions), _requests)
        # Of a live migration an entry is of a port that is here too: it answers by itself.
        here = {port.id for port in desired.ports if port.migrating or port.id in desired.host_state.waiting}
        for network, known in desired.tunnel_networks:
            entries = tuple(entry for entry in known if entry.id not in here) if here else known
            # Within a VLAN of instances an address is another one; flows see the outer tag alone.
            if not network.carries_tags:
                yield Unit(network_owner(network), (bridge, network.vlan, entries, versions), _responses)


def _guard(options: L2Options, port: LocalPort) -> Contribution:
    arp, mac = pipeline.ARP_SPOOFING, pipeline.MAC_SPOOFING
    here = f"in_port={port.ofport}"
    flows = []
    for entry, before in entries_of(port):
        flows += [
            entry.flow(10, f"arp,{here}", *before, then=arp),
            entry.flow(10, f"{_ADVERTISEMENT},{here}", *before, then=arp),
            entry.flow(9, here, *before, then=mac),
        ]
    for address in sorted(port.macs):
        flows.append(mac.flow(2, f"{here},dl_src={address}", then=options.after_spoofing(port)))
        # RFC 5227: a client probes for its address before it uses it.
        probe = f"arp,{here},arp_op=1,arp_spa=0.0.0.0,dl_src={address},arp_sha={address}"
        flows.append(arp.flow(2, probe, then=mac))
    for address, prefix in sorted(port.sources):
        if ip_network(prefix).version == 4:
            match = f"arp,{here},dl_src={address},arp_sha={address},arp_spa={prefix}"
        else:
            match = f"{_ADVERTISEMENT},{here},dl_src={address},nd_target={prefix}"
        flows.append(arp.flow(2, match, then=mac))
    return Contribution({options.integration_bridge: flows})


def _requests(bridge: str, versions: Iterable[int]) -> Contribution:
    flows = []
    for request, probe in (_REQUESTS[version] for version in versions):
        flows.append(pipeline.PATCH.flow(2, f"{request},{MULTICAST}", then=pipeline.RESPONDER))
        # A probe whether an address is free goes to all hosts: a stale entry here would answer that it is taken, when
        # the address has just moved to the instance that probes for it.
        flows.append(pipeline.RESPONDER.flow(2, f"{request},{probe}", then=pipeline.FLOOD))
    return Contribution({bridge: flows})


def _responses(bridge: str, vlan: int, entries: Iterable[state.Forwarding], versions: Collection[int]) -> Contribution:
    """Replies for the ports of a network that are on other hosts, for addresses of these IP versions."""
    flows: dict[tuple[int, int, str], Flow] = {}
    for entry in entries:
        for address in entry.ip_addresses:
            version, answers = _answers(vlan, address, entry.mac_address)
            for flow in answers if version in versions else ():
                flows.setdefault(flow.key, flow)  # several entries, as in a live migration: the first by id
    return Contribution({bridge: flows.values()})


@cached(maxsize=65536)  # a change of one port renders all those of its network
def _answers(vlan: int, address: str, mac: str) -> tuple[int, tuple[Flow, ...]]:
    """The IP version of an address, and the flows that answer for it."""
    version = ip_address(address).version
    return version, (_arp_reply if version == 4 else _advertisement)(vlan, address, mac.lower())


def _arp_reply(vlan: int, address: str, mac: str) -> tuple[Flow, ...]:
    return (
        pipeline.RESPONDER.flow(
            1,
            f"arp,dl_vlan={vlan},arp_op=1,arp_tpa={address}",
            *arp_reply(address, mac),
        ),
    )


def arp_reply(address: str, mac: str) -> tuple[str, ...]:
    """The actions that turn an ARP request for an address into its reply, and send it back."""
    return (
        "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        f"set_field:{mac}->eth_src",
        "set_field:2->arp_op",
        "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]",
        "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]",
        f"set_field:{mac}->arp_sha",
        f"set_field:{address}->arp_spa",
        "IN_PORT",
    )


def _advertisement(vlan: int, address: str, mac: str) -> tuple[Flow, ...]:
    match = f"icmp6,dl_vlan={vlan},icmp_code=0,nd_target={address}"
    responder = pipeline.RESPONDER
    return (
        responder.flow(
            1,
            f"{match},icmp_type=135",
            "set_field:136->icmpv6_type",
            "set_field:2->nd_options_type",
            f"set_field:{_SOLICITED_OVERRIDE}->nd_reserved",
            then=responder,
        ),
        responder.flow(
            1,
            f"{match},icmp_type=136",
            "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
            f"set_field:{mac}->eth_src",
            "move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[]",
            f"set_field:{address}->ipv6_src",
            f"set_field:{mac}->nd_tll",
            "IN_PORT",
        ),
    )
