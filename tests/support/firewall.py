"""Firewall groups as values, and what becomes of packets."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Mapping
from typing import TypeVar

from neutrino.model.firewall import FirewallGroup, FirewallRule

ANY, ICMP, TCP, UDP, GRE, ICMPV6, SCTP = None, 1, 6, 17, 47, 58, 132
SECONDS = 0.35  # after which a packet counts as lost
PATIENCE = 10.0  # seconds for bytes that must arrive
Ends = tuple[socket.socket, socket.socket]
K = TypeVar("K")
PASSES, REFUSED, LOST = "passes", "refused", "lost"


def rule(action: str = "allow", protocol: int | None = ANY, version: int = 4, **values: object) -> FirewallRule:
    """`dport` and `sport` are a port or a range; `source` and `destination` are prefixes."""
    for short, long in (("sport", "source_port"), ("dport", "destination_port")):
        if short in values:
            given = values.pop(short)
            first, last = given if isinstance(given, tuple) else (given, given)
            values |= {f"{long}_first": first, f"{long}_last": last}
    for name in ("source", "destination"):
        if name in values:
            values[f"{name}_ip_address"] = values.pop(name)
    return FirewallRule(id="rule", action=action, ip_version=version, protocol=protocol, **values)  # type: ignore[arg-type]


def group(
    *, ingress: tuple[FirewallRule, ...] = (), egress: tuple[FirewallRule, ...] = (), **values: object
) -> FirewallGroup:
    return FirewallGroup(**{"id": "group-1", "ingress": ingress, "egress": egress, **values})  # type: ignore[arg-type]


def first_packet(
    sender: Callable[[int, int], socket.socket],
    receiver: Callable[[int, int], socket.socket],
    protocol: int,
    target: str,
    port: int,
    sport: int = 0,
    size: int = 0,
) -> str:
    """What becomes of the first packet of a TCP connection or of UDP: PASSES (with its reply), REFUSED or LOST.

    `sender` and `receiver` open sockets of a family and kind, at each end. With a `size`, a datagram of that size follows
    the first one, and its reply.
    """
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    kind = socket.SOCK_STREAM if protocol == TCP else socket.SOCK_DGRAM
    with receiver(family, kind) as there, sender(family, kind) as here:
        there.bind(("", port))
        here.bind(("", sport))
        here.settimeout(SECONDS)
        there.settimeout(SECONDS)
        if protocol == TCP:
            there.listen()
        try:
            here.connect((target, port))
            if protocol == UDP:
                _exchange(here, there, bytes(10))
                if size:
                    _exchange(here, there, bytes(size))
        except ConnectionRefusedError:
            return REFUSED
        except TimeoutError:
            return LOST
        return PASSES


def assert_fates(send: Callable[[K], str], expected: Mapping[K, str]) -> None:
    """The first packet of each case has the expected fate. One that was lost and should not be is sent three times more, as
    a busy machine may deliver it late; one that must be lost is sent once.
    """
    for case, fate in expected.items():
        found = [send(case)]
        while found[-1] == LOST != fate and len(found) < 4:
            found.append(send(case))
        assert found[-1] == fate, f"{case}: {found}, and not {fate}"


def _exchange(here: socket.socket, there: socket.socket, datagram: bytes) -> None:
    here.send(datagram)
    ready, _, _ = select.select([here, there], [], [], SECONDS)
    if here in ready:
        here.recv(1)  # raises what the ICMP error says
    received, peer = there.recvfrom(len(datagram))
    there.sendto(received, peer)
    assert here.recv(len(datagram)) == datagram


def delivers(sender: socket.socket, receiver: socket.socket, seconds: float = SECONDS) -> bool:
    """Whether bytes of an established connection arrive."""
    sender.send(b"more")
    ready, _, _ = select.select([receiver], [], [], seconds)
    return bool(ready) and receiver.recv(100) != b""
