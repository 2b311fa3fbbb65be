"""Layer 2: which port of a network has an address, and how a packet gets to that port's host. Pure.

same host                      by the integration bridge
tunnel (VXLAN, GRE, Geneve)    both hosts need a tunnel address and the type
VLAN, flat                     both hosts need a bridge of the physical network
local                          does not leave the host
"""

from ipaddress import ip_address, ip_network

from neutrino.model.addresses import link_local
from neutrino.model.state import Network, Segment
from neutrino.model.trace import Cause, Point, PointKind
from neutrino.server.feed.records import TUNNEL_TYPES
from neutrino.server.trace.steps.walk import Subject, Walk, contains, of_network, same
from neutrino.server.trace.values import TracedHost, TracedPort

_PHYSICAL = frozenset({"vlan", "flat"})


def port_with(walk: Walk, network_id: str, address: str) -> TracedPort | None:
    """The port of a network that has an address: as fixed IP, as link-local address, or by an allowed address pair.

    A port that is bound to no host may only reserve its address: virtual IPs are made so, as by Octavia and for keepalived.
    The port whose instance uses it then has it in its allowed address pairs.
    """
    candidates = _ports_of(walk, network_id)
    owner = next((p for p in candidates if any(same(f.ip_address, address) for f in p.port.fixed_ips)), None)
    if owner is not None and not is_reserved(owner, address):
        return owner
    if owner is None and ip_address(address).is_link_local and ":" in address:
        return next((p for p in candidates if link_local(p.port.mac_address) == ip_address(address)), None)
    sender = walk.snapshot.ports.get(walk.before.sender_id) if walk.packet.reply else None
    if owner is None and sender in candidates and sender is not None and sender.unfiltered:
        return sender  # it has sent from this address, which is not its own
    return next(iter(holders(walk, network_id, address)), owner)


def is_reserved(port: TracedPort, address: str) -> bool:
    """Whether a port may only reserve its address: it is bound to no host, and not a router's or a service's."""
    return not port.bound and not port.trusted and any(same(f.ip_address, address) for f in port.port.fixed_ips)


def holders(walk: Walk, network_id: str, address: str) -> list[TracedPort]:
    """The ports with just this address in their allowed address pairs: first that which has sent, then those in use."""
    found = [port for port in _ports_of(walk, network_id) if any(_is_just(p, address) for p in _pairs(port))]
    return sorted(found, key=lambda p: (p.id != walk.before.sender_id, not p.bound, p.status != "ACTIVE", p.id))


def may_have(walk: Walk, network_id: str, address: str) -> list[TracedPort]:
    """The ports that may use an address which no port has: without port security, or with a pair of a larger prefix."""
    several = (port for port in _ports_of(walk, network_id) if port.bound and not port.trusted)
    return [p for p in several if p.unfiltered or any(contains(prefix, address) for prefix in _pairs(p))]


def _ports_of(walk: Walk, network_id: str) -> list[TracedPort]:
    return [port for port in walk.snapshot.ports.values() if port.port.network_id == network_id]


def _pairs(port: TracedPort) -> list[str]:
    return [pair.ip_address for pair in port.port.allowed_address_pairs]


def _is_just(prefix: str, address: str) -> bool:
    network = ip_network(prefix, strict=False)
    return network.num_addresses == 1 and same(str(network.network_address), address)


def segment_of(network: Network, port: TracedPort | None) -> Segment | None:
    """The segment of a port's binding, or the network's first."""
    wanted = port.port.segment_id if port is not None else ""
    return next((s for s in network.segments if s.id == wanted), network.segments[0] if network.segments else None)


def outside_segment(walk: Walk, network: Network, name: str) -> Segment | None:
    """The segment by which packets leave a host to the outside of a network: the first that the host is connected to."""
    host = walk.snapshot.hosts.get(name)
    here = [s for s in network.segments if host is not None and s.physical_network in host.physical_networks]
    return next(iter(here), None) or segment_of(network, None)


def check_mtu(walk: Walk, network_id: str) -> None:
    """Devices keep the MTU that they were created with: hosts may answer that they take more (`oversized`)."""
    network = walk.snapshot.networks.get(network_id)
    if network is not None and network.mtu and walk.packet.size > network.mtu:
        subject = of_network(walk, network_id)
        text = f"The packet has {walk.packet.size} bytes, and the MTU of {subject} is {network.mtu}."
        if walk.oversized:
            return walk.informs("mtu", subject, f"{text} The devices on its way take more.")
        walk.drops("mtu", subject, Cause.PACKET_TOO_BIG, text)


