"""A packet in Open vSwitch: traced by the switch itself, from a port of a bridge to all ports by which copies leave.

Conntrack: the switch's trace stops where a packet is sent to conntrack, and would resume it with a state alone. Flows of
firewall groups match by the connection's first packet too, so each copy is resumed by a trace of its own, with registers,
state and first packet (`packets.resumed_text`). A packet counts as the first of its connection, or as a reply to one.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import msgspec

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.pipeline import PLAIN
from neutrino.agent.l2.reconciler import ReconcilerView
from neutrino.agent.trace import group_rules
from neutrino.agent.trace.desired_flows import DesiredFlows, is_ours
from neutrino.agent.trace.links import Links
from neutrino.agent.trace.netfilter.connections import TracedConnections
from neutrino.agent.trace.owners import NOBODY, Owner, cause_of, deciding, parse_owner, silent_cause, table_name
from neutrino.agent.trace.packets import Tags, after, connection_tuple, flow_text, numbers, resumed, resumed_text
from neutrino.agent.trace.trail import AtSwitch, Trail
from neutrino.dataplane.inspection.api import Inspection, TrackedConnection
from neutrino.dataplane.openflow.datapath_actions import Copy, Tunnelled, copies
from neutrino.dataplane.openflow.trace import Fork, Lookup, SwitchPort, SwitchTrace, parse_trace
from neutrino.dataplane.ovsdb.api import Interface
from neutrino.model.taps import RESERVED_KEYS
from neutrino.model.trace import Cause, Packet, Point, PointKind
from neutrino.model.trunks import parent_patch, subport_patch, trunk_bridge

MAX_TRACES = 24  # of one packet in the switch: copies of a flooded packet multiply
TUNNEL_TYPES = ("vxlan", "gre", "geneve")
_UNKNOWN_MAC_TABLES = ("TRANSIENT", "ACCEPTED_EGRESS_NORMAL")
_RULES = {"RULES_EGRESS": "egress", "RULES_INGRESS": "ingress"}
_NO_NEIGHBOUR = "neighbor cache miss for "
_NO_PORT = "onexistent output port"
_NO_TUNNEL_ROUTE = "native tunnel routing failed"


TunnelMtu = Callable[[str, str], int]
"""The largest packet that fits into a tunnel, by peer and type; 0: not known."""
_ANY: TunnelMtu = lambda peer, kind: 0  # noqa: E731


@dataclasses.dataclass(frozen=True)
class Delivery:
    """A copy that leaves the switch at a port."""

    packet: Packet
    tags: Tags
    port: SwitchPort
    interface: Interface | None  # its row in OVSDB


@dataclasses.dataclass(frozen=True)
class SwitchState:
    """The switch of this host at one moment."""

    view: ReconcilerView
    ports: tuple[SwitchPort, ...]

    @cached_property
    def flows(self) -> DesiredFlows:
        return DesiredFlows(self.view.flows)

    @cached_property
    def by_datapath(self) -> dict[int, list[SwitchPort]]:
        """Tunnels of one type share a port of the datapath."""
        found: dict[int, list[SwitchPort]] = {}
        for port in self.ports:
            if port.datapath_port is not None:
                found.setdefault(port.datapath_port, []).append(port)
        return found

    @cached_property
    def interfaces(self) -> dict[str, tuple[str, Interface]]:
        """Rows of OVSDB by name, each with its bridge."""
        return {name: (bridge, each) for name, (bridge, _, each) in self.view.snapshot.interfaces().items()}

    def uplinks(self, bridge: str) -> list[SwitchPort]:
        """The ports by which packets come to the bridge of a physical network: its own device, if it has no other."""
        several = [each for each in self.ports if each.bridge == bridge and each.kind != "patch"]
        return [each for each in several if not each.is_local] or several

    def port_named(self, name: str) -> SwitchPort | None:
        return next((port for port in self.ports if port.name == name), None)

    def of_port(self, port_id: str) -> SwitchPort | None:
        """The device of a port of the API."""
        for name, (_, interface) in self.interfaces.items():
            if interface.external_ids.get("iface-id") == port_id and (found := self.port_named(name)) is not None:
                return found
        return None

    @cached_property
    def trunk_ports(self) -> dict[tuple[str, int], str]:
        """The ends of trunks' patches in the integration bridge, by the trunk's bridge and the VLAN there; 0: untagged."""
        ports = (port for port in self.view.desired.host_state.ports.values() if port.trunk_id)
        patches = ((port, (subport_patch if port.trunk_vlan else parent_patch)(port.id)[0]) for port in ports)
        return {(trunk_bridge(each.trunk_id), each.trunk_vlan): name for each, name in patches}

    def receiver(self, port: SwitchPort, tags: Tags) -> Interface | None:
        """The row of the port that a copy at a device is for: at an instance's trunk, the one of the copy's VLAN."""
        name = self.trunk_ports.get((port.bridge, tags[0] if tags else 0), port.name)
        row = self.interfaces.get(name) or self.interfaces.get(port.name)
        return row[1] if row is not None else None

    def patch_into(self, bridge: str, entered: Sequence[str]) -> int:
        """The ofport by which packets enter a bridge from one of those that they have entered before; 0: none."""
        names = {port.name: port.bridge for port in self.ports}
        for port in self.ports:
            if port.bridge == bridge and port.kind == "patch" and names.get(port.options.get("peer", "")) in entered:
                return port.ofport
        return 0

    def owner(self, cookie: int) -> Owner:
        return parse_owner(self.view.owners.get(cookie, ""))

    def port_at(self, ofport: int) -> str:
        """The id of the port with this number on the integration bridge."""
        return next((key for key, number in self.view.desired.plugged.ports.items() if number == ofport), "")


class SwitchWalk:
    """One packet in the switch. `deliveries` are its copies at ports of this host; other exits are on the trail."""

    def __init__(
        self,
        state: SwitchState,
        inspection: Inspection,
        trail: Trail,
        tunnel_mtu: TunnelMtu = _ANY,
        connections: TracedConnections | None = None,
        links: Links | None = None,
    ) -> None:
        self._state = state
        self._links = links
        self._tunnel_mtu = tunnel_mtu
        self._inspection = inspection
        self._connections = connections if connections is not None else TracedConnections()
        self._trail = trail
        self._options = state.view.desired.options
        self._traces = 0
        self._flooded = False  # the trace at hand passed FLOOD
        self.deliveries: list[Delivery] = []

    def run(self, at: AtSwitch) -> None:
        text = flow_text(at.packet, at.in_port, at.tags, at.tunnel)
        found = parse_trace(self._inspection.trace(at.bridge, text))
        self._follow(found, at.packet, at.tags, at.in_port, at.bridge, text)

    def _follow(self, found: SwitchTrace, packet: Packet, tags: Tags, in_port: int, bridge: str, text: str) -> None:
        self._traces += 1
        drifted = self._observe(found, packet, text, in_port, bridge)
        flood = pipeline.FLOOD.name
        self._flooded = any(table_name(self._options, lookup.bridge, lookup.table) == flood for lookup in found.lookups)
        left = [
            each
            for each in self._leaving(copies(found.actions, tags), packet)
            if not self._is_flooded_here(each, found)
        ]
        if (silent := self._silent_receiver(found, packet)) is not None:
            self._trail.drop(packet, *silent)
            return
        for each in left:
            self._leave(each)
        unresolved = self._leave_unresolved(found, packet)
        for fork in found.forks if self._traces < MAX_TRACES else ():
            changed, new_tags = resumed(fork, packet)
            changed = self._translate(fork, packet, changed)
            entered = found.bridges[: found.bridges.index(fork.bridge)] if fork.bridge in found.bridges else ()
            number = in_port if fork.bridge == bridge else self._state.patch_into(fork.bridge, (bridge, *entered))
            onward = resumed_text(fork, changed, new_tags, number)
            again = parse_trace(self._inspection.trace_from(fork.bridge, onward, fork.table))
            self._follow(again, changed, new_tags, number, fork.bridge, onward)
        if not left and not unresolved and not found.forks:
            self._drop(found, packet, in_port, drifted)

    def _translate(self, fork: Fork, entered: Packet, packet: Packet) -> Packet:
        """The packet with the addresses that conntrack gives it. Traces of some releases translate the destination, too:
        the one that the connection was opened to is that of the packet as it entered.
        """
        if fork.nat is None:
            return packet
        place = f"{fork.bridge} zone {fork.fields.get('ct_zone', '0')}"
        target = fork.nat.removeprefix("dst=")
        if fork.nat.startswith("dst=") and not packet.reply:
            changed = msgspec.structs.replace(packet, destination=target)
            opened = msgspec.structs.replace(packet, destination=entered.destination)
            known = TrackedConnection(connection_tuple(opened), connection_tuple(changed).reversed())
            self._connections.remember(place, known)
            self._observe_nat(fork, f"destination becomes {target}")
            return changed
        known_to = self._connections.find(place, connection_tuple(packet)) if packet.reply else None
        if known_to is None or known_to.reply != connection_tuple(packet):
            return packet
        self._observe_nat(fork, f"source becomes {known_to.original.destination}")
        return msgspec.structs.replace(packet, source=known_to.original.destination)

    def _observe_nat(self, fork: Fork, note: str) -> None:
        self._trail.observe("conntrack", fork.bridge, "nat", table=fork.table, note=note)

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _observe(self, found: SwitchTrace, packet: Packet, text: str, in_port: int, bridge: str) -> bool:
        """Whether a table on the way decided otherwise than the desired flows would."""
        drifted = False
        for place, (lookup, state) in enumerate(self._states(found, text, in_port, bridge)):
            if state is not None and (lines := self._state.flows.difference(lookup, state)):
                self._trail.drifted(lines)
                drifted = True
            owner, note = self._meaning(lookup, packet, state or {})
            name = table_name(self._options, lookup.bridge, lookup.table)
            self._trail.observe(
                "openflow",
                lookup.bridge,
                _effect(lookup, last=place == len(found.lookups) - 1, forked=bool(found.forks)),
                owner=owner,
                table=lookup.table,
                text=lookup.text(),
                note="; ".join(word for word in (name, note, *_shown(lookup)) if word),
            )
        return drifted

    def _states(
        self, found: SwitchTrace, text: str, in_port: int, bridge: str
    ) -> Iterator[tuple[Lookup, dict[str, int] | None]]:
        """Each table with the packet's fields and registers there; None after a copy, whose changes end with it."""
        state, where, exact = numbers(text), bridge, True
        for place, lookup in enumerate(found.lookups):
            if lookup.bridge != where:  # through a patch port: registers and connection state do not cross it
                kept = {key: value for key, value in state.items() if not key.startswith(("reg", "ct_"))}
                entering = self._state.patch_into(lookup.bridge, [each.bridge for each in found.lookups[:place]])
                state, where = {**kept, "in_port": entering or in_port}, lookup.bridge
            yield lookup, state if exact else None
            exact = exact and not any(action.startswith("clone(") for action in lookup.actions)
            state = after(state, lookup.actions)

    def _meaning(self, lookup: Lookup, packet: Packet, state: dict[str, int]) -> tuple[Owner, str]:
        """The object that a flow is for; of security groups, the rule that allows the packet."""
        if not lookup.missed and lookup.bridge in self._state.view.flows and not is_ours(lookup.cookie):
            return NOBODY, "a flow that is not this agent's"
        direction = _RULES.get(table_name(self._options, lookup.bridge, lookup.table))
        port_id = self._state.port_at(state.get(pipeline.REG_PORT, 0)) if direction else ""
        port = self._state.view.desired.host_state.ports.get(port_id)
        if direction is not None and port is not None:
            if "+rpl" in lookup.match:
                return ("port", port_id), "a reply of a connection that the rules allow"
            if lookup.match.startswith("conj_id=") or lookup.priority == PLAIN:
                conjunction = int(lookup.match[8:].partition(",")[0]) if lookup.match.startswith("conj_id=") else None
                desired = self._state.view.desired
                for group_id, rule in group_rules.allowing(desired, port, packet, direction, conjunction):
                    self._trail.objects.add(group_id)
                    return ("security_group_rule", rule.id), group_rules.describe(rule, group_id)
                return ("port", port_id), "a rule of its security groups allows it"
            return ("port", port_id), ""
        owner = self._state.owner(lookup.cookie)
        if owner == NOBODY and lookup.bridge == self._options.integration_bridge:  # a flow that ports share
            port_id = self._state.port_at(state.get(pipeline.REG_PORT, 0) or state.get("in_port", 0))
            return ("port", port_id) if port_id else NOBODY, ""
        return owner, ""

    # --- how it ends --------------------------------------------------------------------------------------------------

    def _is_flooded_here(self, left: tuple[Packet, Copy, SwitchPort], found: SwitchTrace) -> bool:
        """Whether a copy goes to the own device of a physical network's or trunk's bridge, which floods the packet."""
        port = left[2]
        if port.is_local and any(bridge == port.bridge for bridge, _ in self._state.trunk_ports):
            return True
        learned = any("forwarding to learned port" in note for note in found.notes)
        if not port.is_local or port.bridge not in dict(self._options.bridge_mappings).values():
            return False
        return not learned and port not in self._state.uplinks(port.bridge)

    def _silent_receiver(self, found: SwitchTrace, packet: Packet) -> tuple[Cause, str] | None:
        """Why the receiver gets nothing, where it is a port of this host that must not talk: its MAC counts as unknown."""
        desired = self._state.view.desired
        wired = {port.id for port in desired.ports}
        for port in desired.host_state.ports.values():
            if port.mac_address.lower() != packet.eth_dst.lower() or port.network_id not in self._unknown_in(found):
                continue
            silent = silent_cause(desired, port.id)
            if silent is None and port.id in wired:
                continue
            self._trail.objects.add(port.id)
            cause = Cause.PORT_NOT_WIRED if port.id in desired.plugged.ports else Cause.NO_DEVICE
            cause, reason = silent or (cause, desired.problems.get(port.id, "its device is not plugged"))
            return cause, f"receiving port {port.id}: {reason}"
        return None

    def _unknown_in(self, found: SwitchTrace) -> set[str]:
        """The networks in whose flows by MAC the packet was looked up on the integration bridge."""
        owners = (
            self._state.owner(lookup.cookie)
            for lookup in found.lookups
            if lookup.bridge == self._options.integration_bridge
            and table_name(self._options, lookup.bridge, lookup.table) in _UNKNOWN_MAC_TABLES
        )
        return {object_id for kind, object_id in owners if kind == "network"}

    def _leaving(self, left: list[Copy], packet: Packet) -> Iterator[tuple[Packet, Copy, SwitchPort]]:
        for copy in left:
            if copy.tunnel is not None and self._is_tapped(copy.tunnel):
                continue
            changes = {
                name: value
                for name in ("eth_src", "eth_dst", "source", "destination")
                if (value := getattr(copy, name))
            }
            ports = self._state.by_datapath.get(copy.port, [])
            if copy.tunnel is not None and len(ports) > 1:  # the kernel's datapath: the peer is in the outer header
                ports = [port for port in ports if port.options.get("remote_ip") == copy.tunnel.peer] or ports
            if ports:
                yield msgspec.structs.replace(packet, **changes), copy, ports[0]

    def _is_tapped(self, tunnel: Tunnelled) -> bool:
        """Whether a copy of the packet goes to a monitor on another host or to a collector: that is not its way."""
        ports = self._state.view.desired.host_state.ports.values()
        mirrors = (mirror for port in ports if port.taps is not None for mirror in port.taps.mirrors)
        # The header of ERSPAN is not read: its number is 0.
        collectors = {(each.remote_ip, each.tunnel_id if each.mirror_type == "gre" else 0) for each in mirrors}
        return tunnel.number >= RESERVED_KEYS or (tunnel.peer, tunnel.number) in collectors

    def _leave_unresolved(self, found: SwitchTrace, packet: Packet) -> bool:
        """Tunnels whose peer the switch has yet to resolve: it does so with the first packet. Whether there are any."""
        seen = [(lookup, note) for lookup in found.lookups for note in lookup.notes if _NO_NEIGHBOUR in note]
        for lookup, note in seen:
            peer = note.partition(_NO_NEIGHBOUR)[2].split()[0]
            self._trail.observe("neighbour", lookup.bridge, "resolve", note=f"the MAC of {peer} is resolved first")
            if self._links is not None and (fault := self._links.underlay_fault(peer, self._state.ports)):
                self._trail.drop(packet, Cause.LINK_DOWN, f"tunnel to {peer}: {fault}")
                continue
            self._trail.leave(packet, _tunnel_point(peer, tunnel_id(lookup), self._tunnel_kind(peer)))
        return bool(seen)

    def _dropped_by_rules(self, kind: str, peer: str) -> str:
        return self._links.dropped_by_rules(kind, self._options.local_ip, peer, sent=True) if self._links else ""

    def _tunnel_kind(self, peer: str) -> str:
        tunnels = [port for port in self._state.ports if port.kind in TUNNEL_TYPES]
        return next((tunnel.kind for tunnel in tunnels if tunnel.options.get("remote_ip") == peer), "")

    def _leave(self, left: tuple[Packet, Copy, SwitchPort]) -> None:
        packet, copy, port = left
        if copy.tunnel is not None:
            kind, peer = copy.tunnel.kind or (port.kind if port.kind in TUNNEL_TYPES else ""), copy.tunnel.peer
            most = self._tunnel_mtu(peer, kind)
            fault = self._links.fault(port) if self._links is not None else ""
            if self._links is not None and not fault:
                fault = self._links.underlay_fault(peer, self._state.ports)
            if fault:
                self._trail.drop(packet, Cause.LINK_DOWN, f"tunnel to {peer}: {fault}")
            elif fault := self._dropped_by_rules(kind, peer):
                self._trail.drop(packet, Cause.DRIFT, f"tunnel to {peer}: {fault}")
            elif most and packet.size > most:
                self._trail.drop(
                    packet, Cause.PACKET_TOO_BIG, f"{packet.size} bytes; the tunnel to {peer} takes {most}"
                )
            else:
                note = "the destination MAC is unknown: flooded" if self._flooded else ""
                self._trail.leave(packet, _tunnel_point(peer, copy.tunnel.number, kind), note)
            return
        physical = next((name for name, bridge in self._options.bridge_mappings if bridge == port.bridge), None)
        row = self._state.interfaces.get(port.name)
        if port.is_local and physical is None:
            self._trail.consume(packet, f"to the host's own device {port.name}")
            return
        if physical is not None and (row is None or "iface-id" not in row[1].external_ids):
            if self._links is not None and (fault := self._links.fault(port)):
                self._trail.drop(packet, Cause.LINK_DOWN, f"physical network {physical}: {fault}")
                return
            tag = copy.tags[0] if copy.tags else None
            point = Point(kind=PointKind.PHYSICAL, physical_network=physical, segmentation_id=tag)
            self._trail.leave(packet, point, note=f"by {port.name}")
            return
        tags = copy.tags or ()
        self.deliveries.append(Delivery(packet, tags, port, self._state.receiver(port, tags)))

    def _drop(self, found: SwitchTrace, packet: Packet, in_port: int, drifted: bool) -> None:
        notes = "; ".join(found.notes)
        if _NO_TUNNEL_ROUTE in notes:
            self._trail.drop(packet, Cause.NO_TUNNEL, "the host has no route to the other host's tunnel address")
            return
        if _NO_PORT in notes:
            self._trail.drop(packet, Cause.NO_DEVICE, "the device of the receiving port is not plugged")
            return
        lookup = deciding(self._options, found.lookups)
        if lookup is None:
            self._trail.drop(packet, Cause.OTHER, found.problem or "the switch drops it")
            return
        entry = in_port if lookup.bridge == found.lookups[0].bridge else 0
        if not entry:
            entry = self._state.patch_into(lookup.bridge, [each.bridge for each in found.lookups])
        cause, note = cause_of(self._state.view.desired, lookup, packet, entry)
        if drifted:
            cause, note = Cause.DRIFT, f"flows differ from the desired state; else: {note}"
        elif not lookup.missed and not is_ours(lookup.cookie):
            cause, note = Cause.DRIFT, "a flow that is not this agent's drops it"
        self._trail.drop(packet, cause, note)


def _tunnel_point(peer: str, number: int, kind: str) -> Point:
    return Point(kind=PointKind.TUNNEL, peer=peer, network_type=kind, segmentation_id=number)


def tunnel_id(lookup: Lookup) -> int:
    """The tunnel id that the flow's actions set."""
    for action in lookup.actions:
        if action.startswith("set_field:") and action.endswith("->tun_id"):
            return int(action.removeprefix("set_field:").partition("->")[0], 0)
    return 0


def _effect(lookup: Lookup, *, last: bool, forked: bool) -> str:
    actions = lookup.actions
    if any(action.startswith("ct(") and "table=" in action for action in actions):
        return "conntrack"
    if any(action.startswith(("output", "NORMAL", "IN_PORT")) for action in actions):
        return "output"
    if last and not forked and (lookup.missed or actions in ((), ("drop",))):
        return "drop"
    if any(action.startswith("meter") for action in actions):
        return "meter"
    return "forward"


def _shown(lookup: Lookup) -> Iterator[str]:
    """Notes of the switch that a reader needs."""
    for note in lookup.notes:
        if note.startswith(("no learned MAC", "forwarding to learned", "tunneling to", "skipping")):
            yield note
