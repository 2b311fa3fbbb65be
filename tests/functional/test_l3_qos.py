"""Limits of floating IPs and gateways in router namespaces: added, changed and removed, and what they do to packets."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extensions.qos import POLICY
from neutrino.agent.l3.names import EXTERNAL, INTERNAL, device, router_namespace
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.api import ElementChange, Nft, TablePlan
from neutrino.dataplane.nft.elements import key_of
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.model.qos import BandwidthLimit, PacketRateLimit, QosPolicy
from neutrino.model.routing import FloatingIp, Router
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l3_host import Feed, Flushes
from tests.support.routing import GATEWAY, floating, interface, router

INGRESS, EGRESS = "qos_ingress_bytes", "qos_egress_bytes"
TABLE = "ip neutrino"
CLIENT, INSTANCE, FLOATING = "203.0.113.77", "10.0.1.9", "203.0.113.9"
PAYLOAD = 972  # with headers a packet of 1000 bytes


class RouterHost:
    """A host with one router. Names are of this test alone."""

    def __init__(self, netlink: Netlink, nft: Nft, state_path: Path) -> None:
        self.netlink, self.nft, self.feed = netlink, nft, Feed()
        self.router_id = uuid.uuid4().hex[:8]
        self.namespace = router_namespace(self.router_id)
        self.gateway = msgspec.structs.replace(GATEWAY, id=str(uuid.uuid4()))
        self.interface = msgspec.structs.replace(interface(1), id=str(uuid.uuid4()))
        self._ovsdb, self._state_path = FakeOvsdb(), state_path
        self._ovsdb.apply([SetBridge("br-int")])
        self.restart()

    def restart(self) -> None:
        """An agent that remembers nothing but its files."""
        services = ServiceNamespaces(self.netlink, lambda: self._ovsdb, self.nft)
        options = L3Options(host="h1", state_path=str(self._state_path), veth=True)
        desired = DesiredRouters(self.feed, kinds=frozenset({POLICY}))
        self.routers = Routers(services, lambda namespace: Flushes(), options, desired)

    def set_policy(self, key: str = "gold", **kbps: int) -> None:
        limits = tuple(BandwidthLimit(direction=direction, max_kbps=rate) for direction, rate in kbps.items())
        self.feed.state.objects[POLICY][key] = QosPolicy(id=key, bandwidth_limits=limits)

    def router(self, *numbers: int, gateway_policy: str = "") -> Router:
        """With these floating IPs, each with policy `gold`."""
        several = (floating(number, f"10.0.1.{number}") for number in numbers)
        limited = tuple(msgspec.structs.replace(each, qos_policy_id="gold") for each in several)
        whole = {"gateway": self.gateway, "floating_ips": limited, "gateway_qos_policy_id": gateway_policy}
        return router(self.interface, id=self.router_id, **whole)

    def plain(self, number: int) -> tuple[FloatingIp, ...]:
        """A floating IP without a policy."""
        return (floating(number, f"10.0.1.{number}"),)

    def settle(self, wanted: Router) -> int:
        """Applies the router; a second time changes nothing."""
        changes = self.routers.apply(wanted).changes
        assert self.routers.find(wanted) == []
        assert self.routers.apply(wanted).changes == 0
        return changes

    def limits(self, name: str) -> dict[str, str]:
        elements = self.nft.read(self.namespace)[TABLE].elements.get(name, frozenset())
        return {key_of(each): each.removeprefix(f"{key_of(each)} limit rate over ") for each in elements}


@pytest.fixture(params=["fake", "real"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RouterHost]:
    netlink: Netlink = FakeNetlink() if request.param == "fake" else RealNetlink()
    nft: Nft = FakeNft(netlink) if isinstance(netlink, FakeNetlink) else RealNft()
    made = RouterHost(netlink, nft, tmp_path)
    try:
        yield made
    finally:
        made.routers.remove(made.router_id)


def test_limits_are_added_changed_and_removed_with_their_policy(host: RouterHost) -> None:
    plain = router(host.interface, id=host.router_id, gateway=host.gateway)
    host.settle(plain)
    before = host.nft.read(host.namespace)[TABLE]
    host.set_policy(ingress=1000, egress=2000)
    host.settle(host.router(9, 10, gateway_policy="gold"))
    slow = "125000 bytes/second burst 1 bytes"
    assert host.limits(INGRESS) == {"203.0.113.5": slow, "203.0.113.9": slow, "203.0.113.10": slow}
    assert set(host.limits(EGRESS).values()) == {"250000 bytes/second burst 1 bytes"}
    host.set_policy(ingress=1000, egress=4000)
    assert host.settle(host.router(9, 10, gateway_policy="gold")) == 1, "elements of one set"
    assert set(host.limits(EGRESS).values()) == {"500000 bytes/second burst 1 bytes"}
    host.set_policy(egress=4000)
    host.settle(host.router(9))
    assert (host.limits(INGRESS), set(host.limits(EGRESS))) == ({}, {"203.0.113.9"})
    host.settle(plain)
    assert host.nft.read(host.namespace)[TABLE] == before, "nothing is left"


@pytest.mark.parametrize("kbps", [1, 64, 1024, 999_999, 10_000_000, 2**31 - 1])
def test_the_kernel_takes_and_returns_every_rate(host: RouterHost, kbps: int) -> None:
    packets = (PacketRateLimit(max_kpps=kbps, direction="ingress"),)
    limits = (BandwidthLimit(max_kbps=kbps, max_burst_kbps=kbps * 2 % 2**31),)
    policy = QosPolicy(id="gold", bandwidth_limits=limits, packet_rate_limits=packets)
    host.feed.state.objects[POLICY]["gold"] = policy
    host.settle(host.router(9))
    assert len(host.limits("qos_ingress_packets")) == len(host.limits(EGRESS)) == 1


def test_a_limit_that_was_changed_by_hand_is_found_and_repaired(host: RouterHost) -> None:
    host.set_policy(ingress=1000)
    host.settle(host.router(9))
    (right,) = host.nft.read(host.namespace)[TABLE].elements[INGRESS]
    wrong = right.replace("125000", "126000")
    change = ElementChange(INGRESS, add=frozenset({wrong}), remove=frozenset({right}))
    host.nft.apply(host.namespace, TablePlan(TABLE, elements=(change,)))
    assert host.routers.find(host.router(9)) == [f"remove element {INGRESS} {wrong}", f"add element {INGRESS} {right}"]
    assert host.settle(host.router(9)) == 1


def test_a_restarted_agent_plans_nothing(host: RouterHost) -> None:
    host.set_policy(ingress=1000, egress=64)
    host.settle(host.router(9, gateway_policy="gold"))
    host.restart()
    assert host.routers.find(host.router(9, gateway_policy="gold")) == []


def test_before_synced_a_limit_of_the_cache_replaces_none(host: RouterHost) -> None:
    host.set_policy(ingress=1000)
    host.settle(host.router(9))
    host.set_policy(ingress=9000)
    assert host.routers.apply(host.router(9), complete=False).changes == 0
    assert set(host.limits(INGRESS).values()) == {"125000 bytes/second burst 1 bytes"}


# --- packets ----------------------------------------------------------------------------------------------------------


class Path4:
    """A client outside and an instance inside, joined to the bridge ends of the router's veth pairs."""

    def __init__(self, host: RouterHost) -> None:
        self.client, self.instance = f"{host.namespace}-c", f"{host.namespace}-i"
        state = host.netlink.read(host.namespace)
        outside = state.devices[device(EXTERNAL, host.gateway.id)]
        inside = state.devices[device(INTERNAL, host.interface.id)]
        self._bridges = []
        for name, end, ip, via in (
            (self.client, outside.peer, CLIENT, ""),
            (self.instance, inside.peer, INSTANCE, "10.0.1.1"),
        ):
            host.netlink.create_namespace(name)
            bridge = f"qb{end.removeprefix('tap')}"
            self._bridges.append(bridge)
            _run("ip", "link", "add", bridge, "up", "type", "bridge")
            _run(
                "ip",
                "link",
                "add",
                f"qv{end[3:]}",
                "up",
                "master",
                bridge,
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                name,
            )
            _run("ip", "link", "set", end, "master", bridge)
            _run("ip", "-n", name, "address", "add", f"{ip}/24", "dev", "eth0")
            for each in ("lo", "eth0"):
                _run("ip", "-n", name, "link", "set", each, "up")
            if via:
                _run("ip", "-n", name, "route", "add", "default", "via", via)

    def socket(self, namespace: str, kind: socket.SocketKind) -> socket.socket:
        return Namespaces().run(namespace, lambda: socket.socket(socket.AF_INET, kind))

    def close(self) -> None:
        for name in (self.client, self.instance):
            _run("ip", "netns", "delete", name)
        for name in self._bridges:
            _run("ip", "link", "delete", name)

    @contextlib.contextmanager
    def datagrams(
        self, sender: str, to: str, receiver: str, bind: str
    ) -> Iterator[tuple[socket.socket, socket.socket]]:
        with self.socket(sender, socket.SOCK_DGRAM) as source, self.socket(receiver, socket.SOCK_DGRAM) as sink:
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
            sink.bind((bind, 4000))
            source.connect((to, 4000))
            source.send(b"resolve")  # neighbours are resolved, which drops packets that wait for it
            sink.settimeout(30)
            sink.recv(100)
            yield source, sink


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[tuple[RouterHost, Path4]]:
    made = RouterHost(RealNetlink(), RealNft(), tmp_path)
    made.set_policy(ingress=100_000, egress=100_000)
    made.settle(made.router(9))
    path = Path4(made)
    try:
        yield made, path
    finally:
        path.close()
        made.routers.remove(made.router_id)


