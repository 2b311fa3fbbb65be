"""Security groups on real packets: what passes, what does not, and what becomes of connections when rules change.

Servers are on the client's host and on another one: the first is judged by one switch in both directions, the second by
the sender's switch on the way out and by its own on the way in.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from neutrino.lab.errors import wait_until
from tests.support.lab_control import Lab
from tests.support.lab_frames import (
    EVERYBODY,
    ICMP,
    ICMPV6,
    UDP,
    Frame,
    arriving,
    ethernet,
    icmp,
    icmpv6,
    ip,
    udp,
)
from tests.support.lab_guests import (
    EVERYTHING,
    SOON,
    VERSIONS,
    Attempt,
    Conversation,
    Guest,
    Spec,
    add_rule,
    allow,
    attempts,
    can_ping,
    connections,
    expect,
    make_group,
    make_guests,
    make_network,
    reaches,
    wait_to_fall_silent,
    wait_until_reachable,
)

ETHERTYPE = {4: "IPv4", 6: "IPv6"}
LENGTH = {4: 32, 6: 128}
NETWORK: dict[int, str | None] = {4: "10.0.0.0/24", 6: "fd00:10::/64"}
SCTP, GRE, EXPERIMENT = 132, 47, 253
ECHO, TIMESTAMP = 8, 13
ECHO6, ECHO6_REPLY = 128, 129


@dataclasses.dataclass(frozen=True)
class Place:
    lab: Lab
    clients: str  # the client's group: it lets nothing in
    open: str  # a group that lets everything in
    client: Guest  # on h1
    other: Guest  # on h3
    servers: tuple[Guest, Guest]  # on h1 and h2

    def serve(self, *groups: str) -> None:
        for server in self.servers:
            server.update(security_groups=list(groups))

    def serve_now(self, group: str, sign: int) -> None:
        """The same, and wait until it is so: by a TCP port that no group of before lets in, and one that this does not."""
        add_rule(self.lab, group, allow("tcp", sign))
        self.serve(group)
        tries = [Attempt(self.client, server, number) for number in (sign, 80) for server in self.servers]
        expect([each for each in tries if each.number == sign], [each for each in tries if each.number == 80])


@pytest.fixture(scope="module")
def place(lab: Lab) -> Place:
    clients, _ = make_group(lab, "clients")
    strangers, _ = make_group(lab, "strangers")
    everybody, _ = make_group(lab, "open", *EVERYTHING)
    net = make_network(lab, "blue")
    client, other, near, far = make_guests(
        lab,
        Spec("client", net, "h1", [clients]),
        Spec("other", net, "h3", [strangers]),
        Spec("near", net, "h1", [everybody]),
        Spec("far", net, "h2", [everybody]),
    )
    return Place(lab, clients, everybody, client, other, (near, far))


# --- who may ----------------------------------------------------------------------------------------------------------


def test_nothing_comes_in_unless_a_rule_lets_it(place: Place) -> None:
    closed, _ = make_group(place.lab, "closed")
    place.serve(closed)
    place.client.update(security_groups=[place.open])
    # What a server asks for itself is answered.
    own = attempts(place.servers, [place.client])
    expect(own, attempts([place.client, place.other], place.servers, 22, 80))
    for server in place.servers:
        assert not can_ping(place.client, server)
        wait_until_reachable(server, place.client, 6)
    place.client.update(security_groups=[place.clients])


def test_by_address(place: Place) -> None:
    group, _ = make_group(place.lab, "one", *_for_tcp(80, "remote_ip_prefix", _only(place.client)))
    add_rule(place.lab, group, allow("tcp", 25, remote_ip_prefix=_only(place.client)[4]))
    place.serve(group)
    mail = [each for each in attempts(place.client, place.servers, 25) if each.version == 4]
    mail6 = [each for each in attempts(place.client, place.servers, 25) if each.version == 6]
    theirs = attempts(place.other, place.servers)
    expect(
        [*attempts(place.client, place.servers), *mail], [*mail6, *theirs, *attempts(place.client, place.servers, 81)]
    )
    for rule in _for_tcp(80, "remote_ip_prefix", NETWORK):
        add_rule(place.lab, group, rule)
    expect([*attempts(place.client, place.servers), *theirs], attempts(place.other, place.servers, 25))


def test_by_remote_group(place: Place) -> None:
    """Members are let in wherever they are, from when they join until they leave, and so are their connections."""
    group, _ = make_group(
        place.lab, "members", *_for_tcp(80, "remote_group_id", dict.fromkeys(VERSIONS, place.clients))
    )
    place.serve(group)
    mine, theirs = attempts(place.client, place.servers), attempts(place.other, place.servers)
    expect(mine, [*theirs, *attempts(place.client, place.servers, 81)])

    before = place.other.port["security_groups"]
    place.other.update(security_groups=[*before, place.clients])
    expect([*mine, *theirs])
    with contextlib.ExitStack() as stack:
        staying, leaving = (connections(stack, tries) for tries in (mine, theirs))
        place.other.update(security_groups=before)
        wait_to_fall_silent(*leaving)
        assert all(connection.talks() for connection in staying)
    expect(mine, theirs)


def test_by_the_default_group(place: Place) -> None:
    """Its members reach each other, and nobody else reaches them."""
    default = place.lab.api.find("security_group", "default")["id"]
    place.serve(default)
    near, far = place.servers
    expect([*attempts(near, [far]), *attempts(far, [near])], attempts([place.client, place.other], place.servers))
    for version in VERSIONS:
        wait_until_reachable(near, far, version)


def test_by_address_group(place: Place) -> None:
    lab = place.lab
    mine, theirs = attempts(place.client, place.servers), attempts(place.other, place.servers)
    known = lab.api.create("address_group", name="known", addresses=list(_only(place.client).values()))
    group, _ = make_group(lab, "known", *_for_tcp(80, "remote_address_group_id", dict.fromkeys(VERSIONS, known["id"])))
    place.serve(group)
    expect(mine, theirs)
    path, others = f"/v2.0/address-groups/{known['id']}", {"addresses": list(_only(place.other).values())}
    lab.api.request("PUT", f"{path}/add_addresses", others)
    expect([*mine, *theirs])
    lab.api.request("PUT", f"{path}/remove_addresses", others)
    expect(mine, theirs)


def test_a_port_with_several_groups_has_the_rules_of_all(place: Place) -> None:
    both = dict.fromkeys(VERSIONS)
    web, _ = make_group(place.lab, "web", *_for_tcp(80, "remote_ip_prefix", both))
    mail, _ = make_group(place.lab, "mail", *_for_tcp(25, "remote_ip_prefix", both))
    place.serve(web, mail)
    expect(attempts(place.client, place.servers, 80, 25), attempts(place.client, place.servers, 22))
    place.serve(web)
    expect(attempts(place.client, place.servers, 80), attempts(place.client, place.servers, 25))


def test_egress(place: Place) -> None:
    lab = place.lab
    place.serve(place.open)
    silent, _ = make_group(lab, "silent", lets_out=False)
    place.client.update(security_groups=[silent])
    near, far = place.servers
    expect(attempts(place.other, place.servers), attempts(place.client, place.servers))
    assert not can_ping(place.client, near)
    outward = [rule | {"direction": "egress"} for rule in _for_tcp(80, "remote_ip_prefix", _only(far))]
    rules = [add_rule(lab, silent, rule) for rule in outward]
    expect(attempts(place.client, [far]), [*attempts(place.client, [near]), *attempts(place.client, [far], 81)])
    with contextlib.ExitStack() as stack:
        made = connections(stack, attempts(place.client, [far]))
        add_rule(lab, silent, allow("icmp", direction="egress"))
        wait_until_reachable(place.client, near)
        for rule in rules:
            lab.api.delete("security_group_rule", rule)
        wait_to_fall_silent(*made)
    assert reaches(place.client, far.addresses[4])
    place.client.update(security_groups=[place.clients])
    expect(attempts(place.client, place.servers))


def _for_tcp(number: int, what: str, values: Mapping[int, str | None]) -> list[dict[str, Any]]:
    """A rule for each IP version, for one port and one remote."""
    return [
        allow("tcp", number, ethertype=ETHERTYPE[version]) | ({what: value} if value else {})
        for version, value in values.items()
    ]


def _only(guest: Guest) -> dict[int, str]:
    """A prefix with one address, by version."""
    return {version: f"{guest.addresses[version]}/{LENGTH[version]}" for version in VERSIONS}


# --- what may ---------------------------------------------------------------------------------------------------------


def _packet(source: Guest, target: Guest, version: int, protocol: int, payload: Callable[[bytes], bytes]) -> Frame:
    def made(mark: bytes) -> bytes:
        kind, packet = ip(source.addresses[version], target.addresses[version], protocol, payload(mark))
        return ethernet(source.mac, target.mac, kind, packet)

    return made


def _datagram(source: Guest, target: Guest, version: int, number: int) -> Frame:
    ends = source.addresses[version], target.addresses[version]
    return _packet(source, target, version, UDP, lambda mark: udp(*ends, (40000, number), mark))


def test_port_ranges(place: Place) -> None:
    ranges = [(1000, 2000), (7, 7)]
    rules = [allow("udp", ports, ethertype=kind) for ports in ranges for kind in ETHERTYPE.values()]
    group, _ = make_group(place.lab, "ranges", *rules)
    place.serve_now(group, 9001)
    inside, outside = (7, 1000, 1024, 1537, 2000), (1, 6, 8, 999, 2001, 65535)
    for server in place.servers:
        for version in VERSIONS:
            frames = {str(number): _datagram(place.client, server, version, number) for number in (*inside, *outside)}
            control = _datagram(place.client, server, version, 7)
            assert arriving(place.client, server, frames, control) == {str(number) for number in inside}


def test_broadcasts_meet_the_rules_of_every_port(place: Place) -> None:
    group, _ = make_group(place.lab, "heard", allow("udp", 7))
    place.serve_now(group, 9002)

    def to_all(number: int) -> Frame:
        source, target = place.client.addresses[4], "255.255.255.255"

        def made(mark: bytes) -> bytes:
            kind, packet = ip(source, target, UDP, udp(source, target, (40000, number), mark))
            return ethernet(place.client.mac, EVERYBODY, kind, packet)

        return made

    for server in place.servers:
        assert arriving(place.client, server, {"8": to_all(8), "7": to_all(7)}, to_all(7)) == {"7"}


def test_icmp_types(place: Place) -> None:
    group, _ = make_group(
        place.lab,
        "echo",
        allow("icmp", (ECHO, 0)),
        allow("ipv6-icmp", port_range_min=ECHO6, ethertype="IPv6"),
    )
    place.serve_now(group, 9003)
    for server in place.servers:
        for version in VERSIONS:
            wait_until_reachable(place.client, server, version)

        def icmp4(kind: int, code: int, server: Guest = server) -> Frame:
            return _packet(place.client, server, 4, ICMP, lambda mark: icmp(kind, code, mark))

        def icmp6(kind: int, server: Guest = server) -> Frame:
            ends = place.client.addresses[6], server.addresses[6]
            return _packet(
                place.client, server, 6, ICMPV6, lambda mark: icmpv6(*ends, kind, struct.pack("!HH", 9, 1) + mark)
            )

        frames = {
            "echo": icmp4(ECHO, 0),
            "echo with a code": icmp4(ECHO, 1),
            "timestamp": icmp4(TIMESTAMP, 0),
            "IPv6 echo": icmp6(ECHO6),
            "IPv6 answer to nobody": icmp6(ECHO6_REPLY),
        }
        assert arriving(place.client, server, frames, icmp4(ECHO, 0)) == {"echo", "IPv6 echo"}


def test_other_protocols(place: Place) -> None:
    group, _ = make_group(
        place.lab, "odd", allow("sctp", 5000), allow(GRE), allow(EXPERIMENT, ethertype="IPv6"), allow("udp", 7)
    )
    place.serve_now(group, 9004)

    def sctp(number: int, server: Guest) -> Frame:
        return _packet(place.client, server, 4, SCTP, lambda mark: _sctp_init(40000, number, mark))

    def plain(protocol: int, server: Guest, version: int) -> Frame:
        return _packet(place.client, server, version, protocol, lambda mark: mark)

    for server in place.servers:
        frames = {
            "SCTP 5000": sctp(5000, server),
            "SCTP 5001": sctp(5001, server),
            "GRE": plain(GRE, server, 4),
            "GRE over IPv6": plain(GRE, server, 6),
            "253": plain(EXPERIMENT, server, 4),
            "253 over IPv6": plain(EXPERIMENT, server, 6),
        }
        control = _datagram(place.client, server, 4, 7)
        assert arriving(place.client, server, frames, control) == {"SCTP 5000", "GRE", "253 over IPv6"}


def _sctp_init(source: int, target: int, mark: bytes) -> bytes:
    """The first packet of an association, with the mark in a parameter that nobody knows."""
    parameter = struct.pack("!HH", 0x8FFF, 4 + len(mark)) + mark + bytes(-len(mark) % 4)
    chunk = struct.pack("!BBH", 1, 0, 20 + len(parameter)) + struct.pack("!IIHHI", 1, 65536, 1, 1, 1) + parameter
    head = struct.pack("!HHI", source, target, 0)
    return head + struct.pack("<I", _crc32c(head + bytes(4) + chunk)) + chunk


def _crc32c(data: bytes) -> int:
    total = 0xFFFFFFFF
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82F63B78 if total & 1 else 0)
    return total ^ 0xFFFFFFFF


def test_an_error_about_what_was_sent_comes_back(place: Place) -> None:
    """The client's group lets nothing in: only what belongs to a connection of its own."""
    group, _ = make_group(place.lab, "udp", allow("udp"), allow("udp", ethertype="IPv6"))
    place.serve_now(group, 9005)
    for server in place.servers:
        for version in VERSIONS:
            told = partial(_is_told_of_a_closed_port, place.client, server, version)
            wait_until(told, SOON, "no error comes back")


