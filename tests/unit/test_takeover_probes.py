"""Probes of a conversion: frames, loss, and which ways are probed."""

from __future__ import annotations

import struct

from neutrino.agent.takeover.ways import choose
from neutrino.dataplane.ovsdb.api import Bridge, Interface, Port, Snapshot
from neutrino.dataplane.probes.api import Probe, Sent, loss_of
from neutrino.dataplane.probes.frames import ArpReply, EchoReply, arp_request, echo_request, parse_answer
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
    request = arp_request(MAC, "10.0.0.5", "10.0.0.1")
    assert request[:6] == b"\xff" * 6
    assert parse_answer(request) is None
    assert parse_answer(reply(request)) == ArpReply("10.0.0.1", PEER_MAC, MAC)


def test_an_echo_request_and_its_answer() -> None:
    request = echo_request(MAC, "10.0.0.5", PEER_MAC, "10.0.0.1", 77, 3)
    assert parse_answer(request) is None
    for start, end in ((14, 34), (34, 74)):  # IPv4 header, ICMP message
        words = struct.unpack(f"!{(end - start) // 2}H", request[start:end])
        assert sum(words) % 0xFFFF == 0, "checksum"
    assert parse_answer(request[:34] + b"\0" + request[35:]) == EchoReply(77, 3)


def test_frames_that_are_cut_off_are_no_answers() -> None:
    for frame in (arp_request(MAC, "10.0.0.5", "10.0.0.1"), echo_request(MAC, "10.0.0.5", PEER_MAC, "10.0.0.1", 1, 1)):
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
    state.objects["network"][NETWORK] = model.Network(id=NETWORK, subnets=(subnet,))
    for port_id, owner, address in ((PORT, "compute:nova", "10.0.0.5"), (ROUTER_PORT, "network:dhcp", "10.0.0.2")):
        ips = (model.FixedIp(subnet.id, address), model.FixedIp(subnet.id, "2001:db8::5"))
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
    assert chosen == [PROBE, Probe("tap1", 5, MAC, "10.0.0.5", "10.0.0.9")]
    assert choose(state, snapshot, "missing") == []