def assert_received(source: socket.socket, sink: socket.socket, kbps: int, expected: int, why: str = "") -> None:
    """Of what is sent at `kbps`. Repeated if it differs: the machine may have been busy for a moment."""
    found = []
    for _ in range(8):
        found.append(received_kbps(source, sink, kbps, 1.0))
        if found[-1] == pytest.approx(expected, rel=0.1):
            return
    raise AssertionError(f"{found} kbit/s arrive, not {expected}: {why}")


def received_kbps(source: socket.socket, sink: socket.socket, kbps: int, seconds: float) -> float:
    """What arrives of `kbps` in the time after the first second, which empties the bucket."""
    counted, start, sent = 0, time.monotonic(), 0
    sink.setblocking(False)
    while (now := time.monotonic() - start) < 1 + seconds:
        while sent < now * kbps * 125:
            source.send(bytes(PAYLOAD))
            sent += PAYLOAD + 28
        time.sleep(0.002)
        with contextlib.suppress(BlockingIOError):
            while sink.recv(2000):
                counted += now > 1
    return counted * (PAYLOAD + 28) / 125 / seconds


@pytest.mark.parametrize(
    ("sender", "to", "bind"), [("client", FLOATING, INSTANCE), ("instance", CLIENT, CLIENT)], ids=["ingress", "egress"]
)
def test_a_floating_ip_gets_its_rate_and_a_changed_rate_applies_at_once(real, sender, to, bind):
    host, path = real
    receiver = path.instance if sender == "client" else path.client
    host.set_policy(ingress=4_000, egress=4_000)
    host.settle(host.router(9))
    with path.datagrams(getattr(path, sender), to, receiver, bind) as (source, sink):
        assert_received(source, sink, 12_000, 4_000)
        host.set_policy(ingress=8_000, egress=8_000)
        host.settle(host.router(9))
        assert_received(source, sink, 24_000, 8_000)
        host.settle(router(host.interface, id=host.router_id, gateway=host.gateway, floating_ips=host.plain(9)))
        assert_received(source, sink, 24_000, 24_000, "the limit is gone")


