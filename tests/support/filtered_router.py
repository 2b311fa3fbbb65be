"""A router's namespace with real tables and firewall groups: two subnets, and a machine outside."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from functools import partial

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.runtime.service_namespaces import plan_tables
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.model.firewall import FirewallGroup
from neutrino.model.routing import Router, RouterInterface
from tests.functional.test_dataplane_nft import Place
from tests.support.firewall import ICMP, ICMPV6, LOST, PASSES, REFUSED, SECONDS, Ends, first_packet
from tests.support.routing import GATEWAY, QG, address, interface, rendered, router
from tests.support.single_packets import arrives, new_token, packet


def filtered(number: int, group_id: str = "group-1", **values: object) -> RouterInterface:
    """A port of the router on subnet 10.0.N.0/24 and fd00:N::/64."""
    own = (
        address(f"10.0.{number}.1", f"10.0.{number}.0/24", f"10.0.{number}.1"),
        address(f"fd00:{number}::1", f"fd00:{number}::/64", f"fd00:{number}::1"),
    )
    return interface(number, *own, firewall_group_id=group_id, **values)


DUAL_GATEWAY = msgspec.structs.replace(
    GATEWAY,
    addresses=(*GATEWAY.addresses, address("2001:db8::5", "2001:db8::/64", "2001:db8::1")),
)
INSIDE, OTHER, OUTSIDE = "inside", "other", "outside"
ADDRESSES = {
    INSIDE: ("10.0.1.5", "fd00:1::5"),
    OTHER: ("10.0.2.5", "fd00:2::5"),
    OUTSIDE: ("203.0.113.9", "2001:db8::9"),
}
SILENT = {INSIDE: ("10.0.1.77", "fd00:1::77"), OTHER: ("10.0.2.77", "fd00:2::77")}
"""Addresses at the same machines of which no stack answers."""
_LINKS = {
    INSIDE: ("qr-00000001-aa", "10.0.1.1/24", "fd00:1::1/64"),
    OTHER: ("qr-00000002-aa", "10.0.2.1/24", "fd00:2::1/64"),
    OUTSIDE: (QG, "203.0.113.5/24", "2001:db8::5/64"),
}


class FilteredRouter:
    """A router's namespace with real tables: `inside` and `other` on its subnets, `outside` behind its gateway."""

    def __init__(self) -> None:
        self._place = Place("real")
        self._namespaces = Namespaces()
        self.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")  # addresses are in use at once
        for name in (INSIDE, OTHER, OUTSIDE):
            self._place.netlink.create_namespace(self._name(name))
            self._in(name, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
            self._link(name)
        for word in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
            self.run("sysctl", "-qw", word)
        for name, addresses in SILENT.items():
            for each in addresses:
                self.run("ip", "neigh", "add", each, "lladdr", self._mac(name), "dev", _LINKS[name][0])
        # The external network routes the internal prefixes to the router.
        self._in(OUTSIDE, "ip", "route", "add", "10.0.0.0/8", "via", "203.0.113.5")
        self._in(OUTSIDE, "ip", "-6", "route", "add", "fd00::/16", "via", "2001:db8::5")

    def _name(self, name: str) -> str:
        return f"{self._place.name}-{name[:3]}"

    def _link(self, name: str) -> None:
        device, *gateways = _LINKS[name]
        self.run("ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", self._name(name))
        for own, theirs in zip(gateways, ADDRESSES[name], strict=True):
            self.run("ip", "address", "add", own, "dev", device, *(["nodad"] if ":" in own else []))
            prefixed = f"{theirs}/{own.partition('/')[2]}"
            self._in(name, "ip", "address", "add", prefixed, "dev", "eth0", *(["nodad"] if ":" in own else []))
        self.run("ip", "link", "set", device, "up")
        self._in(name, "ip", "link", "set", "eth0", "up")
        self._in(name, "ip", "link", "set", "lo", "up")
        for own in gateways if name != OUTSIDE else ():
            self._in(name, "ip", "route", "add", "default", "via", own.partition("/")[0])

    @property
    def namespace(self) -> str:
        return self._place.name

    def run(self, *words: str) -> str:
        """In the router's namespace."""
        command = ["ip", "netns", "exec", self._place.name, *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def _in(self, name: str, *words: str) -> str:
        command = ["ip", "netns", "exec", self._name(name), *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def apply(self, wanted: Router, *groups: FirewallGroup) -> str:
        """Applies the router's tables, and checks that a second time plans nothing; gives the plan."""
        tables = rendered(wanted, L3Options(), groups=groups).namespace.tables
        plans = plan_tables(tables, self._place.nft.read(self._place.name))
        for plan in plans:
            self._place.nft.apply(self._place.name, plan)
        assert not plan_tables(tables, self._place.nft.read(self._place.name))
        return "\n".join(each.text() for each in plans)

    def filter(self, only: FirewallGroup, **values: object) -> str:
        """The group on the port towards `inside` alone."""
        return self.apply(router(filtered(1), filtered(2, ""), **{"gateway": DUAL_GATEWAY, **values}), only)

    def counted(self, name: str) -> int:
        """The packets of a counter."""
        return int(self.run("nft", "list", "counter", "inet", "neutrino", name).split("packets ")[1].split()[0])

    def socket(self, name: str, family: int, kind: int) -> socket.socket:
        made = self._namespaces.run(self._name(name), lambda: socket.socket(family, kind))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return made

    def send(
        self,
        sender: str,
        receiver: str,
        protocol: int,
        port: int = 8000,
        *,
        version: int = 4,
        sport: int = 0,
        to: str = "",
    ) -> str:
        """What becomes of a first packet: PASSES (with its reply), REFUSED or LOST. `to`: another destination address."""
        if protocol in (ICMP, ICMPV6):
            return self._ping(sender, to or ADDRESSES[receiver][version == 6])
        target = to or ADDRESSES[receiver][version == 6]
        return first_packet(partial(self.socket, sender), partial(self.socket, receiver), protocol, target, port, sport)

    def _ping(self, sender: str, address: str) -> str:
        command = ["ip", "netns", "exec", self._name(sender), "ping", "-c", "1", "-W", str(SECONDS), address]
        found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return PASSES if found.returncode == 0 else REFUSED if "nreachable" in found.stdout else LOST

    @contextlib.contextmanager
    def sending_from(self, name: str, mac: str) -> Iterator[None]:
        """The machine has this MAC for a time: as the switch gives it to replies."""
        own = self._mac(name)
        try:
            self._use_mac(name, mac)
            yield
        finally:
            self._use_mac(name, own)

    def _mac(self, name: str) -> str:
        return self._in(name, "cat", "/sys/class/net/eth0/address").strip()

    def send_one(
        self,
        sender: str,
        receiver: str,
        protocol: int,
        version: int,
        port: int,
        *,
        reply: bool = False,
        source: str = "",
    ) -> str:
        """What becomes of one packet between silent addresses that opens a connection to a port, or replies from it."""
        token = new_token()
        ends = source or SILENT[sender][version == 6], SILENT[receiver][version == 6]
        sent = packet(protocol, *ends, port, reply=reply, payload=token)
        router = self.run("cat", f"/sys/class/net/{_LINKS[sender][0]}/address").strip()
        with self._frames(sender) as here, self._frames(receiver) as there:
            found = arrives(here, there, (self._mac(sender), router), sent, token, SECONDS)
        return PASSES if found else LOST

    def _frames(self, name: str) -> socket.socket:
        made = self._namespaces.run(self._name(name), lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        made.bind(("eth0", 3))  # ETH_P_ALL
        return made

    def _use_mac(self, name: str, mac: str) -> None:
        self._in(name, "ip", "link", "set", "eth0", "address", mac)
        self.run("ip", "neigh", "flush", "dev", _LINKS[name][0])

    @contextlib.contextmanager
    def untracked(self) -> Iterator[None]:
        """Conntrack of the namespace knows no connection: as where it sees one direction alone."""
        self.run("nft", "add table inet untracked")
        self.run("nft", "add chain inet untracked early { type filter hook prerouting priority -300; }")
        self.run("nft", "add rule inet untracked early notrack")
        try:
            yield
        finally:
            self.run("nft", "delete table inet untracked")

    @contextlib.contextmanager
    def connection(self, client: str, server: str, port: int = 8000, version: int = 4) -> Iterator[Ends]:
        """An established TCP connection: the sockets of both ends."""
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        with self.socket(server, family, socket.SOCK_STREAM) as listener:
            listener.bind((ADDRESSES[server][version == 6], port))
            listener.listen()
            with self.socket(client, family, socket.SOCK_STREAM) as here:
                here.settimeout(2)
                here.connect((ADDRESSES[server][version == 6], port))
                there, _ = listener.accept()
                with there:
                    there.settimeout(2)
                    yield here, there

    def close(self) -> None:
        for name in (INSIDE, OTHER, OUTSIDE):
            self._place.netlink.delete_namespace(self._name(name))
        self._place.close()


@pytest.fixture(scope="module")
def net() -> Iterator[FilteredRouter]:
    made = FilteredRouter()
    try:
        yield made
    finally:
        made.close()