def _is_told_of_a_closed_port(client: Guest, server: Guest, version: int) -> bool:
    with client.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as asking:
        asking.connect((server.addresses[version], 9))
        asking.settimeout(0.4)
        try:
            asking.send(b"anybody?")
            asking.recv(100)
        except TimeoutError:
            return False
        except OSError as error:
            return error.errno == errno.ECONNREFUSED
    return False


# --- while it is in use -----------------------------------------------------------------------------------------------


def test_a_connection_lives_as_long_as_a_rule_allows_it(place: Place) -> None:
    lab = place.lab
    everybody: dict[int, str | None] = dict.fromkeys(VERSIONS)
    group, rules = make_group(
        lab,
        "changing",
        *_for_tcp(7001, "remote_ip_prefix", everybody),
        *_for_tcp(7002, "remote_ip_prefix", everybody),
        *_for_tcp(7002, "remote_ip_prefix", NETWORK),
    )
    place.serve(group)
    one, two = attempts(place.client, place.servers, 7001), attempts(place.client, place.servers, 7002)
    expect([*one, *two], attempts(place.client, place.servers))
    with contextlib.ExitStack() as stack:
        ending, staying = connections(stack, one), connections(stack, two)
        for rule in rules[:4]:
            lab.api.delete("security_group_rule", rule)
        wait_to_fall_silent(*ending)
        assert all(connection.talks() for connection in staying)
        expect(two, one)
        again = [add_rule(lab, group, rule) for rule in _for_tcp(7001, "remote_ip_prefix", everybody)]
        expect([*one, *two])
        for rule in again:
            lab.api.delete("security_group_rule", rule)
        expect(two, one)


