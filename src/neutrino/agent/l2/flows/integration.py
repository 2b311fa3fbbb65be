"""The integration bridge: ports to networks.

A packet from a port here enters LOCAL_SWITCHING, passes the spoofing tables if its port is secured (see `arp`), and in
TRANSIENT gets its port and local VLAN into registers. A filtered port's packets then go through the egress firewall (see
`firewall`), all others straight to ACCEPT_OR_INGRESS. There, a MAC that lives on a filtered port of this host sends the
packet into that port's ingress firewall; anything else is accepted and, in ACCEPTED_EGRESS_NORMAL, goes to the one port
that it can only be meant for: a port here, or the network's uplink. Of a broadcast or multicast, every port of the network
here gets a copy, through its ingress firewall if it has one, and the uplink another.

A packet from an uplink carries a tag. On a physical network that is the segment's, and LOCAL_SWITCHING puts the local
VLAN in its place or drops the packet; from tunnels the local VLAN is there already. TRANSIENT finds the port by VLAN and
MAC, takes the tag off and delivers, through the ingress firewall where there is one.

Why not NORMAL: packets that the firewall delivers by port number never pass NORMAL, so it never learns where remote MACs
are, or that a MAC has moved, and would flood every unicast packet to every port of the VLAN; and what it floods passes no
firewall. Where a network has a port without port security here, MACs that nobody but the port knows of are learned by
flows of our own: from that port, and from the uplink, whichever was heard last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import LocalNetwork, LocalPort, Uplink
from neutrino.agent.l2.flows.dhcp import render_copies
from neutrino.agent.l2.ownership import learned_cookie_of
from neutrino.agent.l2.pipeline import Bridge, Table
from neutrino.dataplane.openflow.api import Flow

_UNICAST = "dl_dst=00:00:00:00:00:00/01:00:00:00:00:00"
_MULTICAST = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
_TAGGED = "vlan_tci=0x1000/0x1000"
_UNTAGGED = "vlan_tci=0x0000/0x1fff"
_TOLD = 14  # the priority of MACs of ports here
_LEARNED = 11  # the priority of where a MAC was heard: below the MACs that we are told of, above not knowing
_LEARNED_FOR = 300  # seconds
_MOST_LEARNED = 4096  # by one owner: who makes up MACs fills this, and no more


def tag(vlan: int) -> str:
    """The action that puts a VLAN into a tag that is there."""
    return f"set_field:{0x1000 | vlan}->vlan_vid"


def push_tag(vlan: int) -> str:
    return f"push_vlan:0x8100,{tag(vlan)}"


def render_base(uplinks: Iterable[Uplink], patch_tun: int) -> tuple[Flow, ...]:
    """What the bridge does before any port is there: nothing crosses from a physical bridge untranslated.

    Only tunnels bring local VLANs. A device that nobody wired yet has no tag, so the switch would take any from it.
    """
    entry = pipeline.LOCAL_SWITCHING
    tunnels = [entry.flow(3, f"in_port={patch_tun}", then=pipeline.TRANSIENT)] if patch_tun else []
    return (
        *pipeline.miss_flows(Bridge.INTEGRATION),
        entry.flow(65535, f"dl_vlan={pipeline.DEAD_VLAN}", "drop"),
        *(entry.flow(2, f"in_port={uplink.integration_ofport}", "drop") for uplink in uplinks),
        *tunnels,
    )


def render_dead_port(ofport: int) -> tuple[Flow, ...]:
    """A port that is plugged and must not talk."""
    return (pipeline.LOCAL_SWITCHING.flow(65534, f"in_port={ofport}", "drop"),)


def render_port(port: LocalPort) -> tuple[Flow, ...]:
    """A port's packets on their way in. A port may not send tags: they would name other networks' VLANs."""
    registers = (f"set_field:{port.ofport}->{pipeline.REG_PORT}", f"set_field:{port.vlan}->{pipeline.REG_NET}")
    onward = pipeline.BASE_EGRESS if port.filtered else pipeline.ACCEPT_OR_INGRESS
    learning = (_learn_sender(f"port {port.id}"),) if port.harbours else ()
    entry, here = pipeline.LOCAL_SWITCHING, f"in_port={port.ofport}"
    unchecked = () if port.secured else (entry.flow(9, here, then=pipeline.TRANSIENT),)
    return (
        entry.flow(100, f"{here},{_TAGGED}", "drop"),
        *unchecked,
        pipeline.TRANSIENT.flow(100, here, *registers, *learning, then=onward),
    )


def _learn_sender(owner: str, *before: str) -> str:
    """That the sender's MAC is where its packet came from, on the network in REG_NET; `before` is done on the way there.

    What was learned goes with the flow that learned it: no number of a port or VLAN is remembered longer than it means
    the same.
    """
    settings = (
        f"table={pipeline.ACCEPTED_EGRESS_NORMAL.number},hard_timeout={_LEARNED_FOR},priority={_LEARNED},delete_learned,"
        f"cookie={learned_cookie_of(owner):#x},limit={_MOST_LEARNED}"
    )
    steps = ",".join((*before, "output:NXM_OF_IN_PORT[]"))
    return f"learn({settings},NXM_NX_REG6[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],{steps})"


def render_provisioning(network: LocalNetwork) -> tuple[Flow, ...]:
    """A segment of a physical network to its local VLAN."""
    entry, match = pipeline.LOCAL_SWITCHING, f"in_port={network.uplink}"
    if network.key.network_type == "vlan":
        segment = f"{match},dl_vlan={network.key.segmentation_id}"
        return (entry.flow(3, segment, tag(network.vlan), then=pipeline.TRANSIENT),)
    if network.key.network_type == "flat":
        return (entry.flow(3, f"{match},{_UNTAGGED}", push_tag(network.vlan), then=pipeline.TRANSIENT),)
    return ()


def render_delivery(network: LocalNetwork, ports: Iterable[LocalPort]) -> tuple[Flow, ...]:
    """Packets of a network to its ports here by MAC, and the rest of its unicast to the uplink.

    An address pair's MAC may live on several ports, here and elsewhere, such as that of a VRRP router: packets to it go
    to all of them. A MAC that is a port's own is that port's alone, whatever pairs others have.

    A replicated port, as those of an HA router, has its MAC on several hosts, and one of them is active: which one is not
    told but learned, from the port here and from the uplink. So a router that moves takes its MAC along with its first
    packet, and asks no server.
    """
    present = tuple(ports)
    flows: list[Flow] = []
    own = {port.mac for port in present}
    owners: defaultdict[str, list[LocalPort]] = defaultdict(list)
    for port in sorted((each for each in present if not each.replicated), key=lambda entry: entry.ofport):
        for mac in port.macs:
            if mac == port.mac or mac not in own:
                owners[mac].append(port)
    entering = _entering(network, present)
    for mac, holders in sorted(owners.items()):
        flows += _render_mac(network.vlan, mac, holders, entering, shared=mac not in own)
    return (
        *flows,
        *_render_multicast(network, present, entering),
        *_render_unknown(network, present, entering),
        *render_copies(network, present),
    )


def _entering(network: LocalNetwork, ports: tuple[LocalPort, ...]) -> list[str]:
    """What is done first with a packet from the uplink: noted on which network it is, and the local VLAN taken off.

    Where a MAC may be behind a port here, it is also noted which MACs are not, or not any more.
    """
    net = f"set_field:{network.vlan}->{pipeline.REG_NET}"
    if not any(port.harbours for port in ports):
        return [net, "pop_vlan"]
    owner = f"network {network.key.network_id} {network.vlan}"
    return [net, _learn_sender(owner, "load:NXM_OF_VLAN_TCI[]->NXM_OF_VLAN_TCI[]"), "pop_vlan"]


def _render_unknown(network: LocalNetwork, ports: tuple[LocalPort, ...], entering: list[str]) -> list[Flow]:
    """Unicast to a MAC of which we have neither been told nor heard: out, and not in.

    Only behind a port without port security may any MAC live: those get it too, wherever it came from.
    """
    behind = [f"output:{port.ofport}" for port in sorted(ports, key=lambda port: port.ofport) if port.harbours]
    outward = [push_tag(network.vlan), f"output:{network.uplink}"] if network.uplink else []
    unknown, from_uplink = pipeline.ACCEPTED_EGRESS_NORMAL, pipeline.TRANSIENT
    arriving = f"dl_vlan={network.vlan},{_UNICAST}"
    return [
        unknown.flow(10, f"{pipeline.REG_NET}={network.vlan},{_UNICAST}", *(behind + outward or ["drop"])),
        from_uplink.flow(80, arriving, *entering, then=unknown) if behind else from_uplink.flow(80, arriving, "drop"),
    ]


def _render_multicast(network: LocalNetwork, ports: tuple[LocalPort, ...], entering: list[str]) -> list[Flow]:
    """Broadcast and multicast: a copy for every port; the switch itself keeps it from going back to its sender."""
    everyone = sorted(ports, key=lambda port: port.ofport)
    from_uplink, local, outside = pipeline.TRANSIENT, pipeline.ACCEPT_OR_INGRESS, pipeline.ACCEPTED_EGRESS_NORMAL
    here = f"{pipeline.REG_NET}={network.vlan},{_MULTICAST}"
    copies = ",".join(["ct_clear", *_deliver(local, everyone)])
    outward = [push_tag(network.vlan), f"output:{network.uplink}"] if network.uplink else ["drop"]
    arriving = f"dl_vlan={network.vlan},{_MULTICAST}"
    return [
        from_uplink.flow(85, arriving, *entering, *_deliver(from_uplink, _beside_copies(everyone))),
        local.flow(95, here, f"clone({copies})", then=pipeline.ACCEPTED_EGRESS),
        outside.flow(10, here, *outward),
    ]


def _render_mac(vlan: int, mac: str, holders: list[LocalPort], entering: list[str], *, shared: bool) -> list[Flow]:
    from_uplink, local = pipeline.TRANSIENT, pipeline.ACCEPT_OR_INGRESS
    here = f"{pipeline.REG_NET}={vlan},dl_dst={mac}"
    flows = [
        from_uplink.flow(90, f"dl_vlan={vlan},dl_dst={mac}", *entering, *_deliver(from_uplink, _beside_copies(holders)))
    ]
    if shared or any(port.filtered for port in holders):
        # The receiver's firewall judges for itself, so what the sender's knew of the connection is cleared.
        deliver = ",".join(["ct_clear", *_deliver(local, holders)])
        # A shared MAC may live on another host as well.
        actions = [f"clone({deliver})", local.goto(pipeline.ACCEPTED_EGRESS)] if shared else [deliver]
        flows.append(local.flow(100, here, *actions))
    else:
        outputs = (f"output:{port.ofport}" for port in holders)
        flows.append(pipeline.ACCEPTED_EGRESS_NORMAL.flow(_TOLD, here, *outputs))
    return flows


def _beside_copies(ports: list[LocalPort]) -> list[LocalPort]:
    """Those that hear of what is outside."""
    return [port for port in ports if not port.copy]


def _deliver(here: Table, holders: list[LocalPort]) -> list[str]:
    actions = [f"output:{port.ofport}" for port in holders if not port.filtered]
    for port in holders:
        if port.filtered:
            actions.append(f"set_field:{port.ofport}->{pipeline.REG_PORT}")
            actions.append(here.goto(pipeline.BASE_INGRESS))
    return actions
