"""A network of Neutron's DHCP agent is taken over: with a real dnsmasq, its command line and files, and DHCP clients."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.runtime.supervisor import Action, apply_service
from neutrino.agent.takeover.daemons import OurDaemons, read_daemons, restart
from tests.support.dhcp_lab import Client, Lab, run
from tests.support.neutron_daemons import CLIENT, CLIENT6, SERVER, SERVER6, Neutron, programs
from tests.support.openvswitch import OpenVSwitch
from tests.support.waiting import eventually

STATEFUL = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}
NOBODY = 65534
ANSWERED_SECONDS = 4.0


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as made:
        yield made


@pytest.fixture
def lab(switch: OpenVSwitch) -> Iterator[Lab]:
    with Lab(switch, keeps_device=True) as made:
        yield made


def served(lab: Lab) -> tuple[ServedNetwork, Client]:
    network = lab.network
    v4, v6 = network.subnet(1), network.subnet(4, "2001:db8::/64", **STATEFUL)
    own = network.dhcp_port(0xD1, SERVER, SERVER6, on=(v4, v6))
    instance = network.port(0x11, CLIENT, CLIENT6, on=(v4, v6))
    return network.network((v4, v6), own, instance), lab.client(instance)


def plug(lab: Lab, network: ServedNetwork, *, internal: bool) -> str:
    """The device of Neutron's agent, with its addresses; gives its name."""
    assert network.own is not None
    start = network.own.id[:11]
    outer, device = f"tap{start}", f"tap{start}" if internal else f"ns-{start}"
    run("ip", "netns", "add", network.namespace)
    if not internal:
        run("ip", "link", "add", outer, "type", "veth", "peer", "name", device, "netns", network.namespace)
        run("ip", "link", "set", outer, "up")
    kind = ["type=internal"] if internal else []
    ids = (f"external_ids:iface-id={network.own.id}", f"external_ids:attached-mac={network.own.mac_address}")
    lab.switch.vsctl("add-port", lab.bridge, outer, "--", "set", "interface", outer, *kind, *ids)
    if internal:
        run("ip", "link", "set", device, "netns", network.namespace)
    run("ip", "netns", "exec", network.namespace, "ethtool", "-K", device, "tx", "off")
    run("ip", "netns", "exec", network.namespace, "sysctl", "-qw", f"net.ipv6.conf.{device}.accept_dad=0")
    run("ip", "-n", network.namespace, "link", "set", device, "address", network.own.mac_address, "up")
    for address in (f"{SERVER}/24", f"{SERVER6}/64"):
        run("ip", "-n", network.namespace, "address", "add", address, "dev", device)
    return device


def index(namespace: str, device: str) -> str:
    return run("ip", "-n", namespace, "-o", "link", "show", "dev", device).partition(":")[0]


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start) or f" {start} " in line]


def leased(text: str) -> list[str]:
    """The IAID, address, name and DUID of the DHCPv6 lease, without its end."""
    (line,) = lines(text, CLIENT6)
    return line.split()[1:]


class Requests(threading.Thread):
    """A client that asks for its lease again and again."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client, self.seconds, self.addresses = client, list[float](), set[str]()
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            started = time.monotonic()
            self.addresses.add(self.client.dhclient("-4").get("new_ip_address", ""))
            self.seconds.append(time.monotonic() - started)


@pytest.mark.parametrize(
    ("internal", "same"), [(False, True), (True, False)], ids=["veth, same directory", "internal, other directory"]
)
def test_leases_and_device_are_kept_and_requests_answered(lab: Lab, *, internal: bool, same: bool) -> None:
    network, client = served(lab)
    neutron = Neutron(lab.directory if same else lab.directory / "neutron")
    device = plug(lab, network, internal=internal)
    directory = neutron.dnsmasq(network.id, device)
    if same:  # as Neutron's agent, which is no root
        for path in (directory.parent, directory, *directory.iterdir()):
            os.chown(path, NOBODY, NOBODY)
    assert client.dhclient("-6")["new_ip6_address"] == CLIENT6
    assert client.dhclient("-4")["new_ip_address"] == CLIENT
    before, was = (directory / "leases").read_text(), index(network.namespace, device)
    (theirs,) = programs(network.namespace)
    assert lab.reconciler.is_running(network.id)
    saved = [each for each in read_daemons() if each.object_id == network.id]

    requests = Requests(client)
    requests.start()
    time.sleep(0.3)
    service, problems = lab.reconciler.prepare(network)
    assert list(programs(network.namespace)) == [theirs], "it serves until ours is started"
    started = time.monotonic()
    action, _ = apply_service(service, lab.processes)
    gap = time.monotonic() - started
    time.sleep(0.5)
    requests.done.set()
    requests.join()

    assert (action, list(problems)) == (Action.START, [])
    assert list(programs(network.namespace)) == [lab.pid(network.id)]
    assert index(network.namespace, device) == was, "the device is not plugged anew"
    assert lab.reconciler.plan(network) == ([], ())
    assert lines(lab.leases(), "duid") == lines(before, "duid") != []
    assert lines(lab.leases(), CLIENT6) == lines(before, CLIENT6) != []
    assert requests.addresses == {CLIENT}
    assert max(requests.seconds) < ANSWERED_SECONDS
    assert gap < 1.0
    assert client.dhclient("-6")["new_ip6_address"] == CLIENT6
    assert leased(lab.leases()) == leased(before), "to the same DUID"
    assert client.dhclient("-4")["reason"] == "REBOOT"

    now = lab.leases()
    assert restart(saved, OurDaemons(str(lab.directory), str(lab.directory / "metadata_proxy"))) == []
    assert lab.pid(network.id) is None
    # dnsmasq empties the file before it writes it anew.
    eventually(lambda: lines((directory / "leases").read_text(), CLIENT6) == lines(now, CLIENT6), 5)
    assert os.stat(directory).st_uid == (NOBODY if same else 0)
    assert client.dhclient("-6")["new_ip6_address"] == CLIENT6
    assert leased((directory / "leases").read_text()) == leased(before)
    assert client.dhclient("-4")["new_ip_address"] == CLIENT
    for pid in programs(network.namespace):
        run("kill", str(pid))


def test_a_dnsmasq_of_an_operator_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    network, _ = served(lab)
    run("ip", "netns", "add", network.namespace)
    argv = ("dnsmasq", "--no-hosts", "--no-resolv", "--conf-file=/dev/null", "--port=5300", "--user=root")
    inside = ("ip", "netns", "exec", network.namespace)
    with subprocess.Popen([*inside, *argv, "--keep-in-foreground", f"--pid-file={tmp_path}/pid"]) as other:
        try:
            lab.serve(network)
            assert other.poll() is None
        finally:
            other.kill()
