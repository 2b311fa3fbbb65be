"""Switching on the integration bridge and the physical networks' bridges: packets between ports, networks and segments.

A packet from a port enters LOCAL_SWITCHING, passes the spoofing tables if the port is secured (see `arp`) and the
extensions' tables, and in TRANSIENT gets its port and local VLAN into registers. A filtered port's packets then pass the
egress firewall (see `firewall`), all others go to ACCEPT_OR_INGRESS. There, a MAC of a filtered port of this host sends the
packet into that port's ingress firewall; anything else is accepted and, in ACCEPTED_EGRESS_NORMAL, goes to the only place
it can be meant for: a port here, or the network's uplink. A broadcast or multicast is copied to every port of the network
here, through its ingress firewall if it has one, and to the uplink.

A packet from an uplink carries a tag. On a physical network it is the segment's, and LOCAL_SWITCHING replaces it by the
local VLAN or drops the packet; packets from tunnels have the local VLAN already. TRANSIENT finds the port by VLAN and MAC,
pops the tag and delivers, through the ingress firewall where there is one. On the physical network's bridge the opposite:
VLAN_TRANSLATION replaces the local VLAN by the segment's tag, or pops it on a flat network; packets from outside are
NORMAL.

Why not NORMAL on the integration bridge: packets that the firewall delivers by port number never pass NORMAL, so it never
learns where remote MACs are or that one has moved, and would flood every unicast packet to all ports of the VLAN, past
their firewalls. Where a network has a port without port security here, our own flows learn MACs: from that port and from
the uplink, whichever sent last.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options, LocalNetwork, LocalPort, Uplink
from neutrino.agent.l2.extension_api import (
    Contribution,
    L2Extension,
    Unit,
    learned_cookie_of,
    network_owner,
    port_owner,
)
from neutrino.agent.l2.packets import CONTROLLER_ID, COPIED_BYTES, DHCP_REQUESTS
from neutrino.agent.l2.pipeline import Bridge, Table, enter_ingress
from neutrino.dataplane.openflow.api import Flow

UNICAST = "dl_dst=00:00:00:00:00:00/01:00:00:00:00:00"
MULTICAST = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
UNTAGGED = "vlan_tci=0x0000/0x1fff"
LEARNED_SECONDS = 300  # as in Neutron's flows; also the default MAC aging time of Open vSwitch
_TAGGED = "vlan_tci=0x1000/0x1000"  # in the switch, this bit says that there is a tag
# Priorities in ACCEPTED_EGRESS_NORMAL: MACs of ports here, then limits of DHCP copies, then learned MACs, then unknown.
_KNOWN_MAC, _COPY_LIMIT, _LEARNED_MAC, _UNKNOWN_MAC = 14, 13, 11, 10
_MAX_LEARNED = 4096  # for each learning flow: an instance that invents MACs fills its own quota only
DOT1Q, DOT1AD = 0x8100, 0x88A8  # Ethernet types of tags


class Switching(L2Extension):
    name = "switching"

    def units(self, desired: Desired) -> Iterator[Unit]:
        options, plugged = desired.options, desired.plugged
        yield Unit("bridge", (options, plugged.uplinks, plugged.patch_tun), _base)
        for ofport in desired.dead:
            yield Unit(f"dead port {ofport}", (options, ofport), _dead_port)
        ports: defaultdict[int, list[LocalPort]] = defaultdict(list)
        # Networks with a port whose MACs are learned into a register.
        by_register = {port.vlan for port in desired.ports if _learns_by_register([port])}
        for port in desired.ports:
            yield Unit(port_owner(port), (options, port, port.vlan in by_register), _port)
            if not port.standby:
                ports[port.vlan].append(port.ruleless)
        for network in desired.networks:
            yield Unit(network_owner(network), (options, network, tuple(ports[network.vlan])), _network)


class DhcpCopies(L2Extension):
    """Copies of a DHCP port: each answers the ports of its own host, and no packet of it leaves the host.

    Several hosts have the same DHCP port, with the same MAC and addresses (`dhcp_distributed`). A request from a port here
    is flooded to the ports here, the copy among them, and not to other hosts, where it would be answered again. Replies of
    the copy go to ports here only, else switches outside would see its MAC in several places. Packets from outside are not
    delivered to the copy (see `_deliver`): they are for the host to which the network is scheduled.
    """

    name = "dhcp copies"

    def units(self, desired: Desired) -> Iterator[Unit]:
        copies: defaultdict[int, list[int]] = defaultdict(list)
        for port in desired.ports:
            if port.copy:
                copies[port.vlan].append(port.ofport)
        for network in desired.networks:
            if network.vlan in copies:
                inputs = desired.options, network.vlan, tuple(copies[network.vlan])
                yield Unit(network_owner(network), inputs, _copies)


class Physical(L2Extension):
    """The bridges of physical networks: local VLANs to the tags of segments."""

    name = "physical networks"

    def units(self, desired: Desired) -> Iterator[Unit]:
        uplinks = desired.plugged.uplinks
        if uplinks:
            yield Unit("bridge", (uplinks,), _physical_base)
        by_ofport = {uplink.integration_ofport: uplink for uplink in uplinks}
        for network in desired.networks:
            uplink = by_ofport.get(network.uplink)
            if uplink is not None and network.is_physical:
                yield Unit(network_owner(network), (network, uplink), _physical_network)


def set_tag(vlan: int) -> str:
    """The action that sets the VLAN of a tag that is there."""
    return f"set_field:{0x1000 | vlan}->vlan_vid"


def push_tag(vlan: int, ether_type: int = DOT1Q) -> str:
    return f"push_vlan:{ether_type:#x},{set_tag(vlan)}"


def segment_match(network: LocalNetwork) -> tuple[str, str]:
    """The match of a physical segment's packets from the uplink, and the action that gives them the local VLAN."""
    if network.key.network_type == "vlan":
        return f"in_port={network.uplink},dl_vlan={network.key.segmentation_id}", set_tag(network.vlan)
    return f"in_port={network.uplink},{UNTAGGED}", push_tag(network.vlan)


