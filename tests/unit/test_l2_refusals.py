"""What the agent answers to packets that a firewall group rejects, and what it never answers."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extensions.firewall_groups import FirewallGroups
from neutrino.agent.l2.pipeline import TRANSIENT, extension_tables, ingress_tables
from neutrino.agent.l2.refusals import (
    AT_ONCE,
    PER_SECOND,
    PORT_AT_ONCE,
    answer,
    answers,
    refuse,
    rejecting_port,
)
from neutrino.agent.runtime.bucket import MAX_SHARES
from neutrino.dataplane.protocols.packet_in import PacketIn, PacketOut

SENDER, TARGET = bytes.fromhex("fa163e000001"), bytes.fromhex("fa163e000002")
FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58
ENDS = {4: ("10.0.0.1", "10.0.0.2"), 6: ("2001:db8::1", "2001:db8::2")}


def frame(
    version: int,
    protocol: int,
    payload: bytes,
    *,
    ends: tuple[str, str] | None = None,
    macs: tuple[bytes, bytes] = (SENDER, TARGET),
    tag: bytes = b"",
    fragment: int = 0,
) -> bytes:
    source, target = (ip_address(each).packed for each in ends or ENDS[version])
    if version == 4:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 7, fragment, 64, protocol, 0)
        return macs[1] + macs[0] + tag + b"\x08\x00" + head + source + target + payload
    head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64)
    return macs[1] + macs[0] + tag + b"\x86\xdd" + head + source + target + payload


def segment(
    flags: int, data: bytes = b"", sequence: int = 1000, acknowledged: int = 5000, options: bytes = b""
) -> bytes:
    offset = (20 + len(options)) // 4 << 4
    return struct.pack("!HHIIBBHHH", 4000, 80, sequence, acknowledged, offset, flags, 0, 0, 0) + options + data


DATAGRAM = struct.pack("!HHHH", 4000, 53, 12, 0) + b"data"


def folded(data: bytes) -> int:
    """0xffff where the checksum in the data is right."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def opened(sent: bytes | None, version: int) -> tuple[int, bytes]:
    """Protocol and payload of a packet back from the target to the sender, with right checksums."""
    assert sent is not None
    assert (sent[0:6], sent[6:12]) == (SENDER, TARGET)
    data = sent[14:]
    source, target = (ip_address(each).packed for each in reversed(ENDS[version]))
    if version == 4:
        assert folded(data[:20]) == 0xFFFF
        assert (data[12:16], data[16:20], int.from_bytes(data[2:4], "big")) == (source, target, len(data))
        protocol, payload = data[9], data[20:]
    else:
        assert (data[8:24], data[24:40], int.from_bytes(data[4:6], "big")) == (source, target, len(data) - 40)
        protocol, payload = data[6], data[40:]
    pseudo = b"" if protocol == ICMP else source + target + struct.pack("!II", len(payload), protocol)
    assert folded(pseudo + payload) == 0xFFFF
    return protocol, payload


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("payload", "numbers", "flags"),
    [
        (segment(SYN, options=bytes(8)), (0, 1001), RST | ACK),
        (segment(SYN, b"fast open"), (0, 1010), RST | ACK),
        (segment(ACK, b"data"), (5000, 0), RST),
        (segment(FIN, b"data"), (0, 1005), RST | ACK),
        (segment(SYN, sequence=0xFFFFFFFF), (0, 0), RST | ACK),
    ],
)
def test_tcp_is_reset(version: int, payload: bytes, numbers: tuple[int, int], flags: int) -> None:
    protocol, sent = opened(answer(frame(version, TCP, payload)), version)
    found = struct.unpack_from("!HHIIBB", sent)
    assert (protocol, found) == (TCP, (80, 4000, *numbers, 5 << 4, flags))
    assert len(sent) == 20


@pytest.mark.parametrize(("version", "kind"), [(4, (ICMP, 3, 3)), (6, (ICMPV6, 1, 4))])
def test_all_else_is_unreachable(version: int, kind: tuple[int, int, int]) -> None:
    echo = {4: b"\x08\x00", 6: b"\x80\x00"}[version] + bytes(6)
    for protocol, payload in ((UDP, DATAGRAM), (132, bytes(12)), ({4: ICMP, 6: ICMPV6}[version], echo)):
        rejected = frame(version, protocol, payload)
        found, sent = opened(answer(rejected), version)
        assert (found, sent[0], sent[1]) == kind
        assert sent[8:] == rejected[14:], "the sender knows its socket by what is quoted"


def test_the_beginning_of_a_long_packet_is_enough() -> None:
    whole = frame(4, UDP, struct.pack("!HHHH", 4000, 53, 1408, 0) + bytes(1400))
    _, sent = opened(answer(whole[:128]), 4)
    assert sent[8:] == whole[14:128]
    assert len(answer(whole) or b"") < 600
    _, sent = opened(answer(frame(4, TCP, segment(FIN, bytes(1000)))[:128]), 4)
    assert struct.unpack_from("!HHII", sent)[3] == 2001, "lengths are those of the header"


