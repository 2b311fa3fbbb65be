"""A router of Neutron is taken over while packets pass: SNAT, a floating IP, and networks of two address scopes."""

from __future__ import annotations

import re
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.iptables.real import flush_neutron_scopes, remove_neutron_rules
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.model.routing import FloatingIp, Router, RouterInterface
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l3_host import Feed
from tests.support.routing import GATEWAY, QG, address, interface, router

QR1, QR2 = "qr-00000001-aa", "qr-00000002-aa"
OUTSIDE, FLOATING = "203.0.113.1", "203.0.113.9"
SENDER, TRANSLATED, SCOPED = "10.0.1.8", "10.0.1.9", "10.0.2.9"
PINGS, INTERVAL = 250, 0.02
MASKS = "--nfmask 0xffff0000 --ctmask 0xffff0000"
HAIRPIN = "-m mark ! --mark 0x2/0xffff -m conntrack --ctstate DNAT"

# As Neutron 29 has them, without chains that are empty. 0x4010000 is the scope of the external network and of QR2.
RULES = f"""*mangle
:neutron-l3-agent-PREROUTING - [0:0]
:neutron-l3-agent-POSTROUTING - [0:0]
:neutron-l3-agent-floatingip - [0:0]
:neutron-l3-agent-mark - [0:0]
:neutron-l3-agent-scope - [0:0]
-A PREROUTING -j neutron-l3-agent-PREROUTING
-A POSTROUTING -j neutron-l3-agent-POSTROUTING
-A neutron-l3-agent-POSTROUTING -o {QG} -m connmark --mark 0x0/0xffff0000 -j CONNMARK --save-mark {MASKS}
-A neutron-l3-agent-PREROUTING -j neutron-l3-agent-mark
-A neutron-l3-agent-PREROUTING -j neutron-l3-agent-scope
-A neutron-l3-agent-PREROUTING -m connmark ! --mark 0x0/0xffff0000 -j CONNMARK --restore-mark {MASKS}
-A neutron-l3-agent-PREROUTING -j neutron-l3-agent-floatingip
-A neutron-l3-agent-floatingip -d {FLOATING}/32 -j MARK --set-xmark 0x4000000/0xffff0000
-A neutron-l3-agent-mark -i {QG} -j MARK --set-xmark 0x2/0xffff
-A neutron-l3-agent-scope -i {QR1} -j MARK --set-xmark 0x4000000/0xffff0000
-A neutron-l3-agent-scope -i {QR2} -j MARK --set-xmark 0x4010000/0xffff0000
-A neutron-l3-agent-scope -i {QG} -j MARK --set-xmark 0x4010000/0xffff0000
COMMIT
*filter
:neutron-filter-top - [0:0]
:neutron-l3-agent-FORWARD - [0:0]
:neutron-l3-agent-scope - [0:0]
-A FORWARD -j neutron-filter-top
-A FORWARD -j neutron-l3-agent-FORWARD
-A neutron-l3-agent-FORWARD -j neutron-l3-agent-scope
-A neutron-l3-agent-scope -o {QR1} -m mark ! --mark 0x4000000/0xffff0000 -j DROP
-A neutron-l3-agent-scope -o {QR2} -m mark ! --mark 0x4010000/0xffff0000 -j DROP
COMMIT
*nat
:neutron-l3-agent-OUTPUT - [0:0]
:neutron-l3-agent-POSTROUTING - [0:0]
:neutron-l3-agent-PREROUTING - [0:0]
:neutron-l3-agent-float-snat - [0:0]
:neutron-l3-agent-snat - [0:0]
:neutron-postrouting-bottom - [0:0]
-A PREROUTING -j neutron-l3-agent-PREROUTING
-A OUTPUT -j neutron-l3-agent-OUTPUT
-A POSTROUTING -j neutron-l3-agent-POSTROUTING
-A POSTROUTING -j neutron-postrouting-bottom
-A neutron-l3-agent-OUTPUT -d {FLOATING}/32 -j DNAT --to-destination {TRANSLATED}
-A neutron-l3-agent-POSTROUTING ! -o {QG} -m conntrack ! --ctstate DNAT -j ACCEPT
-A neutron-l3-agent-PREROUTING -d {FLOATING}/32 -j DNAT --to-destination {TRANSLATED}
-A neutron-l3-agent-float-snat -s {TRANSLATED}/32 -j SNAT --to-source {FLOATING} --random-fully
-A neutron-l3-agent-snat -j neutron-l3-agent-float-snat
-A neutron-l3-agent-snat -o {QG} -m connmark --mark 0x4010000/0xffff0000 -j ACCEPT
-A neutron-l3-agent-snat -o {QG} -j SNAT --to-source 203.0.113.5 --random-fully
-A neutron-l3-agent-snat {HAIRPIN} -j SNAT --to-source 203.0.113.5 --random-fully
-A neutron-postrouting-bottom -j neutron-l3-agent-snat
COMMIT
"""


def command(*argv: str, text: str = "") -> str:
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=30, check=True).stdout