def _physical_base(uplinks: Iterable[Uplink]) -> Contribution:
    entry, missed = pipeline.PHYSICAL_ENTRY, pipeline.miss_flows(Bridge.PHYSICAL)
    flows = {}
    for uplink in uplinks:
        from_integration = entry.flow(2, f"in_port={uplink.physical_ofport}", then=pipeline.VLAN_TRANSLATION)
        flows[uplink.bridge] = [*missed, from_integration]
    return Contribution(flows)


def _physical_network(network: LocalNetwork, uplink: Uplink) -> Contribution:
    tag = network.key.segmentation_id
    if network.qinq:
        action = f"pop_vlan,{push_tag(tag, DOT1AD)}"
    else:
        action = set_tag(tag) if network.key.network_type == "vlan" else "pop_vlan"
    match = f"in_port={uplink.physical_ofport},dl_vlan={network.vlan}"
    return Contribution({uplink.bridge: [pipeline.VLAN_TRANSLATION.flow(4, match, action, "NORMAL")]})


def _base(options: L2Options, uplinks: Iterable[Uplink], patch_tun: int) -> Contribution:
    """The bridge without any port. Nothing crosses from a physical bridge untranslated; only tunnels bring local VLANs.

    A device that is plugged and not wired yet has no tag, so the switch would accept any tag from it.
    """
    entry = pipeline.LOCAL_SWITCHING
    flows = [
        *pipeline.miss_flows(Bridge.INTEGRATION),
        *(table.flow(0, "", then=options.after_extension(table)) for table in options.extension_tables),
        *(table.flow(0, "", then=options.after_ingress(table)) for table in options.ingress_tables),
        # Above everything else: ports in the dead VLAN must not reach each other, whatever flows of theirs are left.
        entry.flow(65535, f"dl_vlan={pipeline.DEAD_VLAN}", "drop"),
        *(entry.flow(2, f"in_port={uplink.integration_ofport}", "drop") for uplink in uplinks),
    ]
    if patch_tun:
        flows.append(entry.flow(3, f"in_port={patch_tun}", then=pipeline.TRANSIENT))
    return Contribution({options.integration_bridge: flows})


def _dead_port(options: L2Options, ofport: int) -> Contribution:
    """A port that is plugged and must not talk."""
    dropped = pipeline.LOCAL_SWITCHING.flow(65534, f"in_port={ofport}", "drop")
    return Contribution({options.integration_bridge: [dropped]})