def test_the_gateways_limit_holds_for_instances_without_a_floating_ip_alone(real):
    host, path = real
    host.set_policy("slow", egress=4_000)
    wanted = host.router(9, gateway_policy="slow")
    host.settle(wanted)
    with path.datagrams(path.instance, CLIENT, path.client, CLIENT) as (source, sink):
        assert_received(source, sink, 12_000, 12_000, "by its floating IP")
    host.settle(host.router(gateway_policy="slow"))
    with path.datagrams(path.instance, CLIENT, path.client, CLIENT) as (source, sink):
        assert_received(source, sink, 12_000, 4_000, "under the router's address")


def test_changes_of_limits_lose_no_packet_and_end_no_connection(real):
    """Adding the first limit and removing the last one replaces the table; other changes replace elements."""
    host, path = real
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            host.set_policy(ingress=100_000 + number, egress=100_000 + number)
            plain = router(host.interface, id=host.router_id, gateway=host.gateway, floating_ips=host.plain(9))
            host.routers.apply(plain if number % 3 == 0 else host.router(9))
            changes.append(number)

    changes: list[int] = []
    server, client = path.socket(path.instance, socket.SOCK_STREAM), path.socket(path.client, socket.SOCK_STREAM)
    with server, client, path.datagrams(path.client, FLOATING, path.instance, INSTANCE) as (source, sink):
        server.bind((INSTANCE, 5000))
        server.listen()
        client.settimeout(30)
        client.connect((FLOATING, 5000))
        connection, _ = server.accept()
        with connection:
            changer = threading.Thread(target=change)
            changer.start()
            try:
                for number in range(20_000):
                    if number >= 400 and len(changes) > 10:  # a busy machine may make few changes in the time of 400
                        break
                    source.send(number.to_bytes(2, "big"))
                    connection.sendall(b"x")
                    assert client.recv(1) == b"x"
                    assert int.from_bytes(sink.recv(10), "big") == number, "no packet is lost"
                    time.sleep(0.002)
            finally:
                stop.set()
                changer.join()
    assert len(changes) > 10


def test_one_of_500_limits_is_changed_by_its_elements_alone(tmp_path: Path) -> None:
    host = RouterHost(RealNetlink(), RealNft(), tmp_path)
    try:
        several = tuple(
            msgspec.structs.replace(
                floating(1, "10.0.1.1"),
                id=f"f{number}",
                floating_ip_address=f"198.51.{number // 250}.{number % 250 + 1}",
                fixed_ip_address=f"10.0.{1 + number // 250}.{number % 250 + 2}",
                qos_policy_id="gold",
            )
            for number in range(500)
        )
        host.set_policy(ingress=1000, egress=1000)
        host.set_policy("silver", ingress=2000, egress=2000)
        wanted = router(host.interface, id=host.router_id, gateway=host.gateway, floating_ips=several)
        host.settle(wanted)
        assert len(host.limits(INGRESS)) == len(host.limits(EGRESS)) == 500
        rules = host.nft.read(host.namespace)[TABLE].chains
        assert len(rules["qos_ingress"].marks) == len(rules["qos_egress"].marks) == 1, (
            "rules do not grow with addresses"
        )
        changed = msgspec.structs.replace(several[0], qos_policy_id="silver")
        changed_router = msgspec.structs.replace(wanted, floating_ips=(changed, *several[1:]))
        assert host.settle(changed_router) == 2, "one element for each direction"
    finally:
        host.routers.remove(host.router_id)
