"""Port forwardings as nft keeps them and the kernel applies them: ranges on real packets, compactly."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from neutrino.agent.l3.extensions.nat import FORWARDING_RULES, SAME, SINGLE, TO_ONE, forwarding_maps
from neutrino.agent.runtime.service_namespaces import plan_table
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.nft.api import Chain, Hook, Table, TablePlan
from neutrino.model.routing import PortForwarding
from tests.functional.test_dataplane_nft import Place, connect

OUTSIDE, INSIDE = "203.0.113.5", "10.0.0.5"
ALL = (1, 65535)


def forwarding(protocol: str, external: tuple[int, int], internal: tuple[int, int]) -> PortForwarding:
    return PortForwarding(
        id=f"{protocol}-{external}",
        protocol=protocol,
        external_ip_address=OUTSIDE,
        external_port_first=external[0],
        external_port_last=external[1],
        internal_ip_address=INSIDE,
        internal_port_first=internal[0],
        internal_port_last=internal[1],
    )


def table(*forwardings: PortForwarding) -> Table:
    arriving = Chain("arriving", FORWARDING_RULES, Hook("nat", "prerouting", -100))
    return Table((arriving,), tuple(forwarding_maps(forwardings)), family="ip")


class Router:
    def __init__(self, place: Place) -> None:
        self._place = place
        self.outside, self.inside = f"{place.name}-o", f"{place.name}-i"
        self._namespaces = Namespaces()
        connect(place, self.outside, self.inside)

    def settle(self, wanted: Table) -> str:
        plan = self._plan(wanted)
        self._place.nft.apply(self._place.name, plan)
        again = self._plan(wanted)
        assert not again, again.text()
        return plan.text()

    def _plan(self, wanted: Table) -> TablePlan:
        return plan_table(wanted, self._place.nft.read(self._place.name).get(wanted.path))

    def leads(self, kind: int, port: int, expected: int) -> bool:
        """Whether a packet from outside to the port comes to the expected port inside."""

        def open_socket() -> socket.socket:
            return socket.socket(socket.AF_INET, kind)

        with ExitStack() as stack:
            receiver = stack.enter_context(self._namespaces.run(self.inside, open_socket))
            sender = stack.enter_context(self._namespaces.run(self.outside, open_socket))
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            receiver.bind((INSIDE, expected))
            receiver.settimeout(0.3)
            if kind == socket.SOCK_STREAM:
                receiver.listen()
                sender.settimeout(3)  # a port that leads nowhere is refused at once
                return sender.connect_ex((OUTSIDE, port)) == 0
            deadline = time.monotonic() + 0.6  # the first datagrams may be lost while addresses are resolved
            while time.monotonic() < deadline:
                sender.sendto(b"hello", (OUTSIDE, port))
                try:
                    return receiver.recv(10) == b"hello"
                except TimeoutError:
                    continue
            return False

    def close(self) -> None:
        for name in (self.outside, self.inside):
            self._place.netlink.delete_namespace(name)


@pytest.fixture
def router() -> Iterator[Router]:
    place = Place("real")
    made = Router(place)
    try:
        yield made
    finally:
        made.close()
        place.close()


UDP, TCP = socket.SOCK_DGRAM, socket.SOCK_STREAM


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
@pytest.mark.parametrize(
    ("external", "internal", "leads", "elements"),
    [
        ((80, 80), (8080, 8080), {80: 8080}, {SINGLE: 1}),
        ((80, 80), (80, 80), {80: 80}, {SINGLE: 1}),
        (ALL, ALL, {1: 1, 1024: 1024, 65535: 65535}, {SAME: 1}),
        ((1024, 2047), (1024, 2047), {1024: 1024, 2047: 2047, 1023: None, 2048: None}, {SAME: 1}),
        (ALL, (22, 22), {1: 22, 9999: 22, 65535: 22}, {TO_ONE: 1}),
        ((2000, 2002), (3000, 3002), {2000: 3000, 2002: 3002, 2003: None}, {SINGLE: 3}),
    ],
)
def test_ports_lead_where_they_should(router, protocol, external, internal, leads, elements):
    wanted = table(forwarding(protocol, external, internal))
    assert {each.name: len(each.elements) for each in wanted.sets if each.elements} == elements
    router.settle(wanted)
    kind, other = (UDP, TCP) if protocol == "udp" else (TCP, UDP)
    for port, expected in leads.items():
        assert router.leads(kind, port, expected or port) == (expected is not None), (port, expected)
    port, expected = next(iter(leads.items()))
    assert not router.leads(other, port, expected), "of the other protocol"


def test_ranges_change_element_by_element(router):
    """Also where the new range overlaps the old one, and where a forwarding moves between the maps."""
    tcp = (80, 80), (8080, 8080)
    first = table(forwarding("udp", (1000, 1010), (1000, 1010)), forwarding("tcp", *tcp))
    router.settle(first)
    for external, internal, port, expected in (
        ((1000, 1020), (1000, 1020), 1020, 1020),
        ((990, 1005), (990, 1005), 990, 990),
        ((990, 1005), (53, 53), 1005, 53),
        ((995, 1010), (53, 53), 1010, 53),
        ((995, 1010), (1995, 2010), 1000, 2000),
        ((995, 995), (995, 995), 995, 995),
    ):
        done = router.settle(table(forwarding("udp", external, internal), forwarding("tcp", *tcp)))
        assert "replace table" not in done
        assert "tcp" not in done
        assert " 6 " not in done, "the other forwarding is left alone"
        assert router.leads(UDP, port, expected)


def test_a_full_range_costs_no_more_than_a_port(router):
    """Before, it was 65,535 elements: megabytes of text for nft, at every change of the router."""
    wanted = table(forwarding("tcp", ALL, ALL), forwarding("udp", ALL, (53, 53)))
    assert len(wanted.text()) < 2000
    router.settle(wanted)
