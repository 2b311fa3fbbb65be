"""Probes of a conversion: frames, loss, and which ways are probed."""

from __future__ import annotations

import struct

from neutrino.agent.takeover.ways import choose
from neutrino.dataplane.ovsdb.api import Bridge, Interface, Port, Snapshot
from neutrino.dataplane.probes.api import Probe, Sent, loss_of
from neutrino.dataplane.probes.frames import EchoReply, NeighbourReply, echo_request, neighbour_request, parse_answer
from neutrino.feed.state import State
from neutrino.model import state as model

MAC, PEER_MAC = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"
PROBE = Probe("tap1", 5, MAC, "10.0.0.5", "10.0.0.1")
NETWORK = "11111111-0000-4000-8000-000000000001"
PORT = "22222222-0000-4000-8000-000000000002"
ROUTER_PORT = "33333333-0000-4000-8000-000000000003"


def reply(request: bytes) -> bytes:
    """What a neighbour answers to an ARP request."""
    sender, address, _, peer = struct.unpack_from("!6s4s6s4s", request, 22)
    own = bytes.fromhex(PEER_MAC.replace(":", ""))
    return sender + own + request[12:20] + struct.pack("!H", 2) + own + peer + sender + address


def test_an_arp_request_and_its_answer() -> None:
    request = neighbour_request(MAC, "10.0.0.5", "10.0.0.1")
    assert request[:6] == b"\xff" * 6
    assert parse_answer(request) is None
    assert parse_answer(reply(request)) == NeighbourReply("10.0.0.1", PEER_MAC, MAC)


def test_an_echo_request_and_its_answer() -> None:
    request = echo_request(MAC, "10.0.0.5", PEER_MAC, "10.0.0.1", 77, 3)
    assert parse_answer(request) is None
    for start, end in ((14, 34), (34, 74)):  # IPv4 header, ICMP message
        words = struct.unpack(f"!{(end - start) // 2}H", request[start:end])
        assert sum(words) % 0xFFFF == 0, "checksum"
    assert parse_answer(request[:34] + b"\0" + request[35:]) == EchoReply(77, 3)


def advertisement(request: bytes, *, with_mac: bool = True) -> bytes:
    """What a neighbour answers to a solicitation, to its sender alone."""
    own = bytes.fromhex(PEER_MAC.replace(":", ""))
    source, target = request[22:38], request[62:78]
    option = b"\x02\x01" + own if with_mac else b""
    message = b"\x88\0\0\0" + b"\x60\0\0\0" + target + option
    head = struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + target + source
    return request[6:12] + own + b"\x86\xdd" + head + message


def test_a_neighbour_solicitation_and_its_answer() -> None:
    request = neighbour_request(MAC, "2001:db8::5", "2001:db8::12:3456")
    assert request[:6] == bytes.fromhex("3333ff123456"), "the group of the peer's address, not all hosts"
    assert request[38:54] == bytes.fromhex("ff0200000000000000000001ff123456")
    assert request[21] == 255, "hops: a neighbour message with fewer is dropped"
    assert request[78:86] == b"\x01\x01" + bytes.fromhex("fa163e000001")
    assert icmpv6_sum(request, 32) == 0
    assert parse_answer(request) is None
    for with_mac in (True, False):
        answer = advertisement(request, with_mac=with_mac)
        assert parse_answer(answer) == NeighbourReply("2001:db8::12:3456", PEER_MAC, MAC)


def icmpv6_sum(frame: bytes, length: int) -> int:
    """0 if the checksum is right."""
    covered = frame[22:54] + struct.pack("!II", length, 58) + frame[54 : 54 + length]
    return sum(struct.unpack(f"!{len(covered) // 2}H", covered)) % 0xFFFF


def test_an_echo_request_of_ipv6_and_its_answer() -> None:
    request = echo_request(MAC, "2001:db8::5", PEER_MAC, "fe80::1", 77, 3)
    assert icmpv6_sum(request, 40) == 0
    assert parse_answer(request) is None
    assert parse_answer(request[:54] + b"\x81" + request[55:]) == EchoReply(77, 3)


def test_frames_that_are_cut_off_are_no_answers() -> None:
    solicitation = neighbour_request(MAC, "2001:db8::5", "2001:db8::1")
    for frame in (
        neighbour_request(MAC, "10.0.0.5", "10.0.0.1"),
        echo_request(MAC, "10.0.0.5", PEER_MAC, "10.0.0.1", 1, 1),
        advertisement(solicitation),
        echo_request(MAC, "2001:db8::5", PEER_MAC, "2001:db8::1", 1, 1),
    ):
        for length in range(len(frame)):
            parse_answer(frame[:length])


def test_loss() -> None:
    packets = [Sent(0.0, 0.01), Sent(1.0), Sent(2.0, 2.02), Sent(9.9)]
    loss = loss_of(PROBE, packets, now=10.0, patience=1.0)
    assert (loss.sent, loss.lost) == (3, 1), "the last one may still be answered"
    assert round(loss.longest, 2) == 2.01
    assert round(loss.silent, 2) == 7.98
    assert loss_of(PROBE, [], now=10.0, patience=1.0).lost == 0


def test_instances_probe_their_gateway_and_a_neighbour_on_another_host() -> None:
    state = State()
    subnet = model.Subnet(
        id="44444444-0000-4000-8000-000000000004",
        network_id=NETWORK,
        ip_version=4,
        cidr="10.0.0.0/24",
        gateway_ip="10.0.0.1",
    )
    six = model.Subnet(
        id="55555555-0000-4000-8000-000000000005",
        network_id=NETWORK,
        ip_version=6,
        cidr="2001:db8::/64",
        gateway_ip="fe80::1",
    )
    state.objects["network"][NETWORK] = model.Network(id=NETWORK, subnets=(subnet, six))
    for port_id, owner, address in ((PORT, "compute:nova", "10.0.0.5"), (ROUTER_PORT, "network:dhcp", "10.0.0.2")):
        ips = (
            model.FixedIp(subnet.id, address),
            model.FixedIp(six.id, "2001:db8::5"),
            model.FixedIp(six.id, "2001:db8::6"),
        )
        state.objects["port"][port_id] = model.Port(
            id=port_id, network_id=NETWORK, mac_address=MAC, host="h1", device_owner=owner, fixed_ips=ips
        )
    state.objects["forwarding"]["f"] = model.Forwarding(
        id=ROUTER_PORT, network_id=NETWORK, host="h2", mac_address=PEER_MAC, ip_addresses=("2001:db8::9", "10.0.0.9")
    )
    ports = {
        name: Port(name, interfaces=(Interface(name, type=kind, ofport=ofport, external_ids={"iface-id": port_id}),))
        for name, kind, ofport, port_id in (
            ("tap1", "", 5, PORT),
            ("tap2", "internal", 6, ROUTER_PORT),
            ("tap3", "", -1, PORT),
            ("tap4", "", 7, "unknown"),
        )
    }
    snapshot = Snapshot({"br-int": Bridge("br-int", ports=ports)})
    chosen = choose(state, snapshot, "br-int")
    assert chosen == [
        PROBE,
        Probe("tap1", 5, MAC, "10.0.0.5", "10.0.0.9"),
        Probe("tap1", 5, MAC, "2001:db8::5", "2001:db8::9"),
        Probe("tap1", 5, MAC, "2001:db8::5", "fe80::1"),
    ]
    assert choose(state, snapshot, "missing") == []