def _port(options: L2Options, port: LocalPort, by_register: bool) -> Contribution:
    """Packets from a port. It may not send tags, unless its network carries them (see `entries_of`)."""
    registers = (f"set_field:{port.ofport}->{pipeline.REG_PORT}", f"set_field:{port.vlan}->{pipeline.REG_NET}")
    onward = pipeline.BASE_EGRESS if port.filtered else pipeline.ACCEPT_OR_INGRESS
    learning = (_learn_sender(port_owner(port), by_register=by_register),) if port.learns_macs else ()
    entry, here = pipeline.LOCAL_SWITCHING, f"in_port={port.ofport}"
    # The first packet of an instance that arrives by live migration is copied to the agent: see `migrations`.
    arriving = (f"controller(max_len={COPIED_BYTES},id={CONTROLLER_ID})",) if port.standby else ()
    flows = [pipeline.TRANSIENT.flow(100, here, *arriving, *registers, *learning, then=onward)]
    # Above the guard's flows, which lead on whatever the tag.
    if port.sends_tags:
        save = f"move:NXM_OF_VLAN_TCI[]->{pipeline.REG_TAG}"
        flows.append(entry.flow(100, f"{here},{_TAGGED}", save, "pop_vlan", then=pipeline.ONE_TAG))
        flows.append(pipeline.ONE_TAG.flow(100, f"{here},{_TAGGED}", "drop"))
    else:
        flows.append(entry.flow(100, f"{here},{_TAGGED}", "drop"))
    if not port.secured:  # of a secured port, the spoofing guard leads on
        flows += [table.flow(9, here, *before, then=options.after_spoofing(port)) for table, before in entries_of(port)]
    return Contribution({options.integration_bridge: flows})


def entries_of(port: LocalPort) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """The tables from which a port's packets are led on, each with its first actions.

    A frame with a tag of the instance passes ONE_TAG, which drops it if there is a second tag behind: the switch handles
    two, of which one is the network's, and would lose the third. So the tag is popped, and pushed again from REG_TAG. It
    is never taken for a local VLAN: of a packet from a port, the in_port alone decides the network.

    In userspace a megaflow cannot match that there is no second tag (Open vSwitch 3.1): while frames with one tag are
    sent, frames with two to the same receiver may follow them.
    """
    yield pipeline.LOCAL_SWITCHING, ()
    if port.sends_tags:
        yield pipeline.ONE_TAG, (f"push_vlan:{DOT1Q:#x}", f"move:{pipeline.REG_TAG}->NXM_OF_VLAN_TCI[]")


def _learn_sender(owner: str, *before: str, by_register: bool = False) -> str:
    """Learn that the sender's MAC is at the packet's in_port, on the network in REG_NET; `before` prepares the delivery.

    `delete_learned`: learned flows are deleted with the flow that learned them. Otherwise one would outlive the meaning of
    its ofport or VLAN and deliver to another instance.

    `by_register`: a learned flow can output a packet, but not lead it to the extensions' tables. So it writes the port into
    REG_PORT, and flows of the network deliver (see `_render_learned`).
    """
    table = pipeline.LEARNED if by_register else pipeline.ACCEPTED_EGRESS_NORMAL
    settings = (
        f"table={table.number},hard_timeout={LEARNED_SECONDS},priority={_LEARNED_MAC},"
        f"delete_learned,cookie={learned_cookie_of(owner):#x},limit={_MAX_LEARNED}"
    )
    place = "load:NXM_OF_IN_PORT[]->NXM_NX_REG5[0..15]"
    steps = place if by_register else ",".join((*before, "output:NXM_OF_IN_PORT[]"))
    return f"learn({settings},NXM_NX_REG6[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],{steps})"


