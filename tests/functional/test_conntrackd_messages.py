"""Real conntrackds in namespaces of HA routers: messages from the HA network, of all other hosts, and from nowhere else."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import HA, device
from neutrino.agent.l3.services.conntrackd.render import render_conntrackd
from neutrino.agent.l3.services.keepalived.render import Failover
from neutrino.agent.runtime.service_namespaces import plan_tables
from neutrino.dataplane.nft.real import RealNft
from neutrino.model.routing import HaMembership
from tests.support.process import ENDS_WITH_US
from tests.support.routing import address, interface, membership, rendered, router
from tests.support.throwaway_namespace import ThrowawayNamespace
from tests.support.waiting import eventually

OPTIONS = L3Options(host="h1", veth=True, ha_conntrackd_enabled=True)
OWN, OTHER, GATEWAY = "169.254.192.7", "169.254.192.8", "192.0.2.1"
LOCAL = "10.9.0.1"  # an address of each namespace itself
HA_DEVICE = device(HA, membership().interface.id)
PORT = 3787
SEND = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes({}), ({!r}, {}))"
TRACKED = "add table ip tracked; add chain ip tracked output {type filter hook output priority 0;}"


@pytest.fixture
def inside() -> Iterator[ThrowawayNamespace]:
    with ThrowawayNamespace() as made:
        yield made


@pytest.fixture
def outside() -> Iterator[ThrowawayNamespace]:
    """What is beyond both links of the router."""
    with ThrowawayNamespace() as made:
        yield made


@dataclasses.dataclass(frozen=True)
class Conntrackd:
    place: ThrowawayNamespace
    directory: Path

    @property
    def argv(self) -> list[str]:
        return ["conntrackd", "-C", str(self.directory / "conntrackd.conf")]

    def received(self) -> int:
        """The bytes of messages that it has read."""
        shown = self.place.run(*self.argv, "-s", "network")
        found = re.search(r"(\d+) Bytes recv", shown)
        assert found is not None, shown
        return int(found[1])

    def ports(self, cache: str) -> set[int]:
        """Destination ports of the connections in a cache: `-i` its own, `-e` those of others."""
        return {int(port) for port in re.findall(r"dport=(\d+)", self.place.run(*self.argv, cache))}


@contextlib.contextmanager
def running(place: ThrowawayNamespace, failover: Failover, directory: Path) -> Iterator[Conntrackd]:
    found = Conntrackd(place, directory)
    control = directory / "control"
    text = render_conntrackd(failover, OPTIONS, str(directory / "lock"), str(control))
    (directory / "conntrackd.conf").write_text(text)
    command = [*ENDS_WITH_US, "nsenter", f"--net={place.path}", *found.argv]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as daemon:
        try:
            eventually(control.exists)
            place.run(*found.argv, "-s", "runtime")  # it answers when it has begun
            yield found
        finally:
            daemon.terminate()


def failover_of(own: HaMembership) -> Failover:
    found = rendered(router(interface(1), ha=own), OPTIONS).failover
    assert found is not None
    return found


def link(inside: ThrowawayNamespace, outside: ThrowawayNamespace, name: str, one: str, other: str) -> None:
    inside.run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", str(outside.pid))
    for place, own in ((inside, one), (outside, other)):
        place.run("ip", "address", "add", own, "dev", name)
        place.run("ip", "link", "set", name, "up")


def test_messages_from_elsewhere_are_dropped(
    inside: ThrowawayNamespace, outside: ThrowawayNamespace, tmp_path: Path
) -> None:
    namespace = rendered(router(interface(1), ha=membership()), OPTIONS).namespace
    link(inside, outside, HA_DEVICE, f"{OWN}/18", f"{OTHER}/18")
    link(inside, outside, "qg-gateway", f"{GATEWAY}/24", "192.0.2.2/24")
    with running(inside, failover_of(membership()), tmp_path) as daemon:
        outside.run("python3", "-c", SEND.format(64, GATEWAY, PORT))
        eventually(lambda: daemon.received() == 64)
        nft = RealNft(inside.names)
        for plan in plan_tables(namespace.tables, nft.read("net")):
            nft.apply("net", plan)
        outside.run("python3", "-c", SEND.format(64, GATEWAY, PORT))
        outside.run("python3", "-c", SEND.format(100, OWN, PORT))
        eventually(lambda: daemon.received() == 164)


def test_each_of_three_hosts_has_the_connections_of_both_others(tmp_path: Path) -> None:
    """Independent of how many messages each has sent: a host that has just become active has sent the fewest."""
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(ThrowawayNamespace())
        switch.run("ip", "link", "add", "network", "type", "bridge", "mcast_snooping", "0")
        switch.run("ip", "link", "set", "network", "up")
        daemons = [stack.enter_context(_host(switch, number, tmp_path)) for number in (1, 2, 3)]
        for port, sender in enumerate(daemons, 5001):
            sender.place.run("python3", "-c", SEND.format(1, LOCAL, port))
            eventually(lambda: port in sender.ports("-i"))  # noqa: B023
            for each in daemons:
                if each is not sender:
                    eventually(lambda: port in each.ports("-e"))  # noqa: B023


@contextlib.contextmanager
def _host(switch: ThrowawayNamespace, number: int, path: Path) -> Iterator[Conntrackd]:
    """A host on the HA network, with a connection whenever something is sent to `LOCAL`."""
    own = membership()
    ip = f"169.254.192.{number}"
    port = msgspec.structs.replace(own.interface, addresses=(address(ip, "169.254.192.0/18"),))
    directory = path / str(number)
    directory.mkdir()
    with ThrowawayNamespace() as place:
        place.run(
            "ip", "link", "add", HA_DEVICE, "type", "veth", "peer", "name", f"host{number}", "netns", str(switch.pid)
        )
        switch.run("ip", "link", "set", f"host{number}", "master", "network", "up")
        place.run("ip", "address", "add", f"{ip}/18", "dev", HA_DEVICE)
        place.run("ip", "link", "set", HA_DEVICE, "up")
        place.run("ip", "address", "add", LOCAL, "dev", "lo")
        place.run("sysctl", "-qw", "net.netfilter.nf_conntrack_events=1")
        place.run("nft", f"{TRACKED}; add rule ip tracked output ct state new")
        with running(place, failover_of(msgspec.structs.replace(own, interface=port)), directory) as found:
            yield found
