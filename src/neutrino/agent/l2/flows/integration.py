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

Why not NORMAL throughout: packets that the firewall delivers by port number never pass NORMAL, so it never learns where
remote MACs are, and would flood every unicast packet to every port of the VLAN; and what it floods passes no firewall. It
is left for networks that have a port without port security here, for MACs that nobody but the port knows of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import LocalNetwork, LocalPort, Uplink
from neutrino.agent.l2.pipeline import Bridge, Table
from neutrino.dataplane.openflow.api import Flow

_UNICAST = "dl_dst=00:00:00:00:00:00/01:00:00:00:00:00"
_MULTICAST = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
_TAGGED = "vlan_tci=0x1000/0x1000"
_UNTAGGED = "vlan_tci=0x0000/0x1fff"


def tag(vlan: int) -> str:
    """The action that puts a VLAN into a tag that is there."""
    return f"set_field:{0x1000 | vlan}->vlan_vid"


def push_tag(vlan: int) -> str:
    return f"push_vlan:0x8100,{tag(vlan)}"


def render_base(uplinks: Iterable[Uplink]) -> tuple[Flow, ...]:
    """What the bridge does before any port is there: nothing crosses from a physical bridge untranslated."""
    entry = pipeline.LOCAL_SWITCHING
    return (
        *pipeline.miss_flows(Bridge.INTEGRATION),
        entry.flow(65535, f"dl_vlan={pipeline.DEAD_VLAN}", "drop"),
        *(entry.flow(2, f"in_port={uplink.integration_ofport}", "drop") for uplink in uplinks),
    )


def render_dead_port(ofport: int) -> tuple[Flow, ...]:
    """A port that is plugged and must not talk."""
    return (pipeline.LOCAL_SWITCHING.flow(65534, f"in_port={ofport}", "drop"),)


def render_port(port: LocalPort) -> tuple[Flow, ...]:
    """A port's packets on their way in. A port may not send tags: they would name other networks' VLANs."""
    registers = (f"set_field:{port.ofport}->{pipeline.REG_PORT}", f"set_field:{port.vlan}->{pipeline.REG_NET}")
    onward = pipeline.BASE_EGRESS if port.filtered else pipeline.ACCEPT_OR_INGRESS
    return (
        pipeline.LOCAL_SWITCHING.flow(100, f"in_port={port.ofport},{_TAGGED}", "drop"),
        pipeline.TRANSIENT.flow(100, f"in_port={port.ofport}", *registers, then=onward),
    )


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
    """
    present = tuple(ports)
    flows: list[Flow] = []
    own = {port.mac for port in present}
    owners: defaultdict[str, list[LocalPort]] = defaultdict(list)
    for port in sorted(present, key=lambda entry: entry.ofport):
        for mac in port.macs:
            if mac == port.mac or mac not in own:
                owners[mac].append(port)
    for mac, holders in sorted(owners.items()):
        flows += _render_mac(network.vlan, mac, holders, shared=mac not in own)
    return (*flows, *_render_multicast(network, present), *_render_unknown(network, present))


def _render_unknown(network: LocalNetwork, ports: tuple[LocalPort, ...]) -> list[Flow]:
    """Unicast to a MAC that is on none of our ports: out, and not in.

    Behind a port without port security any MAC may live: where there is one, NORMAL has to learn and to flood.
    """
    if not all(port.secured or port.trusted for port in ports):
        return []
    outward = [push_tag(network.vlan), f"output:{network.uplink}"] if network.uplink else ["drop"]
    normal, from_uplink = pipeline.ACCEPTED_EGRESS_NORMAL, pipeline.TRANSIENT
    return [
        normal.flow(10, f"{pipeline.REG_NET}={network.vlan},{_UNICAST}", *outward),
        from_uplink.flow(80, f"dl_vlan={network.vlan},{_UNICAST}", "drop"),
    ]


def _render_multicast(network: LocalNetwork, ports: tuple[LocalPort, ...]) -> list[Flow]:
    """Broadcast and multicast: a copy for every port; the switch itself keeps it from going back to its sender."""
    everyone = sorted(ports, key=lambda port: port.ofport)
    from_uplink, local, normal = pipeline.TRANSIENT, pipeline.ACCEPT_OR_INGRESS, pipeline.ACCEPTED_EGRESS_NORMAL
    net = f"set_field:{network.vlan}->{pipeline.REG_NET}"
    here = f"{pipeline.REG_NET}={network.vlan},{_MULTICAST}"
    copies = ",".join(["ct_clear", *_deliver(local, everyone)])
    outward = [push_tag(network.vlan), f"output:{network.uplink}"] if network.uplink else ["drop"]
    arriving = f"dl_vlan={network.vlan},{_MULTICAST}"
    return [
        from_uplink.flow(85, arriving, net, "pop_vlan", *_deliver(from_uplink, everyone)),
        local.flow(95, here, f"clone({copies})", then=pipeline.ACCEPTED_EGRESS),
        normal.flow(10, here, *outward),
    ]


def _render_mac(vlan: int, mac: str, holders: list[LocalPort], *, shared: bool) -> list[Flow]:
    from_uplink, local = pipeline.TRANSIENT, pipeline.ACCEPT_OR_INGRESS
    net = f"set_field:{vlan}->{pipeline.REG_NET}"
    here = f"{pipeline.REG_NET}={vlan},dl_dst={mac}"
    flows = [from_uplink.flow(90, f"dl_vlan={vlan},dl_dst={mac}", net, "pop_vlan", *_deliver(from_uplink, holders))]
    if any(port.filtered for port in holders):
        # The receiver's firewall judges for itself, so what the sender's knew of the connection is cleared.
        deliver = ",".join(["ct_clear", *_deliver(local, holders)])
        # A shared MAC may live on another host as well.
        actions = [f"clone({deliver})", local.goto(pipeline.ACCEPTED_EGRESS)] if shared else [deliver]
        flows.append(local.flow(100, here, *actions))
    elif not shared:
        outputs = (f"output:{port.ofport}" for port in holders)
        flows.append(pipeline.ACCEPTED_EGRESS_NORMAL.flow(12, here, *outputs))
    return flows


def _deliver(here: Table, holders: list[LocalPort]) -> list[str]:
    actions = [f"output:{port.ofport}" for port in holders if not port.filtered]
    for port in holders:
        if port.filtered:
            actions.append(f"set_field:{port.ofport}->{pipeline.REG_PORT}")
            actions.append(here.goto(pipeline.BASE_INGRESS))
    return actions