def _network(options: L2Options, network: LocalNetwork, ports: tuple[LocalPort, ...]) -> Contribution:
    """Packets of a network to its ports here by MAC, and the rest of its unicast to the uplink.

    The MAC of an address pair may be on several ports, here and elsewhere, such as a VRRP router's: packets to it go to all
    of them. A port's own MAC is that port's alone, whatever pairs others have.

    Packets to a port whose instance is moving to another host, by live migration, go to both hosts until it has arrived:
    so none is lost while the server and the other hosts do not know yet.

    A replicated port, such as an HA router's, has its MAC on several hosts and is active on one. Which one is learned from
    packets of the port here and of the uplink, so that a failover needs no message from the server.
    """
    here = sorted(ports, key=lambda port: port.ofport)
    own = {port.mac for port in here}
    owners: defaultdict[str, list[LocalPort]] = defaultdict(list)
    for port in here:
        for mac in port.macs if not port.replicated else ():
            if mac == port.mac or mac not in own:  # a pair must not divert packets for another port's own MAC
                owners[mac].append(port)
    entering = _from_uplink(network, here)
    entry = options.ingress_entry
    flows = [*_render_flooding(network, here, entering, entry)]
    for mac, holders in owners.items():
        shared = mac not in own or any(port.migrating for port in holders)
        flows += _render_mac(network.vlan, mac, holders, entering, entry, shared=shared)
    if network.is_physical:
        match, action = segment_match(network)
        flows.append(pipeline.LOCAL_SWITCHING.flow(3, match, action, then=pipeline.TRANSIENT))
    return Contribution({options.integration_bridge: flows})


def _from_uplink(network: LocalNetwork, ports: list[LocalPort]) -> list[str]:
    """The first actions for a packet from the uplink: the network into its register, the local VLAN popped.

    Where MACs may be behind a port here, also learn that the sender's is at the uplink: it may have moved away.
    """
    register = f"set_field:{network.vlan}->{pipeline.REG_NET}"
    if not any(port.learns_macs for port in ports):
        return [register, "pop_vlan"]
    keep_tag = "load:NXM_OF_VLAN_TCI[]->NXM_OF_VLAN_TCI[]"  # the uplink needs the local VLAN's tag
    learning = _learn_sender(network_owner(network), keep_tag, by_register=_learns_by_register(ports))
    return [register, learning, "pop_vlan"]


def _learns_by_register(ports: Iterable[LocalPort]) -> bool:
    """Whether learned flows cannot deliver: packets pass extensions' tables, or may have the tag of an instance, which a
    learned flow would replace by the local VLAN."""
    return any((port.ingress_extensions or port.sends_tags) and port.learns_macs for port in ports)


def _render_flooding(
    network: LocalNetwork, ports: list[LocalPort], entering: list[str], ingress: Table
) -> Iterator[Flow]:
    """Broadcast and multicast: a copy for every port and the uplink. The switch itself never outputs to the in_port.

    Unicast to an unknown MAC: to the uplink, and not from the uplink to ports. Ports without port security get it too,
    wherever it came from, as any MAC may be behind them.
    """
    transient, local, outside = pipeline.TRANSIENT, pipeline.ACCEPT_OR_INGRESS, pipeline.ACCEPTED_EGRESS_NORMAL
    arriving, here = f"dl_vlan={network.vlan}", f"{pipeline.REG_NET}={network.vlan}"
    outward = [push_tag(network.vlan), f"output:{network.uplink}"] if network.uplink else []
    # In a clone: the packet itself goes on with its connection state, by which ACCEPTED_EGRESS commits it.
    copies = ",".join(["ct_clear", *_deliver(local, ports, ingress, several=True)])
    yield transient.flow(85, f"{arriving},{MULTICAST}", *entering, *_deliver(transient, ports, ingress, several=True))
    yield local.flow(95, f"{here},{MULTICAST}", f"clone({copies})", then=pipeline.ACCEPTED_EGRESS)
    yield outside.flow(_UNKNOWN_MAC, f"{here},{MULTICAST}", *(outward or ["drop"]))
    behind = [port for port in ports if port.learns_macs]
    if _learns_by_register(ports):
        look_up = f"set_field:0->{pipeline.REG_PORT}", outside.goto(pipeline.LEARNED)
        yield outside.flow(_UNKNOWN_MAC, f"{here},{UNICAST}", *look_up, then=pipeline.TO_LEARNED)
        yield from _render_learned(network, behind, outward, ingress)
    else:
        outputs = [f"output:{port.ofport}" for port in behind]
        yield outside.flow(_UNKNOWN_MAC, f"{here},{UNICAST}", *(outputs + outward or ["drop"]))
    onward = [*entering, transient.goto(outside)] if behind else ["drop"]
    yield transient.flow(80, f"{arriving},{UNICAST}", *onward)


