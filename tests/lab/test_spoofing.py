"""What a port may say it is: the spoofed that its host drops, and what makes them true."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Callable, Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.addresses import link_local
from tests.support.lab_control import Lab
from tests.support.lab_frames import (
    ALL_NODES,
    ALL_NODES_MAC,
    ARP,
    EVERYBODY,
    ICMPV6,
    NEIGHBOUR_ADVERTISEMENT,
    ROUTER_ADVERTISEMENT,
    Frame,
    advertises,
    announces,
    arp,
    arp_request,
    arriving,
    datagram,
    ends,
    ethernet,
    fragmented,
    fragmented_datagram,
    honest,
    icmpv6,
    routes,
)
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    VERSIONS,
    Guest,
    Spec,
    attempts,
    expect,
    make_group,
    make_guests,
    make_network,
    pings,
    wait_until_reachable,
)

OTHER_MAC = "02:00:00:00:00:99"
NOT_MINE = {4: "10.0.0.240", 6: "fd00:10::240"}
SHARED = "10.0.0.220"
NOBODY = "10.0.0.254"  # has no port: a question for one that has may be answered by the host itself
LENGTH = {4: 24, 6: 64}
_NODAD: dict[int, tuple[str, ...]] = {4: (), 6: ("nodad",)}
UNSECURED = {"port_security_enabled": False, "security_groups": []}


@dataclasses.dataclass(frozen=True)
class Place:
    lab: Lab
    secured: Guest  # on h1
    stateless: Guest  # on h1, with rules without connection tracking
    free: Guest  # on h1, without port security
    receivers: tuple[Guest, Guest]  # on h1 and h2, without port security: they receive every frame
    peers: tuple[Guest, Guest]  # on h1 and h2, ordinary


@pytest.fixture(scope="module")
def place(datapaths: Lab) -> Place:
    lab = datapaths
    group, _ = make_group(lab, "open", *EVERYTHING)
    net = make_network(lab, "blue")
    loose, _ = make_group(lab, "loose", *EVERYTHING, stateful=False)
    secured, stateless, free, near, far, *peers = make_guests(
        lab,
        Spec("secured", net, "h1", [group]),
        Spec("stateless", net, "h1", [loose]),
        Spec("free", net, "h1", values=UNSECURED),
        Spec("near", net, "h1", values=UNSECURED),
        Spec("far", net, "h2", values=UNSECURED),
        Spec("peer-near", net, "h1", [group]),
        Spec("peer-far", net, "h2", [group]),
    )
    return Place(lab, secured, stateless, free, (near, far), (peers[0], peers[1]))


def _answers(mac: str, sender: tuple[str, str], target: Guest) -> Frame:
    return lambda mark: ethernet(mac, target.mac, ARP, arp(2, sender, ends(target), mark))


def _spoofed_frames(sender: Guest, target: Guest) -> dict[str, Frame]:
    own4, own6 = sender.addresses[4], sender.addresses[6]
    local = str(link_local(sender.mac))
    return {
        "a MAC": datagram((OTHER_MAC, own4), ends(target)),
        "a MAC under IPv6": datagram((OTHER_MAC, own6), ends(target, 6)),
        "an address": datagram((sender.mac, NOT_MINE[4]), ends(target)),
        "an IPv6 address": datagram((sender.mac, NOT_MINE[6]), ends(target, 6)),
        "a neighbour's address": datagram((sender.mac, target.addresses[4]), (EVERYBODY, "255.255.255.255")),
        "ARP answer": _answers(sender.mac, (sender.mac, NOT_MINE[4]), target),
        "ARP question": arp_request(sender.mac, (sender.mac, NOT_MINE[4]), NOBODY),
        "ARP with a MAC inside": _answers(sender.mac, (OTHER_MAC, own4), target),
        "ARP from a MAC": _answers(OTHER_MAC, (OTHER_MAC, own4), target),
        "neighbour advertisement": advertises(sender.mac, NOT_MINE[6]),
        "router advertisement": routes(sender.mac),
        "announcement of a MAC": announces(OTHER_MAC),
        "DHCP server": datagram((sender.mac, own4), ends(target), (67, 68)),
        "DHCP server to all": datagram((sender.mac, own4), (EVERYBODY, "255.255.255.255"), (67, 68)),
        "DHCPv6 server": datagram((sender.mac, local), (target.mac, str(link_local(target.mac))), (547, 546)),
        "unknown protocol": lambda mark: ethernet(sender.mac, target.mac, 0x88B5, mark),
    }


def _tagged(source: Guest, target: Guest, vlan: int) -> Frame:
    return lambda mark: ethernet(source.mac, target.mac, 0x88B5, mark, vlan)


@pytest.mark.parametrize("where", [0, 1], ids=["same host", "other host"])
def test_spoofed_frames_are_dropped(place: Place, where: int) -> None:
    sender, receiver = place.secured, place.receivers[where]
    spoofed = _spoofed_frames(sender, receiver) | {
        f"tag {vlan}": _tagged(sender, receiver, vlan) for vlan in (1, 2, 3, 4094)
    }
    assert arriving(sender, receiver, spoofed, honest(sender, receiver)) == set()


def _spoofed_fragments(sender: Guest, target: Guest) -> dict[str, Frame]:
    """The switch sees no ports in a fragment."""
    own4, local = ends(sender), (sender.mac, str(link_local(sender.mac)))
    near = target.mac, str(link_local(target.mac))
    everybody, all_nodes = (EVERYBODY, "255.255.255.255"), (ALL_NODES_MAC, ALL_NODES)

    def routing(kind: int) -> Callable[[bytes], bytes]:
        return lambda data: icmpv6(local[1], ALL_NODES, kind, struct.pack("!BBHII", 64, 0, 1800, 0, 0) + data)

    return {
        "DHCP server": fragmented_datagram(own4, ends(target), (67, 68)),
        "DHCP server to all": fragmented_datagram(own4, everybody, (67, 68)),
        "DHCPv6 server": fragmented_datagram(local, near, (547, 546)),
        "DHCPv6 server behind a header": fragmented_datagram(local, near, (547, 546), extended=True),
        "router": fragmented(local, all_nodes, routing(ROUTER_ADVERTISEMENT), ICMPV6),
        "router behind a header": fragmented(local, all_nodes, routing(ROUTER_ADVERTISEMENT), ICMPV6, extended=True),
        "neighbour": fragmented(local, all_nodes, routing(NEIGHBOUR_ADVERTISEMENT), ICMPV6),
    }


def _valid_fragments(sender: Guest, target: Guest) -> dict[str, Frame]:
    return {
        "datagram": fragmented_datagram(ends(sender), ends(target)),
        "IPv6 datagram": fragmented_datagram(ends(sender, 6), ends(target, 6)),
    }


@pytest.mark.parametrize("stateful", [True, False], ids=["stateful", "stateless"])
@pytest.mark.parametrize("where", [0, 1], ids=["same host", "other host"])
def test_spoofed_fragments_are_dropped_and_valid_ones_pass(place: Place, where: int, stateful: bool) -> None:
    sender, receiver = place.secured if stateful else place.stateless, place.receivers[where]
    spoofed, valid = _spoofed_fragments(sender, receiver), _valid_fragments(sender, receiver)
    assert arriving(sender, receiver, spoofed | valid, honest(sender, receiver)) == valid.keys()


@pytest.mark.parametrize("where", [0, 1], ids=["same host", "other host"])
def test_a_port_without_port_security_may_send_anything_but_tags(place: Place, where: int) -> None:
    sender, receiver = place.free, place.receivers[where]
    spoofed = _spoofed_frames(sender, receiver)
    tags = {f"tag {vlan}": _tagged(sender, receiver, vlan) for vlan in (1, 2, 3, 4094)}
    assert arriving(sender, receiver, spoofed | tags, honest(sender, receiver)) == spoofed.keys()


@pytest.mark.parametrize("where", [0, 1], ids=["same host", "other host"])
def test_valid_frames_pass(place: Place, where: int) -> None:
    sender, receiver = place.secured, place.receivers[where]
    own4, own6, local = sender.addresses[4], sender.addresses[6], str(link_local(sender.mac))
    valid = {
        "datagram": honest(sender, receiver),
        "IPv6 datagram": honest(sender, receiver, 6),
        "from the link-local address": datagram((sender.mac, local), (receiver.mac, receiver.addresses[6])),
        "ARP answer": _answers(sender.mac, (sender.mac, own4), receiver),
        "ARP question": arp_request(sender.mac, (sender.mac, own4), NOBODY),
        "ARP probe": arp_request(sender.mac, (sender.mac, "0.0.0.0"), NOBODY),
        "announcement after a migration": announces(sender.mac),
        "own advertisement": advertises(sender.mac, own6),
        "own link-local advertisement": advertises(sender.mac, local),
        "DHCP client": datagram((sender.mac, "0.0.0.0"), (EVERYBODY, "255.255.255.255"), (68, 67)),
        "DHCPv6 client": datagram((sender.mac, local), ("33:33:00:01:00:02", "ff02::1:2"), (546, 547)),
    }
    assert arriving(sender, receiver, valid, honest(sender, receiver)) == valid.keys()


def test_unicast_between_two_ports_reaches_no_other(place: Place) -> None:
    """Not even a port without port security, for which unknown addresses are meant."""
    secured, (peer_near, peer_far), (near, _) = place.secured, place.peers, place.receivers
    for version in VERSIONS:
        wait_until_reachable(secured, peer_far, version)
    for receiver in (near, peer_near):
        frames = {"away": honest(secured, peer_far), "away by IPv6": honest(secured, peer_far, 6)}
        assert not arriving(secured, receiver, frames, honest(secured, receiver))
        frames = {"home": honest(peer_far, secured), "home by IPv6": honest(peer_far, secured, 6)}
        assert not arriving(peer_far, receiver, frames, honest(peer_far, receiver))


def test_a_machine_behind_an_unsecured_port_is_reached(place: Place) -> None:
    """Such as a container in an instance: only the port's own switch can know of it."""
    addresses = {4: "10.0.0.230", 6: "fd00:10::230"}
    with _behind(place.free, OTHER_MAC, addresses):
        for peer in place.peers:
            for version in VERSIONS:
                _wait_for_ping(peer, addresses[version])


