"""Packets on the kernel datapath, between stand-in instances on two hosts that are wired as the agent does it."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

from neutrino.dataplane.netlink.api import SetDevice
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.openflow.api import DatapathFeatures, Meter
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.model import state
from neutrino.model.firewall import FirewallRule
from neutrino.model.qos import BandwidthLimit, PacketRateLimit, QosPolicy
from qa.kernel.switch import TUNNELS, KernelHost, device_of, inside, kernel_hosts
from tests.support.checksum import captured, has_right_checksum, sniff
from tests.support.firewall import group as firewall_group
from tests.support.firewall import rule as firewall_rule
from tests.support.l2 import OPEN, OUT, Cloud, group, network, port, rule

TCP = 6
WEB, SHUT = 80, 81  # a port that the security group accepts, and one that it drops
WEB_GROUP = group(
    "web",
    *(rule("ingress", family, protocol=TCP, port_min=WEB, port_max=WEB) for family in ("IPv4", "IPv6")),
    *(rule("egress", family) for family in ("IPv4", "IPv6")),
)
NETWORKS = {kind: network(kind, kind, number) for number, kind in enumerate(TUNNELS, 100)}
MACHINES = {
    kind: (
        port(f"{kind}-here", place + 1, kind, "h1", groups=["open"]),
        port(f"{kind}-there", place + 2, kind, "h2", groups=["open"]),
    )
    for place, kind in zip((10, 20, 30), TUNNELS, strict=True)
}
NEAR = port("near", 1, "vxlan", "h1", groups=["out"])
SERVER = port("server", 2, "vxlan", "h2", groups=["web"])
DHCP = port("dhcp", 3, "vxlan", "h1", device_owner="network:dhcp")  # plugged as a device that the switch makes
PORTS = (*(machine for pair in MACHINES.values() for machine in pair), NEAR, SERVER, DHCP)
OBJECTS = (*NETWORKS.values(), OPEN, OUT, WEB_GROUP, *PORTS)
VERSIONS = (4, 6)


@dataclasses.dataclass
class Place:
    cloud: Cloud
    hosts: dict[str, KernelHost]

    def apply(self, *objects: state.Object) -> None:
        for host in self.hosts.values():
            outcome = host.reconcile(self.cloud, *objects)
            assert (outcome.problems, outcome.faults) == ({}, {})


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with kernel_hosts("h1", "h2") as hosts:
        made = Place(Cloud(*hosts), hosts)
        made.apply()
        for name, host in hosts.items():
            ports = [machine for machine in PORTS if machine.host == name]
            host.plug(ports, internal=[machine for machine in ports if machine is DHCP])
        made.apply(*OBJECTS)
        yield made


def address(machine: state.Port, version: int) -> str:
    return machine.fixed_ips[VERSIONS.index(version)].ip_address


def pings(source: state.Port, target: state.Port, version: int) -> bool:
    command = ["ip", "netns", "exec", source.id, "ping", "-n", "-q", "-c", "2", "-i", "0.3", "-W", "10"]
    return subprocess.run([*command, address(target, version)], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def listening(machine: state.Port, number: int) -> Iterator[socket.socket]:
    def serve() -> socket.socket:
        return socket.create_server(("::", number), family=socket.AF_INET6, dualstack_ipv6=True)

    with inside(machine.id, serve) as server:
        yield server


def connect(source: state.Port, target: state.Port, number: int, version: int, timeout: float = 30) -> socket.socket:
    where = (address(target, version), number)
    return inside(source.id, lambda: socket.create_connection(where, timeout))


def carries(source: state.Port, target: state.Port, number: int, version: int, size: int = 200_000) -> bool:
    """Whether TCP data arrives unchanged: enough of it to use checksum and segmentation offload."""
    sent = bytes(range(256)) * (size // 256)
    received = bytearray()
    with listening(target, number) as server:

        def receive() -> None:
            connection, _ = server.accept()
            with connection:
                while part := connection.recv(65536):
                    received.extend(part)

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        with connect(source, target, number, version) as client:
            client.sendall(sent)
        thread.join(60)
    return bytes(received) == sent


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", TUNNELS)
def test_machines_on_two_hosts_reach_each_other(place: Place, kind: str, version: int) -> None:
    """This needs ARP, which their hosts answer, and neighbour discovery, which they do not."""
    here, there = MACHINES[kind]
    assert pings(here, there, version)
    assert pings(there, here, version)
    assert carries(here, there, 7000, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_machine_on_the_same_host_is_reached(place: Place, version: int) -> None:
    assert pings(NEAR, MACHINES["vxlan"][0], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_device_that_the_switch_makes_is_reached_from_both_hosts(place: Place, version: int) -> None:
    for machine in MACHINES["vxlan"]:
        assert pings(machine, DHCP, version)
        assert carries(machine, DHCP, 7001, version)
        assert carries(DHCP, machine, 7002, version)


def test_an_internal_port_without_offload_sends_datagrams_with_their_checksum(place: Place) -> None:
    """Clients of DHCP read raw frames: with offload, the checksum is missing in them. This is what the DHCP role sets."""
    target = MACHINES["vxlan"][0]

    def send() -> None:
        def from_dhcp() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(20):  # the first ones pass through userspace, which completes their checksums
                    sender.sendto(b"an offer", (address(target, 4), 68))
                    time.sleep(0.2)

        inside(DHCP.id, from_dhcp)

    def are_right() -> bool:
        with inside(target.id, lambda: sniff("eth0")) as sniffer:
            frames = captured(sniffer, 68, send, seconds=60.0)
        assert frames
        return all(map(has_right_checksum, frames))

    netlink, device = RealNetlink(), device_of(DHCP)
    netlink.apply(DHCP.id, [SetDevice(device, tx_checksum=True)])
    assert pings(DHCP, target, 4)
    assert not are_right(), "the kernel left it to hardware"
    netlink.apply(DHCP.id, [SetDevice(device, tx_checksum=False)])
    assert not netlink.read(DHCP.id).devices[device].tx_checksum
    assert are_right()


@pytest.mark.parametrize("version", VERSIONS)
def test_security_groups_filter_and_a_removed_rule_ends_connections(place: Place, version: int) -> None:
    assert not pings(NEAR, SERVER, version)
    assert carries(NEAR, SERVER, WEB, version)
    with listening(SERVER, SHUT), pytest.raises(TimeoutError):
        connect(NEAR, SERVER, SHUT, version, timeout=3)
    with listening(SERVER, WEB) as server, connect(NEAR, SERVER, WEB, version) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(3)
            client.sendall(b"before")
            assert accepted.recv(100) == b"before"
            place.apply(*(group("web") if entry is WEB_GROUP else entry for entry in OBJECTS))
            client.sendall(b"after")
            with pytest.raises(TimeoutError):
                accepted.recv(100)
            place.apply(*OBJECTS)


@pytest.mark.parametrize("version", VERSIONS)
def test_firewall_groups_filter_too_and_a_change_ends_connections(place: Place, version: int) -> None:
    """Rules match what conntrack keeps of the opening packet, here in the kernel, in packets to the port and replies."""

    def apply(*ingress: FirewallRule) -> None:
        filtered = msgspec.structs.replace(SERVER, firewall_group_id="group-1")
        others = (filtered if entry is SERVER else entry for entry in OBJECTS)
        place.apply(*others, firewall_group(ingress=ingress))

    sender = f"{address(NEAR, version)}/{32 if version == 4 else 128}"
    web = firewall_rule(protocol=TCP, dport=WEB, version=version, source=sender)
    try:
        apply()
        with listening(SERVER, WEB), pytest.raises(TimeoutError):
            connect(NEAR, SERVER, WEB, version, timeout=3)
        apply(web)
        assert carries(NEAR, SERVER, WEB, version)
        with listening(SERVER, WEB) as server, connect(NEAR, SERVER, WEB, version) as client:
            accepted, _ = server.accept()
            with accepted:
                accepted.settimeout(3)
                client.settimeout(3)
                client.sendall(b"before")
                assert accepted.recv(100) == b"before"
                apply(firewall_rule("deny", 17, version), web)
                accepted.sendall(b"goes on")
                assert client.recv(100) == b"goes on"
                apply(firewall_rule("deny", 17, version))
                accepted.sendall(b"after")
                with pytest.raises(TimeoutError):
                    client.recv(100)
    finally:
        place.apply(*OBJECTS)


def test_limits_of_a_port_drop_what_it_sends_and_delay_what_it_receives(place: Place) -> None:
    gold = QosPolicy(
        id="gold",
        bandwidth_limits=(
            BandwidthLimit(max_kbps=1000, max_burst_kbps=100),
            BandwidthLimit(max_kbps=1000, direction="ingress"),
        ),
        packet_rate_limits=(PacketRateLimit(max_kpps=1),),
    )
    limited, peer, host = msgspec.structs.replace(NEAR, qos_policy_id="gold"), MACHINES["vxlan"][1], place.hosts["h1"]
    try:
        place.apply(*(limited if entry is NEAR else entry for entry in OBJECTS), gold)
        assert {*host.openflow.read_meters("br-int").values()} == {
            Meter(1000, "kbps", 100),
            Meter(1000, "pktps", 800),
        }
        assert "ceil 1Mbit" in _classes(NEAR)
        assert 0 < _arriving(NEAR, peer, 200) < 200
        group_open = msgspec.structs.replace(limited, security_groups=("open",))
        place.apply(*(group_open if entry is NEAR else entry for entry in OBJECTS), gold)
        assert _arriving(peer, NEAR, 60) == 60  # no more than the receiver's buffer holds
    finally:
        place.apply(*OBJECTS)
    assert host.openflow.read_meters("br-int") == {}
    assert "htb" not in _classes(NEAR)


def _classes(machine: state.Port) -> str:
    command = ["ip", "netns", "exec", "h1", "tc", "class", "show", "dev", device_of(machine)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _arriving(source: state.Port, target: state.Port, count: int) -> int:
    """How many of some datagrams, sent at once, arrive."""

    def bound() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address(target, 4), 7))
        made.settimeout(5)
        return made

    assert pings(source, target, 4)  # the addresses are resolved: no datagram is lost for that
    sender = inside(source.id, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with inside(target.id, bound) as receiver, sender:
        for _ in range(count):
            sender.sendto(bytes(1000), (address(target, 4), 7))
        found = 0
        with contextlib.suppress(TimeoutError):
            while found < count:
                receiver.recv(2000)
                found += 1
    return found


def test_a_rejected_flow_affects_only_its_port(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the agent overestimates the datapath, or a later renderer produces an unsupported flow."""
    host = place.hosts["h1"]
    monkeypatch.setattr(OvsOfctl, "read_features", lambda self, bridge: DatapathFeatures(nd_extension=True))
    host.reconciler.forget()
    outcome = host.reconcile(place.cloud, *OBJECTS)
    assert outcome.problems == {}
    assert outcome.wired.keys() == {machine.id for machine in PORTS if machine.host == "h1"}
    assert outcome.faults.keys() == {f"network {kind}" for kind in TUNNELS}
    assert "br-tun, RESPONDER: OFPBAC_BAD_SET_ARGUMENT" in outcome.faults["network gre"]
    assert pings(*MACHINES["gre"], 4)
    monkeypatch.undo()
    host.reconciler.forget()
    place.apply(*OBJECTS)