def test_a_connection_on_which_only_the_server_talks_ends_too(place: Place) -> None:
    lab = place.lab
    group, (rule, _) = make_group(lab, "stream", allow("udp", 7001), allow("tcp", 80))
    place.serve(group)
    expect([Attempt(place.client, server) for server in place.servers])
    with contextlib.ExitStack() as stack:
        streams = []
        for server in place.servers:
            source = stack.enter_context(server.socket(socket.AF_INET, socket.SOCK_DGRAM))
            source.bind(("", 7001))
            sink = stack.enter_context(place.client.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sink.connect((server.addresses[4], 7001))
            wait_until(partial(_hears, sink, source), SOON, "the server does not hear the client")
            stream = (source, sink, sink.getsockname())
            assert _streams(*stream)
            streams.append(stream)
        strict, _ = make_group(lab, "strict", allow("tcp", 80), lets_out=False)
        place.serve(strict)
        lab.api.delete("security_group_rule", rule)
        for stream in streams:
            wait_until(partial(_is_dry, *stream), SOON, "the stream goes on that may not")


def _hears(sink: socket.socket, source: socket.socket) -> bool:
    sink.send(b"please")
    source.settimeout(0.4)
    try:
        return source.recv(100) == b"please"
    except TimeoutError:
        return False


def _streams(source: socket.socket, sink: socket.socket, to: tuple[str, int]) -> bool:
    source.sendto(b"some of it", to)
    sink.settimeout(0.4)
    try:
        return sink.recv(100) == b"some of it"
    except TimeoutError:
        return False


def _is_dry(source: socket.socket, sink: socket.socket, to: tuple[str, int]) -> bool:
    return not _streams(source, sink, to)


def test_stateless_groups_need_rules_for_both_directions(place: Place) -> None:
    lab = place.lab
    tcp = _for_tcp(80, "remote_ip_prefix", dict.fromkeys(VERSIONS))
    group, _ = make_group(lab, "stateless", *tcp, allow("udp", 7), stateful=False, lets_out=False)
    place.serve(group)
    web = attempts(place.client, place.servers)
    expect([], web)
    for server in place.servers:
        one_way = _datagram(place.client, server, 4, 7)
        assert arriving(place.client, server, {"one way": one_way}, one_way) == {"one way"}
    outward = [allow("tcp", ethertype=ETHERTYPE[version], direction="egress") for version in VERSIONS]
    rules = [add_rule(lab, group, rule) for rule in outward]
    expect(web, attempts(place.client, place.servers, 81))
    with contextlib.ExitStack() as stack:
        made = connections(stack, web)
        for rule in rules:
            lab.api.delete("security_group_rule", rule)
        for connection in made:
            wait_until(partial(_is_not_answered, connection), SOON, "an answer passes that no rule allows")


def _is_not_answered(connection: Conversation) -> bool:
    return not connection.answers()


# --- port security ----------------------------------------------------------------------------------------------------


def test_port_security_off_and_on(place: Place) -> None:
    """The group lets nothing out either: what the server sends would open the connection from its side."""
    closed, _ = make_group(place.lab, "off", lets_out=False)
    place.serve(closed)
    everything = attempts(place.client, place.servers)
    expect([], everything)
    for server in place.servers:
        server.update(port_security_enabled=False, security_groups=[])
    expect(everything)
    for server in place.servers:
        wait_until_reachable(place.client, server)
    with contextlib.ExitStack() as stack:
        made = connections(stack, everything)
        for server in place.servers:
            server.update(port_security_enabled=True, security_groups=[closed])
        wait_to_fall_silent(*made)
    place.serve(place.open)
    expect(everything)