@pytest.fixture
def secured(place: Place) -> Iterator[Guest]:
    """Without address pairs afterwards."""
    yield place.secured
    place.secured.update(allowed_address_pairs=[])


def test_allowed_address_pairs(place: Place, secured: Guest) -> None:
    other = dataclasses.replace(secured, addresses={4: "10.0.0.210", 6: "fd00:10::210"})
    added = [(f"{other.addresses[version]}/{LENGTH[version]}", "dev", "eth0") for version in VERSIONS]
    for address in added:
        secured.ip("address", "add", *address)
    own, further = attempts(place.peers, [secured], 80), attempts(place.peers, [other], 81)
    expect(own, further)
    secured.update(allowed_address_pairs=[{"ip_address": address} for address in other.addresses.values()])
    expect([*own, *further])
    secured.update(allowed_address_pairs=[])
    expect(own, further)
    for address in added:
        secured.ip("address", "del", *address)


def test_address_pairs_with_a_range_and_with_another_mac(place: Place, secured: Guest) -> None:
    addresses = NOT_MINE
    pairs = [
        {"ip_address": "10.0.0.240/28", "mac_address": OTHER_MAC},
        {"ip_address": "fd00:10::240/124", "mac_address": OTHER_MAC},
    ]
    with _behind(secured, OTHER_MAC, addresses):
        assert not pings(place.peers[0], addresses[4])
        secured.update(allowed_address_pairs=pairs)
        for peer in place.peers:
            for version in VERSIONS:
                _wait_for_ping(peer, addresses[version])
        receiver = place.receivers[1]
        mixed = {
            "the pair's address with the port's MAC": datagram((secured.mac, addresses[4]), ends(receiver)),
            "the port's address with the pair's MAC": datagram((OTHER_MAC, secured.addresses[4]), ends(receiver)),
            "outside the range": datagram((OTHER_MAC, "10.0.0.239"), ends(receiver)),
        }
        assert arriving(secured, receiver, mixed, honest(secured, receiver)) == set()