def test_a_tag_of_the_instance_stays() -> None:
    tag = bytes.fromhex("81000005")
    assert (answer(frame(4, UDP, DATAGRAM, tag=tag)) or b"")[12:18] == tag + b"\x08\x00"


def test_headers_of_ipv6_before_the_protocol_are_passed() -> None:
    extension = bytes([UDP, 0]) + bytes(6)
    protocol, sent = opened(answer(frame(6, 0, extension + DATAGRAM)), 6)
    assert (protocol, sent[48:]) == (ICMPV6, extension + DATAGRAM)


@pytest.mark.parametrize(
    "silent",
    [
        frame(4, TCP, segment(RST)),
        frame(6, TCP, segment(RST | ACK)),
        *(frame(4, ICMP, bytes([kind]) + bytes(7)) for kind in (3, 4, 5, 11, 12)),
        *(frame(6, ICMPV6, bytes([kind]) + bytes(7)) for kind in (1, 2, 3, 4, 137)),
        frame(4, ICMP, b""),
        frame(6, ICMPV6, b""),
        frame(4, UDP, DATAGRAM, fragment=100),
        frame(6, 44, bytes([UDP, 0, 3, 33]) + bytes(4) + DATAGRAM),
        frame(4, UDP, DATAGRAM, ends=("10.0.0.1", "224.0.0.251")),
        frame(4, UDP, DATAGRAM, ends=("10.0.0.1", "255.255.255.255")),
        frame(4, UDP, DATAGRAM, ends=("0.0.0.0", "10.0.0.2")),
        frame(4, UDP, DATAGRAM, ends=("239.1.1.1", "10.0.0.2")),
        frame(4, UDP, DATAGRAM, ends=("127.0.0.1", "10.0.0.2")),
        frame(6, UDP, DATAGRAM, ends=("::", "2001:db8::2")),
        frame(6, UDP, DATAGRAM, ends=("2001:db8::1", "ff02::1")),
        frame(4, UDP, DATAGRAM, macs=(SENDER, b"\xff" * 6)),
        frame(4, UDP, DATAGRAM, macs=(SENDER, bytes.fromhex("01005e0000fb"))),
        frame(4, UDP, DATAGRAM, macs=(bytes.fromhex("01005e000001"), TARGET)),
        frame(4, UDP, DATAGRAM, macs=(bytes(6), TARGET)),
        TARGET + SENDER + b"\x08\x06" + bytes(28),  # ARP
        frame(4, TCP, segment(SYN))[:40],
        frame(6, 0, bytes([0, 255]))[:60],
    ],
)
def test_what_must_not_be_answered(silent: bytes) -> None:
    assert answer(silent) is None


def test_no_beginning_of_a_packet_is_an_error() -> None:
    for whole in (frame(4, TCP, segment(SYN)), frame(6, UDP, DATAGRAM), frame(6, 0, bytes([44, 0]) + bytes(14))):
        for length in range(len(whole)):
            answer(whole[:length])
            answer(whole[:length] + b"\xff" * 40)


def test_where_answers_go() -> None:
    options = L2Options(
        extension_tables=extension_tables([FirewallGroups.name, "another"]),
        ingress_tables=ingress_tables(["another", FirewallGroups.name]),
    )
    data = frame(4, UDP, DATAGRAM)
    sent = answer(data)
    assert sent is not None
    assert refuse(PacketIn(1, 50, 3, data, {5: 3}), options) == PacketOut(3, sent)
    assert refuse(PacketIn(1, 101, 3, data, {5: 9}), options) == PacketOut(9, sent, 51), "as if port 9 had sent it"
    assert refuse(PacketIn(1, 101, 3, data), options) is None
    assert refuse(PacketIn(1, 100, 3, data, {5: 9}), options) is None, "of another extension"
    alone = L2Options(
        extension_tables=extension_tables([FirewallGroups.name]), ingress_tables=ingress_tables([FirewallGroups.name])
    )
    assert refuse(PacketIn(1, 100, 3, data, {5: 9}), alone) == PacketOut(9, sent, TRANSIENT.number)


def test_a_host_answers_so_many_in_a_second_and_each_port_has_a_share_besides() -> None:
    now = [100.0]
    limit = answers(lambda: now[0])
    first = int(AT_ONCE + PORT_AT_ONCE)
    assert [limit.take(3) for _ in range(first + 5)] == [True] * first + [False] * 5
    own = int(PORT_AT_ONCE)
    assert [limit.take(9) for _ in range(own + 2)] == [True] * own + [False] * 2, "what port 3 has used up is not all"
    now[0] += 10 / PER_SECOND + 1e-9
    assert [limit.take(3) for _ in range(12)] == [True] * 10 + [False] * 2


def test_shares_of_ports_that_are_gone_are_forgotten() -> None:
    now = [100.0]
    limit = answers(lambda: now[0])
    for port in range(2 * MAX_SHARES):
        limit.take(port)
        now[0] += 1
    assert len(limit._shares) <= MAX_SHARES


def test_the_port_that_rejects_is_the_sender_or_the_one_that_a_packet_is_for() -> None:
    assert rejecting_port(PacketIn(1, 50, 3, b"", {5: 9})) == 3
    assert rejecting_port(PacketIn(1, 100, 3, b"", {5: 9})) == 9
