"""Follows a packet from host to host by the answers of their dataplanes. Pure over `Ask`.

The packet that leaves one host, as its dataplane has rewritten it, is what the next host is asked about:

    leaves at a port            it is delivered there
    leaves by a tunnel          the host with the peer's tunnel address
    leaves by a physical        the host of the port that has the destination MAC on that segment; none: it is outside
      network
    by another segment          it is lost: the trace does not follow it into networks that are none of its own

A packet may leave a host in several copies; each is followed. The number of questions is bounded, and a copy that comes
back to a place where it has been is not followed again.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from neutrino.model.state import Segment
from neutrino.model.trace import Cause, Exit, HostAnswer, Packet, Point, PointKind, Question
from neutrino.server.feed.records import TUNNEL_TYPES
from neutrino.server.trace.ask import Ask, NoAnswer
from neutrino.server.trace.values import Hop, Snapshot

MAX_QUESTIONS: Final = 12


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a host, and its answer; None: `failure` has the reason."""

    host: str
    question: Question
    answer: HostAnswer | None = None
    failure: Cause = Cause.NONE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """Where a copy of the packet ends."""

    kind: str  # "port", "outside", "elsewhere", "consumed", "dropped", "lost": no answer
    host: str
    packet: Packet
    port_id: str = ""
    cause: Cause = Cause.NONE
    note: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    asked: tuple[Asked, ...] = ()
    ends: tuple[End, ...] = ()

    def then(self, further: "Collected") -> "Collected":
        """With what hosts answer about the packet when it has come out of a tunnel: that is how it ends."""
        return Collected((*self.asked, *further.asked), further.ends)

    @property
    def enters_tunnel(self) -> bool:
        """Whether the last host takes the packet, or sends it out: by a tunnel that the server knows."""
        return any(end.kind in ("consumed", "outside") for end in self.ends)


@dataclass(frozen=True, slots=True)
class Directory:
    """Which host is meant by a peer's tunnel address, or by a MAC on a physical network."""

    tunnels: Mapping[str, str] = field(default_factory=dict)  # tunnel address → host
    addresses: Mapping[str, str] = field(default_factory=dict)  # host → tunnel address
    macs: Mapping[tuple[str, int | None, str], str] = field(default_factory=dict)  # segment and MAC → host
    # Of the trace's networks: type and VNI of tunnels, physical network and VLAN id.
    tunnel_segments: frozenset[tuple[str, int | None]] = frozenset()
    physical_segments: frozenset[tuple[str, int | None]] = frozenset()


def directory(snapshot: Snapshot, *, ends_outside: bool = False) -> Directory:
    """`ends_outside`: the path ends at an external network, so nothing on such networks is followed."""
    tunnels = {host.tunneling_ip: host.name for host in snapshot.hosts.values() if host.tunneling_ip}
    macs: dict[tuple[str, int | None, str], str] = {}
    for network_id, mac, host in _macs(snapshot):
        network = snapshot.networks.get(network_id)
        if network is None or (ends_outside and network.external):
            continue
        for segment in network.segments:
            if segment.physical_network and host:
                macs.setdefault((segment.physical_network, _tag(segment), mac.lower()), host)
    segments = [segment for network in snapshot.networks.values() for segment in network.segments]
    return Directory(
        tunnels,
        {host: address for address, host in tunnels.items()},
        macs,
        frozenset((s.network_type, s.segmentation_id) for s in segments if s.network_type in TUNNEL_TYPES),
        frozenset((s.physical_network, _tag(s)) for s in segments if s.physical_network),
    )


def _tag(segment: Segment) -> int | None:
    return segment.segmentation_id if segment.network_type == "vlan" else None