@pytest.fixture
def sharing(place: Place) -> Iterator[tuple[Guest, Guest]]:
    """Two ports, on h1 and h2, that may both have one address with a MAC that goes with it, as routers with VRRP do."""
    holders = (place.secured, place.peers[1])
    for holder in holders:
        holder.update(allowed_address_pairs=[{"ip_address": SHARED, "mac_address": OTHER_MAC}])
    yield holders
    for holder in holders:
        holder.update(allowed_address_pairs=[])


def test_an_address_with_its_mac_moves_between_ports(place: Place, sharing: tuple[Guest, Guest]) -> None:
    for holder in (*sharing, sharing[0]):
        with _behind(holder, OTHER_MAC, {4: SHARED}):
            _wait_for_ping(place.peers[0], SHARED)
            _wait_for_ping(place.receivers[1], SHARED)


@contextlib.contextmanager
def _behind(guest: Guest, mac: str, addresses: dict[int, str]) -> Iterator[None]:
    """Another machine inside a VM, such as a container, with a MAC and addresses of its own."""
    name, host = f"behind-{guest.name}", guest.host
    guest.lab.run(host, ["ip", "netns", "add", name])
    try:
        guest.ip("link", "add", "link", "eth0", "name", "eth0", "netns", name, "address", mac, "type", "macvlan")
        for version, address in addresses.items():
            add = ("address", "add", f"{address}/{LENGTH[version]}", "dev", "eth0", *_NODAD[version])
            guest.lab.run(host, ["ip", "-n", name, *add])
        guest.lab.run(host, ["ip", "-n", name, "link", "set", "eth0", "up"])
        yield
    finally:
        guest.lab.run(host, ["ip", "netns", "delete", name])


def _wait_for_ping(source: Guest, address: str) -> None:
    wait_until(lambda: pings(source, address, count=1), SOON, f"{source.name} does not reach {address}")
