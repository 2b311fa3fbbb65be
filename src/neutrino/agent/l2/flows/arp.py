"""Answers and lies about neighbours: spoofing checks on the way in, and the responder before tunnels.

A secured port's packet enters LOCAL_SWITCHING. ARP and neighbour advertisements go to ARP_SPOOFING, which lets pass what
speaks of an address of the port under the MAC that goes with it; then all packets go to MAC_SPOOFING, which lets pass the
port's MACs. What does not pass is dropped. Ports filtered here and hybrid ports are checked alike.

On the tunnel bridge an ARP request that asks for a known port is turned around: its own fields, swapped and filled with
the answer, leave where it came in, and no other host sees it. A neighbour solicitation takes two passes through
RESPONDER, as the switch lets a flow fill in the answer's option only if it matches an advertisement. Only the userspace
datapath can do that (see `tunnel.answered_versions`): on the kernel's, the port that is asked for answers itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import ip_address, ip_network

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import LocalPort
from neutrino.dataplane.openflow.api import Flow
from neutrino.model import state

_ADVERTISEMENT = "icmp6,icmp_type=136"
_SOLICITED_OVERRIDE = 0x60000000


def render_spoofing(port: LocalPort) -> tuple[Flow, ...]:
    if not port.secured:
        return ()
    entry, arp, mac = pipeline.LOCAL_SWITCHING, pipeline.ARP_SPOOFING, pipeline.MAC_SPOOFING
    here = f"in_port={port.ofport}"
    flows = [
        entry.flow(10, f"arp,{here}", then=arp),
        entry.flow(10, f"{_ADVERTISEMENT},{here}", then=arp),
        entry.flow(9, here, then=mac),
    ]
    for address in sorted(port.macs):
        flows.append(mac.flow(2, f"{here},dl_src={address}", then=pipeline.TRANSIENT))
        # A machine asks whether its address is taken before it has it.
        probe = f"arp,{here},arp_op=1,arp_spa=0.0.0.0,dl_src={address},arp_sha={address}"
        flows.append(arp.flow(2, probe, then=mac))
    for address, prefix in sorted(port.sources):
        if ip_network(prefix).version == 4:
            match = f"arp,{here},dl_src={address},arp_sha={address},arp_spa={prefix}"
        else:
            match = f"{_ADVERTISEMENT},{here},dl_src={address},nd_target={prefix}"
        flows.append(arp.flow(2, match, then=mac))
    return tuple(flows)


def render_responses(vlan: int, entries: Iterable[state.Forwarding], versions: Collection[int]) -> tuple[Flow, ...]:
    """Answers in the name of the ports of a network that are on other hosts, for addresses of these IP versions."""
    flows: dict[tuple[int, int, str], Flow] = {}
    for entry in sorted(entries, key=lambda known: known.id):
        for address in entry.ip_addresses:
            if "/" in address:
                continue  # a range has no one who answers for it
            version = ip_address(address).version
            if version not in versions:
                continue
            made = _arp_answer if version == 4 else _neighbour_answer
            for flow in made(vlan, address, entry.mac_address.lower()):
                flows.setdefault(flow.key, flow)
    return tuple(flows.values())


def _arp_answer(vlan: int, address: str, mac: str) -> tuple[Flow, ...]:
    return (
        pipeline.RESPONDER.flow(
            1,
            f"arp,dl_vlan={vlan},arp_op=1,arp_tpa={address}",
            "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
            f"set_field:{mac}->eth_src",
            "set_field:2->arp_op",
            "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]",
            "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]",
            f"set_field:{mac}->arp_sha",
            f"set_field:{address}->arp_spa",
            "IN_PORT",
        ),
    )


def _neighbour_answer(vlan: int, address: str, mac: str) -> tuple[Flow, ...]:
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
