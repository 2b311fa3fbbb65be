"""A real conntrackd in the namespace of an HA router takes messages from the HA network, and from nowhere else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import HA, device
from neutrino.agent.l3.services.conntrackd.render import render_conntrackd
from neutrino.agent.runtime.service_namespaces import plan_tables
from neutrino.dataplane.nft.real import RealNft
from tests.support.process import ENDS_WITH_US
from tests.support.routing import interface, membership, rendered, router
from tests.support.throwaway_namespace import ThrowawayNamespace
from tests.support.waiting import eventually

OPTIONS = L3Options(host="h1", veth=True, ha_conntrackd_enabled=True)
OWN, OTHER, GATEWAY = "169.254.192.7", "169.254.192.8", "192.0.2.1"
SEND = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes({}), ({!r}, 3787))"


@pytest.fixture
def inside() -> Iterator[ThrowawayNamespace]:
    with ThrowawayNamespace() as made:
        yield made


@pytest.fixture
def outside() -> Iterator[ThrowawayNamespace]:
    """What is beyond both links of the router."""
    with ThrowawayNamespace() as made:
        yield made


def received(inside: ThrowawayNamespace, configuration: Path) -> int:
    """The bytes of messages that conntrackd has read."""
    shown = inside.run("conntrackd", "-C", str(configuration), "-s", "network")
    found = re.search(r"(\d+) Bytes recv", shown)
    assert found is not None, shown
    return int(found[1])


def link(inside: ThrowawayNamespace, outside: ThrowawayNamespace, name: str, one: str, other: str) -> None:
    inside.run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", str(outside.pid))
    for place, address in ((inside, one), (outside, other)):
        place.run("ip", "address", "add", address, "dev", name)
        place.run("ip", "link", "set", name, "up")


def test_messages_from_elsewhere_are_dropped(
    inside: ThrowawayNamespace, outside: ThrowawayNamespace, tmp_path: Path
) -> None:
    namespace = rendered(router(interface(1), ha=membership()), OPTIONS)
    assert namespace.failover is not None
    ha = device(HA, membership().interface.id)
    link(inside, outside, ha, f"{OWN}/18", f"{OTHER}/18")
    link(inside, outside, "qg-gateway", f"{GATEWAY}/24", "192.0.2.2/24")
    configuration = tmp_path / "conntrackd.conf"
    configuration.write_text(
        render_conntrackd(namespace.failover, OPTIONS, str(tmp_path / "lock"), str(tmp_path / "control"))
    )
    command = [*ENDS_WITH_US, "nsenter", f"--net={inside.path}", "conntrackd", "-C", str(configuration)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as daemon:
        try:
            eventually(lambda: (tmp_path / "control").exists())
            outside.run("python3", "-c", SEND.format(64, GATEWAY))
            eventually(lambda: received(inside, configuration) == 64)
            nft = RealNft(inside.names)
            for plan in plan_tables(namespace.namespace.tables, nft.read("net")):
                nft.apply("net", plan)
            outside.run("python3", "-c", SEND.format(64, GATEWAY))
            outside.run("python3", "-c", SEND.format(100, OWN))
            eventually(lambda: received(inside, configuration) == 164)
        finally:
            daemon.terminate()
