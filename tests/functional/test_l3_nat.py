"""Address translation of a router on real packets, where the rules alone do not show the outcome."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.nft.api import TablePlan
from tests.functional.test_dataplane_nft import Place
from tests.support.routing import GATEWAY, QG, rendered, router, table

CLIENT, MOVED = "203.0.113.9", "203.0.113.20"


class External:
    """An external network: a bridge in the client's namespace joins the client, a router and another host."""

    def __init__(self) -> None:
        self.router = Place("real")
        self.client, self.other = f"{self.router.name}-c", f"{self.router.name}-o"
        for name in (self.client, self.other):
            self.router.netlink.create_namespace(name)
        self._ip(self.client, "link", "add", "br-external", "type", "bridge")
        self._join(self.router.name, QG, "203.0.113.5/24")
        self._join(self.other, "eth0", f"{MOVED}/24")
        self._ip(self.client, "address", "add", f"{CLIENT}/24", "dev", "br-external")
        self._ip(self.client, "link", "set", "br-external", "up")
        self._run(self.router.name, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def _run(self, namespace: str, *words: str) -> str:
        command = ["ip", "netns", "exec", namespace, *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def _ip(self, namespace: str, *words: str) -> None:
        self._run(namespace, "ip", *words)

    def _join(self, namespace: str, device: str, address: str) -> None:
        port = f"to-{device[:4]}"
        self._ip(namespace, "link", "add", device, "type", "veth", "peer", "name", port, "netns", self.client)
        self._ip(self.client, "link", "set", port, "master", "br-external", "up")
        self._ip(namespace, "address", "add", address, "dev", device)
        self._ip(namespace, "link", "set", device, "up")

    def set_stale_neighbour(self) -> None:
        """The client's neighbour entry of MOVED still has the router's MAC."""
        mac = self._run(self.router.name, "cat", f"/sys/class/net/{QG}/address")
        self._ip(self.client, "neighbour", "replace", MOVED, "lladdr", mac, "dev", "br-external")

    def seen_as(self) -> str:
        """The source of a datagram from the client as MOVED receives it."""

        def open_socket() -> socket.socket:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        namespaces = Namespaces()
        with namespaces.run(self.other, open_socket) as receiver, namespaces.run(self.client, open_socket) as sender:
            receiver.bind((MOVED, 4000))
            receiver.settimeout(30)
            sender.sendto(b"hello", (MOVED, 4000))
            _, (address, _) = receiver.recvfrom(10)
            return str(address)

    def close(self) -> None:
        for name in (self.client, self.other):
            self.router.netlink.delete_namespace(name)
        self.router.close()


@pytest.fixture
def external() -> Iterator[External]:
    made = External()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("enable_snat", [True, False])
def test_a_packet_that_a_stale_neighbour_entry_sends_to_the_router_keeps_its_source(external, enable_snat):
    """A floating IP has moved to another host or router. Until the client learns its new MAC, the old one forwards."""
    wanted = table(rendered(router(gateway=GATEWAY, enable_snat=enable_snat), L3Options()))
    external.router.nft.apply(external.router.name, TablePlan(wanted.path, wanted))
    external.set_stale_neighbour()
    assert external.seen_as() == CLIENT
