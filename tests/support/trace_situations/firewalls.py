"""Firewall groups on distributed routers: both directions, on every way that a packet takes between hosts and out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.lab_trace import OUTSIDE, PING, Packet, Situation, tcp
from tests.support.routing_lab import MACHINE
from tests.support.trace_situations.changes import firewall
from tests.support.trace_situations.site import Site

S = Situation[Site]
INGRESS, EGRESS = "ingress", "egress"  # into the network behind the interface, and out of it


def _ways(kind: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Name, sender, receiver, and the networks of its ends: empty outside."""
    left, right, beside = f"{kind}-left", f"{kind}-right", f"{kind}-beside"
    yield "between hosts", left, right, left, right
    yield "on one host", left, beside, left, right
    yield "by SNAT", left, MACHINE, left, ""
    yield "out by a floating IP", right, MACHINE, right, ""
    yield "in by a floating IP", OUTSIDE, f"floating IP of {right}", "", right


def _situations() -> Iterator[S]:
    for kind in ("dvr", "dvr-ha"):
        for way, source, target, first, last in _ways(kind):
            for direction in (INGRESS, EGRESS):
                for network in filter(None, (first, last)):
                    # A packet leaves the sender's network and enters the receiver's; replies belong to a connection.
                    is_denied = network == (last if direction == INGRESS else first)
                    where = "sender's" if network == first else "receiver's"
                    for packet in (PING, tcp()) if is_denied and target not in (MACHINE,) and first else (PING,):
                        yield _one(f"{kind}: {way}, {direction} at the {where} network", source, target, packet, {
                            "is_denied": is_denied, "at": f"{kind}/{network}", "direction": direction,
                        })  # fmt: skip


def _one(name: str, source: str, target: str, packet: Packet, of: dict[str, Any]) -> S:
    protocol = "tcp" if packet.protocol == "tcp" else "icmp"
    change = firewall(of["at"], direction=of["direction"], protocol=protocol)
    name = f"{name}, {'TCP' if protocol == 'tcp' else 'ping'}"
    if of["is_denied"]:
        return S(name, source, target, packet, "firewall-group", names="made firewall", change=change)
    return S(name, source, target, packet, change=change)


DISTRIBUTED = list(_situations())