def _render_learned(
    network: LocalNetwork, behind: list[LocalPort], outward: list[str], ingress: Table
) -> Iterator[Flow]:
    """Unicast to a MAC that LEARNED has put the place of into REG_PORT: 0 for an unknown one."""
    table = pipeline.TO_LEARNED
    here = f"{pipeline.REG_NET}={network.vlan},{pipeline.REG_PORT}"
    # The uplink first: it gets the packet whatever an extension does with the copies.
    everywhere = [
        *([f"clone({','.join(outward)})"] if outward else []),
        *_outputs(table, behind, ingress, several=True),
    ]
    yield table.flow(1, f"{here}=0", *everywhere)
    for port in behind:
        yield table.flow(1, f"{here}={port.ofport}", *_outputs(table, [port], ingress, several=False))
    if outward:
        yield table.flow(1, f"{here}={network.uplink}", *outward)


def _render_mac(
    vlan: int, mac: str, holders: list[LocalPort], entering: list[str], ingress: Table, *, shared: bool
) -> Iterator[Flow]:
    transient, local = pipeline.TRANSIENT, pipeline.ACCEPT_OR_INGRESS
    here = f"{pipeline.REG_NET}={vlan},dl_dst={mac}"
    deliver = _deliver(transient, holders, ingress, several=len(holders) > 1)
    yield transient.flow(90, f"dl_vlan={vlan},dl_dst={mac}", *entering, *deliver)
    if shared or any(port.filtered for port in holders):
        # A tracked packet keeps its state: the firewalls of both ports share the network's zone, so tracking it again would
        # find the same, at the cost of a pass through conntrack and the datapath for every packet. ct_clear where the
        # receiver may pass packets by stateless rules, or may see no state at all: these match untracked packets.
        keeps = not shared and all(port.tracks_all for port in holders)
        deliver = [*(() if keeps else ("ct_clear",)), *_deliver(local, holders, ingress, several=shared)]
        # A shared MAC may be on another host as well.
        actions = [f"clone({','.join(deliver)})", local.goto(pipeline.ACCEPTED_EGRESS)] if shared else deliver
        yield local.flow(100, here, *actions)
    else:
        outside = pipeline.ACCEPTED_EGRESS_NORMAL
        yield outside.flow(_KNOWN_MAC, here, *_outputs(outside, holders, ingress, several=len(holders) > 1))


def _deliver(here: Table, ports: list[LocalPort], ingress: Table, *, several: bool) -> list[str]:
    """The actions that deliver a packet to ports, in TRANSIENT one from outside the host: not to copies of DHCP ports.

    `several`: it may have more than one receiver, here or elsewhere.
    """
    receivers = [port for port in ports if not (port.copy and here is pipeline.TRANSIENT)]
    filtered = [port for port in receivers if port.filtered]
    actions = _outputs(here, [port for port in receivers if not port.filtered], ingress, several=several)
    if several and any(port.ingress_extensions for port in filtered):
        actions.append(f"set_field:1->{pipeline.REG_COPIES}")
    for port in filtered:
        actions += [f"set_field:{port.ofport}->{pipeline.REG_PORT}", here.goto(pipeline.BASE_INGRESS)]
    return actions


def _outputs(here: Table, ports: list[LocalPort], ingress: Table, *, several: bool) -> list[str]:
    """The actions that output a packet to ports that no firewall of the bridge is in front of."""
    copies = (f"set_field:1->{pipeline.REG_COPIES}",) if several else ()
    return [
        enter_ingress(here, ingress, f"set_field:{port.ofport}->{pipeline.REG_PORT}", *copies)
        if port.ingress_extensions
        else f"output:{port.ofport}"
        for port in ports
    ]


def _copies(options: L2Options, vlan: int, ofports: tuple[int, ...]) -> Contribution:
    matches = [f"in_port={ofport}" for ofport in ofports]
    matches += [f"{request},{pipeline.REG_NET}={vlan},{MULTICAST}" for request in DHCP_REQUESTS]
    dropped = (pipeline.ACCEPTED_EGRESS_NORMAL.flow(_COPY_LIMIT, match, "drop") for match in matches)
    return Contribution({options.integration_bridge: dropped})