def _macs(snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Network, MAC and host of each port that is on one host."""
    for port in snapshot.ports.values():
        yield port.port.network_id, port.port.mac_address, port.port.host
    for router in snapshot.routers.values():
        for host, gateway in router.agent_gateways.items():
            yield gateway.network_id, gateway.mac_address, host


def follow(
    start: Hop | None, places: Directory, ask: Ask, clock: Callable[[], float], deadline: float, *, flows: bool = False
) -> Collected:
    """Ask the first host, and those that the packet leaves to."""
    if start is None or start.entry is None:
        return Collected()
    asked: list[Asked] = []
    ends: list[End] = []
    waiting = deque([(start.host, start.entry, start.packet)])
    seen: set[tuple[str, Point, Packet]] = set()
    while waiting:
        host, point, packet = waiting.popleft()
        # Without the TTL, which is another each time that a looping packet comes back.
        key = (host, point, msgspec.structs.replace(packet, ttl=0))
        if key in seen:
            ends.append(End("dropped", host, packet, cause=Cause.TTL_EXPIRED, note="the packet comes back: a loop"))
            continue
        seen.add(key)
        if len(asked) >= MAX_QUESTIONS:
            ends.append(End("lost", host, packet, cause=Cause.OTHER, note=f"more than {MAX_QUESTIONS} hosts"))
            break
        one = _ask(ask, host, Question(point=point, packet=packet, flows=flows), deadline - clock())
        asked.append(one)
        if one.answer is None:
            ends.append(End("lost", host, packet, cause=one.failure, note=one.reason))
            continue
        for leaving in one.answer.exits:
            following = _next(host, leaving, places)
            if isinstance(following, End):
                ends.append(following)
            else:
                waiting.append(following)
    return Collected(tuple(asked), tuple(ends))


def chosen_gateways(snapshot: Snapshot, collected: Collected) -> frozenset[str]:
    """The gateways by which hosts send the packet on, of routers whose hosts choose them: with ECMP or BFD."""
    several = (each.router for each in snapshot.routers.values())
    routers = (each for each in several if each.enable_default_route_ecmp or each.enable_default_route_bfd)
    macs = {
        gateway.mac_address.lower(): gateway.id
        for router in routers
        for gateway in ((router.gateway, *router.extra_gateways) if router.extra_gateways else ())
        if gateway is not None
    }
    exits = (each for asked in collected.asked if asked.answer is not None for each in asked.answer.exits)
    return frozenset(macs[each.packet.eth_src.lower()] for each in exits if each.packet.eth_src.lower() in macs)


def _ask(ask: Ask, host: str, question: Question, seconds: float) -> Asked:
    if seconds <= 0:
        return Asked(host, question, failure=Cause.HOST_TIMEOUT, reason="no time was left to ask it")
    try:
        return Asked(host, question, ask(host, question, seconds))
    except NoAnswer as failure:
        return Asked(host, question, failure=failure.cause, reason=failure.reason)


def _next(host: str, leaving: Exit, places: Directory) -> End | tuple[str, Point, Packet]:
    point, packet = leaving.point, leaving.packet
    if point is None:
        kind = "dropped" if leaving.cause is not Cause.NONE else "consumed"
        return End(kind, host, packet, cause=leaving.cause, note=leaving.note)
    if point.kind is PointKind.PORT:
        return End("port", host, packet, port_id=point.port_id, note=leaving.note)
    if point.kind is PointKind.TUNNEL:
        if (point.network_type, point.segmentation_id) not in places.tunnel_segments:
            return _astray(host, packet, f"{point.network_type} tunnel {point.segmentation_id}")
        target = places.tunnels.get(point.peer)
        if target is None:
            # A flooded copy: the other host has ports of the network, and none of them is on the path.
            return End(
                "elsewhere", host, packet, note=f"the tunnel leads to {point.peer}, which has no port on the path"
            )
        return target, msgspec.structs.replace(point, peer=places.addresses.get(host, "")), packet
    if (point.physical_network, point.segmentation_id) not in places.physical_segments:
        tag = f"VLAN {point.segmentation_id}" if point.segmentation_id is not None else "untagged"
        return _astray(host, packet, f"physical network {point.physical_network}, {tag}")
    target = places.macs.get((point.physical_network, point.segmentation_id, packet.eth_dst.lower()))
    if target is None or target == host:
        return End("outside", host, packet, note=leaving.note)
    return target, point, packet


def _astray(host: str, packet: Packet, segment: str) -> End:
    """End a trace on a foreign network's segment: a host that was taken over would have others asked about it."""
    note = f"it leaves by {segment}, which is no network of the trace"
    return End("lost", host, packet, cause=Cause.OTHER, note=note)
