"""A packet in a network namespace: of a router, of DHCP, or one that joins routers with an external network.

    device ─▶ prerouting: rules, destination translated ─▶ route ─┬▶ for the namespace itself: input
                                                                  └▶ TTL, MTU ─▶ forward ─▶ postrouting: source translated
                                                                      ─▶ neighbour ─▶ device: into the switch, a veth pair

The kernel decides the route, with policy rules, reverse-path filter and forwarding (RTM_GETROUTE with the device). Rules
are evaluated here (`nft`): the kernel has no such question. A connection that exists, or that a trace of its first packet
would have created (`connections`), translates as it did the first packet.
"""

import dataclasses
from collections.abc import Callable
from ipaddress import ip_address, ip_interface, ip_network
from typing import Final

import msgspec

from neutrino.agent.l3.services.charon.render import CHARON_TABLE
from neutrino.agent.trace.netfilter import nft
from neutrino.agent.trace.netfilter.connections import TracedConnections, choose
from neutrino.agent.trace.netfilter.xtables import AllRules
from neutrino.agent.trace.owners import NOBODY, Owner
from neutrino.agent.trace.packets import WITH_PORTS, connection_tuple, describe, version
from neutrino.agent.trace.switch import SwitchState
from neutrino.agent.trace.trail import UNRESOLVED, AtDevice, AtSwitch, Place, Trail
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6
from neutrino.dataplane.inspection.api import Inspection, Route, TrackedConnection
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.values import HOST, Device, NamespaceState
from neutrino.model.trace import Cause, Packet

_NAT_PRIORITY: Final = {"prerouting": -100, "postrouting": 100}
_FORWARDING: Final = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}
_OWNERS: Final = {"qrouter-": "router", "snat-": "router", "fip-": "network", "qdhcp-": "network"}
_OUTSIDE: Final = ("qg-", "fg-")
_CAUSES: Final = {
    "forward_filter": Cause.ADDRESS_SCOPE,
    "forward_ndp": Cause.NO_NDP_PROXY,
    "vpn_forward": Cause.VPN_DOWN,
}
_SYN, _ACK = 2, 16
OURS: Final = "neutrino"  # name of our tables

FindMac = Callable[[str, str, str], str]
"""The MAC of an address by namespace and device, as the server's objects have it; empty: no port has the address."""


FindTranslation = Callable[[str, str], Owner]
"""The floating IP or port forwarding between an external and an internal address."""