def switch_to(walk: Walk, network_id: str, host: str, port: TracedPort | None = None) -> None:
    """Take the packet over a network to a host; nothing but a step if it is there already."""
    network, subject = walk.snapshot.networks[network_id], of_network(walk, network_id)
    if host == walk.host:
        text, public = f"{subject.title}: switched on host {host}.", f"{subject.title}: switched on one host."
        return walk.passes("switching", subject, text, public)
    segment = segment_of(network, port)
    kind = segment.network_type if segment is not None else "local"
    if segment is not None and kind in TUNNEL_TYPES:
        _tunnel(walk, subject, segment, host)
    elif segment is not None and kind in _PHYSICAL:
        _physical(walk, subject, segment, host)
    else:
        where = f"packets do not leave host {walk.host}, and the receiver is on host {host}"
        text = f"{subject.title} is of type {kind}: {where}."
        walk.drops("switching", subject, Cause.NETWORK_LOCAL, text, _unconnected(subject))
    return None


def leave(walk: Walk, network_id: str) -> None:
    """Take the packet to the outside of a network."""
    network, subject = walk.snapshot.networks[network_id], of_network(walk, network_id)
    segment = outside_segment(walk, network, walk.host)
    if segment is not None and segment.network_type in _PHYSICAL:
        check_physical(walk, subject, segment, walk.host)
        text = f"{subject.title}: leaves host {walk.host} by {_on(segment)}."
        walk.passes("external", subject, text, f"{subject.title}: leaves to the outside.")
        walk.leaves(_physical_point(segment))
    else:
        walk.passes("external", subject, f"{subject.title}: leaves to the outside.")
        walk.leaves(None)


def arrive(walk: Walk, network_id: str, host: str) -> None:
    """Let the packet in from the outside of a network."""
    network, subject = walk.snapshot.networks[network_id], of_network(walk, network_id)
    segment = outside_segment(walk, network, host)
    if segment is None or segment.network_type not in _PHYSICAL:
        walk.enters(host, None)
        public = f"{subject.title}: arrives from the outside."
        return walk.passes("external", subject, f"{subject.title}: arrives on host {host}.", public)
    check_physical(walk, subject, segment, host)
    walk.enters(host, _physical_point(segment))
    text = f"{subject.title}: arrives on host {host} by {_on(segment)}."
    return walk.passes("external", subject, text, f"{subject.title}: arrives from the outside.")


def _tunnel(walk: Walk, subject: Subject, segment: Segment, host: str) -> None:
    sender, receiver = walk.snapshot.hosts.get(walk.host), walk.snapshot.hosts.get(host)
    kind = segment.network_type
    for each, name in ((sender, walk.host), (receiver, host)):
        if each is None or not each.tunneling_ip or kind not in each.tunnel_types:
            why = f"{subject} needs one from {walk.host} to {host}"
            text = f"Host {name} has no {kind} tunnels (local_ip, tunnel_types), and {why}."
            walk.drops("tunnel", subject, Cause.NO_TUNNEL, text, _unconnected(subject))
    assert sender is not None
    assert receiver is not None
    text = f"{subject.title}: {kind} tunnel {segment.segmentation_id} from host {walk.host} to host {host}."
    walk.passes("tunnel", subject, text, f"{subject.title}: by a tunnel to another host.")
    walk.leaves(_tunnel_point(segment, receiver))
    walk.enters(host, _tunnel_point(segment, sender))


def _unconnected(subject: Subject) -> str:
    return f"{subject.title} does not reach all hosts of this path: an administrator can see why."


def _tunnel_point(segment: Segment, peer: TracedHost) -> Point:
    return Point(
        kind=PointKind.TUNNEL,
        peer=peer.tunneling_ip,
        network_type=segment.network_type,
        segmentation_id=segment.segmentation_id,
    )


def _physical(walk: Walk, subject: Subject, segment: Segment, host: str) -> None:
    for name in (walk.host, host):
        check_physical(walk, subject, segment, name)
    text = f"{subject.title}: {_on(segment)} from host {walk.host} to host {host}."
    walk.passes("physical-network", subject, text, f"{subject.title}: by the physical network to another host.")
    walk.leaves(_physical_point(segment))
    walk.enters(host, _physical_point(segment))


def check_physical(walk: Walk, subject: Subject, segment: Segment, name: str) -> None:
    host = walk.snapshot.hosts.get(name)
    if host is not None and segment.physical_network not in host.physical_networks:
        wanted = f"physical network {segment.physical_network}, which {subject} needs"
        text = f"Host {name} has no bridge for {wanted}: it is not in its bridge_mappings."
        walk.drops("physical-network", subject, Cause.NO_PHYSICAL_NETWORK, text, _unconnected(subject))


def _physical_point(segment: Segment) -> Point:
    return Point(
        kind=PointKind.PHYSICAL,
        physical_network=segment.physical_network or "",
        segmentation_id=segment.segmentation_id if segment.network_type == "vlan" else None,
    )


def _on(segment: Segment) -> str:
    tag = f", VLAN {segment.segmentation_id}" if segment.network_type == "vlan" else ", untagged"
    return f"physical network {segment.physical_network}{tag}"