class Site:
    """A router's namespace as Neutron's agent has left it, with instances on two networks and a machine outside."""

    def __init__(self, directory: Path) -> None:
        self.id, self.directory = str(uuid.uuid4()), directory
        self.name = f"qrouter-{self.id}"
        self.one, self.two, self.outside = (f"{place}-{self.id}" for place in ("one", "two", "outside"))
        self.router = self._router()

    def _router(self) -> Router:
        scoped = address("10.0.2.1", "10.0.2.0/24", "10.0.2.1", address_scope_id="scope")
        outside = address("203.0.113.5", "203.0.113.0/24", OUTSIDE, address_scope_id="scope")
        return router(
            interface(1),
            interface(2, scoped),
            id=self.id,
            gateway=msgspec.structs.replace(GATEWAY, addresses=(outside,)),
            floating_ips=(FloatingIp(id="f", floating_ip_address=FLOATING, fixed_ip_address=TRANSLATED),),
        )

    def create(self, stack: ExitStack) -> None:
        for name in (self.name, self.one, self.two, self.outside):
            command("ip", "netns", "add", name)
            stack.callback(command, "ip", "netns", "delete", name)
        one, two = self.router.interfaces
        assert self.router.gateway is not None
        self._join(QR1, one, self.one, (f"{SENDER}/24", f"{TRANSLATED}/24"), "10.0.1.1")
        self._join(QR2, two, self.two, (f"{SCOPED}/24",), "10.0.2.1")
        self._join(QG, self.router.gateway, self.outside, (f"{OUTSIDE}/24",), "203.0.113.5")
        self._ip(self.name, "address", "add", f"{FLOATING}/32", "dev", QG)
        self._ip(self.name, "route", "add", "default", "via", OUTSIDE, "dev", QG, "proto", "static")
        self.inside("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.inside("iptables-restore", text=RULES)

    def _join(self, device: str, port: RouterInterface, place: str, addresses: tuple[str, ...], gateway: str) -> None:
        self._ip(self.name, "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", place)
        self._ip(self.name, "link", "set", device, "address", port.mac_address, "mtu", str(port.mtu or 1500), "up")
        self._ip(place, "link", "set", "eth0", "up")
        for each in port.addresses:
            self._ip(self.name, "address", "add", each.prefixed, "dev", device)
        for text in addresses:
            self._ip(place, "address", "add", text, "dev", "eth0")
        self._ip(place, "route", "add", "default", "via", gateway)

    def _ip(self, name: str, *words: str) -> None:
        command("ip", "-n", name, *words)

    def inside(self, *words: str, text: str = "") -> str:
        return command("ip", "netns", "exec", self.name, *words, text=text)

    def ping(self, place: str, source: str, target: str) -> subprocess.Popen[str]:
        argv = ("ping", "-n", "-q", "-c", str(PINGS), "-i", str(INTERVAL), "-W", "2", "-I", source, target)
        return subprocess.Popen(["ip", "netns", "exec", place, *argv], stdout=subprocess.PIPE, text=True)

    def take_over(self) -> None:
        namespaces, ovsdb, state = Namespaces(), FakeOvsdb(), str(self.directory / "state")
        ovsdb.apply([SetBridge("br-int")])
        services = ServiceNamespaces(RealNetlink(namespaces), lambda: ovsdb, RealNft(), state)
        feed = Feed()
        feed.state.objects["router"] = {self.id: self.router}
        leftovers = Leftovers(
            services,
            RealForeignProcesses(namespaces),
            state,
            True,
            partial(remove_neutron_rules, namespaces),
            partial(flush_neutron_scopes, namespaces),
        )
        options = L3Options(host="h1", state_path=state, keeps_devices=True)
        routers = Routers(services, KernelConntrack, options, DesiredRouters(feed), leftovers=leftovers)
        applied = routers.apply(self.router)
        assert applied.taken_over == (self.name,)
        routers.complete_takeover(self.router, applied.taken_over)
        assert routers.find(self.router) == []
        assert routers.apply(self.router).changes == 0


class Stream:
    """A TCP connection whose bytes are sent back, as an instance under the router's address has it."""

    def __init__(self, site: Site, stack: ExitStack) -> None:
        namespaces = Namespaces()
        server = stack.enter_context(namespaces.run(site.outside, lambda: socket.create_server((OUTSIDE, 7000))))
        self._client = stack.enter_context(namespaces.run(site.one, lambda: socket.socket()))
        for one in (server, self._client):
            one.settimeout(10)
        self._client.bind((SENDER, 0))
        self._client.connect((OUTSIDE, 7000))
        self._served, (self.seen_as, _) = server.accept()
        stack.callback(self._served.close)
        self._served.settimeout(10)

    def exchange(self) -> None:
        self._client.sendall(b"x")
        assert self._served.recv(1) == b"x"
        self._served.sendall(b"y")
        assert self._client.recv(1) == b"y"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        made = Site(tmp_path)
        made.create(stack)
        yield made


def test_no_packet_is_lost_and_connections_go_on(site: Site) -> None:
    with ExitStack() as stack:
        stream = Stream(site, stack)
        assert stream.seen_as == "203.0.113.5"
        pings = {
            "SNAT": site.ping(site.one, SENDER, OUTSIDE),
            "from the floating IP": site.ping(site.one, TRANSLATED, OUTSIDE),
            "to the floating IP": site.ping(site.outside, OUTSIDE, FLOATING),
            "within a scope": site.ping(site.two, SCOPED, OUTSIDE),
            "into a scope": site.ping(site.outside, OUTSIDE, SCOPED),
        }
        time.sleep(1)
        stream.exchange()
        site.take_over()
        stream.exchange()
        assert [ping.poll() for ping in pings.values()] == [None] * len(pings), "pings go on during all of it"
        results = {name: ping.communicate(timeout=60)[0] for name, ping in pings.items()}
        stream.exchange()
    received = {name: int(re.findall(r"(\d+) received", text)[0]) for name, text in results.items()}
    assert received == dict.fromkeys(pings, PINGS)
    for program in ("iptables-save", "ip6tables-save"):
        assert "neutron" not in site.inside(program)
    assert "neutrino" in site.inside("nft", "list", "tables")