@dataclasses.dataclass
class _Passage:
    """One packet on its way through one namespace."""

    namespace: str
    owner: Owner
    state: NamespaceState
    rules: AllRules
    packet: Packet
    seen: nft.NftPacket  # the packet as rules see and change it
    connection: TrackedConnection | None
    trail: Trail
    entered: Packet  # as it came
    hits: list[nft.Hit] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class NamespaceWalk:
    netlink: Netlink
    inspection: Inspection
    find_mac: FindMac
    is_standby: Callable[[str], bool]  # whether a namespace is of an HA router that is not active here
    find_translation: FindTranslation = lambda outside, inside: NOBODY
    connections: TracedConnections = dataclasses.field(default_factory=TracedConnections)

    def run(self, at: AtDevice, switch: SwitchState, trail: Trail) -> list[Place]:
        owner = _owner(at.namespace)
        state = self._read(at)
        device = state.devices.get(at.device) if state is not None else None
        if state is None or device is None or not device.up:
            what = "is down" if device is not None else "does not exist"
            trail.drop(at.packet, Cause.NO_DEVICE, f"{at.namespace}: device {at.device} {what}")
            return []
        if at.packet.eth_dst.lower() not in (device.mac, UNRESOLVED):
            note = f"{at.device} ignores it: its MAC is {device.mac}"
            trail.observe("device", at.namespace, "ignore", owner=owner, note=note)
            return []
        asked = trail.asked.get(at.packet.eth_src.lower()) if at.packet.eth_dst == UNRESOLVED else None
        if asked is not None and not _answers(at, state, asked):
            return []  # as any machine that the question is flooded to
        passage = self._enter(at, owner, state, trail)
        if not self._hook(passage, "prerouting"):
            return []
        route = self._route(passage)
        if route is None:
            return []
        if route.local:
            if self._hook(passage, "input"):
                self._remember(passage)
                trail.consume(passage.packet, f"received by {at.namespace} itself: {describe(passage.packet)}")
            return []
        return self._forward(passage, route, switch)

    def _read(self, at: AtDevice) -> NamespaceState | None:
        if not self.netlink.has_namespace(at.namespace):
            return None
        return self.netlink.read(at.namespace, _FORWARDING.values())

    def _enter(self, at: AtDevice, owner: Owner, state: NamespaceState, trail: Trail) -> _Passage:
        packet = at.packet
        own = connection_tuple(packet)
        # Each ping has an identifier of its own, which a trace does not have: it is not part of an earlier one.
        is_echo = packet.protocol in (ICMP, ICMPV6)
        actual = () if is_echo else self.inspection.connections(at.namespace, own)
        remembered = self.connections.find(at.namespace, own)
        connection, reply = choose(actual, remembered, own, reply=packet.reply)
        flags = _SYN | (_ACK if packet.reply else 0)
        found = nft.NftPacket(
            *(packet.source, packet.destination, packet.protocol),
            source_port=packet.source_port,
            destination_port=packet.destination_port,
            icmp_code=packet.icmp_code,
            size=packet.size,
            ttl=packet.ttl,
            iif=at.device,
            tcp_flags=flags,
            reply=reply and connection is not None,
            eth_src=packet.eth_src.lower(),
        )
        if connection is not None:
            ways = ("original", connection.original), ("reply", connection.reply)
            found.ct_addresses = {name: (way.source, way.destination) for name, way in ways}
            found.ct_state, found.ct_mark = nft.ESTABLISHED, connection.mark
            found.ct_status |= nft.DESTINATION_NAT if connection.destination_translated else 0
            found.ct_status |= nft.SOURCE_NAT if connection.source_translated else 0
            kind = "an existing connection" if connection in actual else "the connection of the first packet"
            trail.observe("conntrack", at.namespace, "forward", owner=owner, note=f"belongs to {kind}")
        saved = self.inspection.iptables(at.namespace, found.version)
        rules = AllRules(self.inspection.ruleset(at.namespace), saved)
        return _Passage(at.namespace, owner, state, rules, packet, found, connection, trail, packet)

    # --- rules --------------------------------------------------------------------------------------------------------

    def _hook(self, passage: _Passage, hook: str) -> bool:
        """Pass the chains of a hook; False if the packet is dropped."""
        translated = False
        nat = _NAT_PRIORITY.get(hook)
        for chain in passage.rules.base_chains(hook, passage.seen.version):
            if nat is not None and not translated and chain.priority >= nat:
                self._translate_by_connection(passage, hook)
                translated = True
            if chain.kind == "nat" and passage.connection is not None:
                continue  # the first packet has decided
            hits: list[nft.Hit] = []
            before = passage.seen.source, passage.seen.destination
            verdict = passage.rules.run(chain, passage.seen, hits)
            for hit in hits:
                self._observe(passage, hit, *before)
            passage.hits += hits
            if verdict in (nft.DROP, nft.REJECT):
                self._dropped(passage, hits, verdict)
                return False
        if nat is not None and not translated:
            self._translate_by_connection(passage, hook)
        self._update(passage)
        return True

    def _translate_by_connection(self, passage: _Passage, hook: str) -> None:
        connection, packet = passage.connection, passage.seen
        if connection is None:
            return
        before = packet.source, packet.source_port, packet.destination, packet.destination_port
        against = connection.original if packet.reply else connection.reply  # the direction against the packet's own
        ports = packet.protocol in WITH_PORTS
        if hook == "prerouting":
            packet.destination = against.source
            packet.destination_port = against.source_port if ports else packet.destination_port
            note = f"destination becomes {packet.destination}"
        else:
            packet.source = against.destination
            packet.source_port = against.destination_port if ports else packet.source_port
            note = f"source becomes {packet.source}"
        if before != (packet.source, packet.source_port, packet.destination, packet.destination_port):
            passage.trail.observe("conntrack", passage.namespace, "nat", owner=passage.owner, note=note)

    def _observe(self, passage: _Passage, hit: nft.Hit, source: str, destination: str) -> None:
        """`source` and `destination`: as the chain got them."""
        groups = [*nft.firewall_groups([hit])]
        owner, effect = ("firewall_group", groups[0]) if groups else passage.owner, hit.effect
        if hit.effect in ("dnat", "snat", "redirect", "masquerade"):
            effect, seen = "nat", passage.seen
            ends = (destination, seen.destination) if hit.effect == "dnat" else (seen.source, source)
            found = self.find_translation(*ends)
            owner = found if found != NOBODY else owner
        note = "; ".join(word for word in (f"{hit.table} {hit.chain}", hit.note) if word)
        passage.trail.observe("nft", passage.namespace, effect, owner=owner, text=hit.text, note=note)

    def _dropped(self, passage: _Passage, hits: list[nft.Hit], verdict: str) -> None:
        last = hits[-1] if hits else nft.Hit("", "", verdict)
        verb = "rejects" if verdict == nft.REJECT else "drops"
        where = f"chain {last.chain} of table {last.table} in {passage.namespace} {verb} it"
        if last.table.partition(" ")[2] != OURS or (not last.commented and last.text):
            cause, where = Cause.DRIFT, f"a rule that is not this agent's: {where}"
        elif last.chain.startswith("firewall_"):
            cause = Cause.FIREWALL_GROUP
        else:
            cause = _CAUSES.get(last.chain, Cause.OTHER)
        self._update(passage)
        passage.trail.drop(passage.packet, cause, where)

    def _update(self, passage: _Passage) -> None:
        """The packet as rules have changed it."""
        found = passage.seen
        changes = {
            name: getattr(found, name)
            for name in ("source", "destination", "source_port", "destination_port")
            if getattr(found, name) != getattr(passage.packet, name)
        }
        if changes:
            passage.packet = msgspec.structs.replace(passage.packet, **changes)

    # --- routing ------------------------------------------------------------------------------------------------------

    def _route(self, passage: _Passage) -> Route | None:
        packet, trail, where = passage.packet, passage.trail, passage.namespace
        redirected = any(hit.effect == "redirect" for hit in passage.hits)
        if redirected:
            return Route(local=True)
        route = self.inspection.route(where, connection_tuple(packet), passage.seen.iif, passage.seen.mark)
        if route.spoofed:
            note = f"{where}: the route back to {packet.source} is not by {passage.seen.iif} (reverse-path filter)"
            trail.observe("route", where, "drop", owner=passage.owner, note=f"{route.refused}; {note}")
            trail.drop(packet, Cause.OTHER, note)
            return None
        if route.refused or not route.device:
            forwards = passage.state.sysctls.get(_FORWARDING[version(packet)], "1") != "0"
            reason = route.refused if forwards else "the namespace does not forward packets"
            cause = Cause.ROUTER_NOT_ACTIVE if self.is_standby(where) else Cause.NO_ROUTE
            if forwards and self._lacks_connected_route(passage, route):
                cause, reason = Cause.DRIFT, f"{reason}, though it has an address there"
            trail.observe("route", where, "drop", owner=passage.owner, note=f"to {packet.destination}: {reason}")
            trail.drop(packet, cause, f"{where} has no route to {packet.destination}: {reason}")
            return None
        self._lacks_connected_route(passage, route)
        via = f" via {route.via}" if route.via else ""
        table = f", table {route.table}" if route.table not in (0, 254, 255) else ""
        note = "for this namespace itself" if route.local else f"to {packet.destination}{via} by {route.device}{table}"
        trail.observe("route", where, "consume" if route.local else "forward", owner=passage.owner, note=note)
        return route

    @staticmethod
    def _lacks_connected_route(passage: _Passage, route: Route) -> bool:
        """Whether the kernel's route of a subnet in which the namespace has an address was deleted: it is drift then.

        A plan does not show it: routes that come with addresses are the kernel's.
        """
        target, state = ip_address(passage.packet.destination), passage.state
        subnets = [(ip_interface(address.address).network, address.device) for address in state.addresses]
        connected = {
            name: network
            for network, name in subnets
            if network.prefixlen < network.max_prefixlen and target in network and state.devices[name].up
        }
        if route.local or not connected or route.device in connected:
            return False
        longest = max(network.prefixlen for network in connected.values())
        routes = (ip_network(each.destination) for each in state.routes)
        if any(target in each and each.prefixlen > longest for each in routes):  # as of a floating IP in `fip-…`
            return False
        lines = [
            f"{passage.namespace} set route {network} device={name}" for name, network in sorted(connected.items())
        ]
        passage.trail.drifted(lines)
        return True

    def _forward(self, passage: _Passage, route: Route, switch: SwitchState) -> list[Place]:
        packet, trail, where = passage.packet, passage.trail, passage.namespace
        device = passage.state.devices.get(route.device)
        if device is None or not device.up:
            trail.drop(packet, Cause.NO_DEVICE, f"{where}: device {route.device} is not there or down")
            return []
        if packet.ttl <= 1:
            trail.drop(packet, Cause.TTL_EXPIRED, f"in {where}")
            return []
        most = route.mtu or device.mtu
        if most and packet.size > most:
            trail.drop(packet, Cause.PACKET_TOO_BIG, f"{where}: {packet.size} bytes; {route.device} takes {most}")
            return []
        passage.seen.oif, passage.seen.ttl = route.device, packet.ttl - 1
        if not self._hook(passage, "forward") or not self._hook(passage, "postrouting"):
            return []
        self._remember(passage)
        passage.packet = msgspec.structs.replace(passage.packet, ttl=packet.ttl - 1)
        if device.kind == "tun" and route.table == CHARON_TABLE:
            trail.consume(passage.packet, f"encrypted by charon in {where}, which has it from {device.name}")
            return []
        return self._leave(passage, device, route.via or packet.destination, switch)

    def _remember(self, passage: _Passage) -> None:
        """The connection that the packet has, or would have created: a reply to it is of the same one."""
        if passage.connection is not None:
            if not passage.seen.reply:
                self.connections.remember(passage.namespace, passage.connection)
        else:
            original, back = connection_tuple(passage.entered), connection_tuple(passage.packet).reversed()
            self.connections.remember(passage.namespace, TrackedConnection(original, back, passage.seen.ct_mark))

    def _leave(self, passage: _Passage, device: Device, hop: str, switch: SwitchState) -> list[Place]:
        packet, trail, where = passage.packet, passage.trail, passage.namespace
        inside = device.peer_namespace if device.kind == "veth" else None
        port = switch.port_named(device.peer) if device.peer else None
        port = port or switch.port_named(device.name)
        if port is None and inside is not None and inside != HOST:  # the other end of the pair is the next hop
            if self.inspection.neighbours(where, device.name).get(hop) == "":
                trail.drop(packet, Cause.NO_SUCH_ADDRESS, f"{where}: {hop} does not answer on {device.name}")
                return []
            other = self.netlink.read_device(inside, device.peer)
            peer = other.mac if other is not None else UNRESOLVED
            onward = msgspec.structs.replace(packet, eth_src=device.mac, eth_dst=peer)
            return [AtDevice(inside, device.peer, onward)]
        mac = self._resolve(passage, device, hop)
        if mac is None:
            return []
        if port is None:
            trail.drop(packet, Cause.NO_DEVICE, f"{where}: {device.name} is not plugged into the switch")
            return []
        onward = msgspec.structs.replace(packet, eth_src=device.mac, eth_dst=mac)
        return [AtSwitch(port.bridge, port.ofport, onward)]

    def _resolve(self, passage: _Passage, device: Device, hop: str) -> str | None:
        """The MAC of the next hop; None if there is none, and the packet is dropped."""
        trail, where = passage.trail, passage.namespace
        resolved = self.inspection.neighbours(where, device.name)
        mac, known = resolved.get(hop, ""), self.find_mac(where, device.name, hop)
        if mac:
            trail.observe("neighbour", where, "forward", owner=passage.owner, note=f"{hop} is at {mac}")
            return mac
        failed = hop in resolved
        if known:
            note = f"{hop} has not answered; port with MAC {known}" if failed else f"{hop} is resolved first: {known}"
            trail.observe("neighbour", where, "resolve", owner=passage.owner, note=note)
            return known
        if not device.name.startswith(_OUTSIDE):
            why = "does not answer" if failed else "is no address of a port"
            trail.observe("neighbour", where, "drop", owner=passage.owner, note=f"{hop} {why}")
            trail.drop(passage.packet, Cause.NO_SUCH_ADDRESS, f"{where}: {hop} {why} on {device.name}")
            return None
        note = f"{hop} has not answered, and is asked again" if failed else f"{hop} is resolved first"
        trail.observe("neighbour", where, "resolve", owner=passage.owner, note=note)
        trail.asked[device.mac] = hop
        if failed:  # the cause may be on the way of the question: a link that is down
            trail.unanswered[device.mac] = f"{where}: {hop} does not answer on {device.name}"
        return UNRESOLVED


def _answers(at: AtDevice, state: NamespaceState, asked: str) -> bool:
    """Whether the namespace gives its MAC for an address: of its own, or one behind it (proxy ARP, proxy NDP)."""
    target = ip_address(asked)
    if any(ip_interface(each.address).ip == target for each in state.addresses):
        return True
    if any(each.device == at.device and ip_address(each.address) == target for each in state.proxies):
        return True
    behind = (ip_network(each.destination) for each in state.routes if each.device not in ("", at.device))
    return at.namespace.startswith("fip-") and any(target in network for network in behind)


def _owner(namespace: str) -> Owner:
    for prefix, kind in _OWNERS.items():
        if namespace.startswith(prefix):
            return kind, namespace.removeprefix(prefix)
    return NOBODY
