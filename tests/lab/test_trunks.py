"""Trunks on real packets: VLAN devices in an instance, each of them a port of its own on another network."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from neutrino.lab.api_client import Object
from neutrino.lab.errors import wait_until
from neutrino.model.trunks import trunk_bridge
from tests.support import vlan_device
from tests.support.lab import Pinging, network, open_group, pings
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON, cleaned
from tests.support.lab_qos import Policy

VM = "trunked"
VLAN = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
PARENT, RED, GREEN = "parent", "red", "green"
CIDRS = {PARENT: "10.1.0.0/24", RED: "10.2.0.0/24", GREEN: "10.3.0.0/24"}
# A tunnel's MTU is the smaller one, and no subport's may be larger than the parent's.
TYPES: dict[str, dict[str, Any]] = {PARENT: VLAN, RED: {"provider:network_type": "vxlan"}, GREEN: VLAN}
TAGS = {RED: 10, GREEN: 20}


@dataclasses.dataclass
class Site:
    """An instance on h1 with a trunk, and an instance on h2 on each of its networks."""

    lab: Lab
    group: str
    closed: str
    ports: dict[str, Object]
    trunk: Object
    devices: dict[int, subprocess.Popen[str]] = dataclasses.field(default_factory=dict)  # VLAN devices by tag

    @property
    def bridge(self) -> str:
        return trunk_bridge(self.trunk["id"])

    def address(self, name: str) -> str:
        return str(self.ports[name]["fixed_ips"][0]["ip_address"])

    def status(self) -> str:
        return str(self.lab.api.show("trunk", self.trunk["id"])["status"])

    def wait_for(self, status: str) -> None:
        wait_until(lambda: self.status() == status, SOON, f"the trunk is not {status}")

    def act(self, action: str, name: str, **segmentation: Any) -> None:
        body = {"sub_ports": [{"port_id": self.ports[name]["id"], **segmentation}]}
        self.lab.api.request("PUT", f"/v2.0/trunks/{self.trunk['id']}/{action}", body)

    def add(self, name: str, tag: int) -> None:
        self.act("add_subports", name, segmentation_type="vlan", segmentation_id=tag)

    def remove(self, name: str) -> None:
        self.act("remove_subports", name)

    def add_device(self, tag: int, address: str, mac: str = "", mtu: int = 1450) -> None:
        """A VLAN device in the instance."""
        device, words = f"vlan{tag}", f"address {mac}" if mac else ""
        program = self.devices[tag] = self.lab.popen(
            VM, [sys.executable, "-P", vlan_device.__file__, "eth0", device, str(tag)]
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        for line in (
            f"link set {device} mtu {mtu} {words}",
            f"address add {address}/24 dev {device}",
            f"link set {device} up",
        ):
            self.ip(line)

    def add_subport_device(self, name: str, tag: int) -> None:
        """With the subport's MAC and address."""
        self.add_device(tag, self.address(name), self.ports[name]["mac_address"])

    def remove_device(self, tag: int) -> None:
        program = self.devices.pop(tag)
        program.kill()
        program.communicate()

    def ip(self, words: str) -> None:
        self.lab.run(VM, ["ip", *words.split()])

    def is_reached(self, name: str) -> bool:
        return pings(self.lab, f"{name}-peer", self.address(name), seconds=1)

    def wait_until_reached(self, *names: str) -> None:
        for name in names:
            wait_until(lambda name=name: self.is_reached(name), SOON, f"{name} is not reached")  # type: ignore[misc]

    def wait_until_cut(self, name: str) -> None:
        wait_until(lambda: not self.is_reached(name), SOON, f"{name} is still reached")

    def vsctl(self, *arguments: str, host: str = "h1") -> str:
        return self.lab.run(host, ["ovs-vsctl", *arguments]).stdout

    def traces(self, host: str) -> list[str]:
        """What a host has of the trunk: its bridge, and ports of the integration bridge."""
        lines = [*self.vsctl("list-br", host=host).split(), *self.vsctl("list-ports", "br-int", host=host).split()]
        return [name for name in lines if name.startswith(("tbr-", "tpi-", "spi-"))]


@pytest.fixture
def site(session_lab: Lab) -> Iterator[Site]:
    with cleaned(session_lab) as lab, made_site(lab) as made:
        yield made


@contextlib.contextmanager
def made_site(lab: Lab, *, hybrid: bool = False) -> Iterator[Site]:
    group = open_group(lab)
    closed = str(lab.api.create("security_group", name="closed")["id"])
    ports = {}
    for name, cidr in CIDRS.items():
        made = network(lab, name, [cidr], **TYPES[name])
        ports[name] = lab.api.create("port", network_id=made["id"], security_groups=[group])
        lab.vm(f"{name}-peer", network=made["id"], host="h2", security_groups=[group], dhcp=False)
    subports = [
        {"port_id": ports[name]["id"], "segmentation_type": "vlan", "segmentation_id": tag}
        for name, tag in TAGS.items()
    ]
    trunk = lab.api.create("trunk", port_id=ports[PARENT]["id"], sub_ports=subports)
    assert trunk["status"] == "DOWN"
    lab.vm(VM, port=ports[PARENT]["id"], host="h1", hybrid=hybrid, dhcp=False)
    made = Site(lab, group, closed, ports, trunk)
    try:
        for name, tag in TAGS.items():
            made.add_subport_device(name, tag)
        made.wait_for("ACTIVE")
        made.wait_until_reached(PARENT, RED, GREEN)
        yield made
    finally:
        for tag in list(made.devices):
            made.remove_device(tag)


def test_each_vlan_device_is_on_its_own_network(site: Site) -> None:
    assert site.vsctl("port-to-br", f"tap{site.ports[PARENT]['id'][:11]}").strip() == site.bridge
    for name, port in site.ports.items():
        assert site.lab.api.show("port", port["id"])["status"] == "ACTIVE", name
    # The instance sends tagged packets, and its peers receive them without a tag.
    with site.lab.capture(f"{RED}-peer", "icmp", "eth0") as seen:
        assert site.is_reached(RED)
        seen.wait_for("echo reply")
    assert "vlan" not in seen.text.lower()
    # A VLAN that is no subport's leads nowhere, not even to the parent's network.
    site.add_device(30, "10.1.0.240")
    assert not pings(site.lab, f"{PARENT}-peer", "10.1.0.240", seconds=1)
    assert site.is_reached(PARENT)


@pytest.mark.parametrize("name", [PARENT, RED, GREEN])
def test_a_trace(site: Site, name: str) -> None:
    """To the port of the packet's VLAN, and not to the parent, whose device it leaves by."""
    peer = site.lab.api.show("port", site.lab.vms.get(f"{name}-peer").port_id)
    for source, target in ((site.ports[name], peer), (peer, site.ports[name])):
        destination = target["fixed_ips"][0]["ip_address"]
        body = {"source_port_id": source["id"], "destination_address": destination, "protocol": "icmp"}
        made = site.lab.api.request("POST", "/v2.0/traces", {"trace": body})["trace"]
        assert (made["verdict"], made["cause"]) == ("delivered", ""), made["summary"]


def test_a_subport_has_its_own_security_groups(site: Site) -> None:
    site.lab.api.update("port", site.ports[RED]["id"], security_groups=[site.closed])
    site.wait_until_cut(RED)
    assert site.is_reached(GREEN)
    assert site.is_reached(PARENT)
    site.lab.api.update("port", site.ports[PARENT]["id"], security_groups=[site.closed])
    site.wait_until_cut(PARENT)
    assert site.is_reached(GREEN)
    site.lab.api.update("port", site.ports[RED]["id"], security_groups=[site.group])
    site.wait_until_reached(RED)


def test_a_subport_sends_only_from_its_own_addresses(site: Site) -> None:
    site.ip("link set vlan10 down")
    site.ip("link set vlan10 address fa:16:3e:00:00:99")
    site.ip("link set vlan10 up")
    site.wait_until_cut(RED)
    site.ip(f"link set vlan10 address {site.ports[RED]['mac_address']}")
    site.wait_until_reached(RED)


def test_a_subport_has_its_own_qos_policy(site: Site) -> None:
    policy = Policy(site.lab, "marked")
    policy.set("dscp_marking", dscp_mark=46)
    site.lab.api.update("port", site.ports[RED]["id"], qos_policy_id=policy.id)
    with site.lab.capture(f"{RED}-peer", "icmp[0] = 0 and ip[1] & 0xfc = 0xb8", "eth0") as marked:
        wait_until(
            lambda: site.is_reached(RED) and "echo reply" in marked.text, SOON, "the subport's packets are not marked"
        )
    with site.lab.capture(f"{GREEN}-peer", "icmp[0] = 0 and ip[1] & 0xfc = 0xb8", "eth0") as others:
        assert site.is_reached(GREEN)
    assert "echo reply" not in others.text
    site.lab.api.update("port", site.ports[RED]["id"], qos_policy_id=None)
    policy.clear()
    policy.delete()


def test_subports_change_without_a_loss_on_the_others(site: Site) -> None:
    lab = site.lab
    with (
        Pinging(lab, f"{GREEN}-peer", site.address(GREEN)) as green,
        Pinging(lab, f"{PARENT}-peer", site.address(PARENT)) as parent,
    ):
        site.remove(RED)
        site.wait_until_cut(RED)
        assert lab.api.show("port", site.ports[RED]["id"])["binding:host_id"] == ""
        site.add(RED, 11)
        site.remove_device(10)
        site.add_subport_device(RED, 11)
        site.wait_until_reached(RED)
        site.wait_for("ACTIVE")
    assert (green.lost, parent.lost) == (0, 0)


def test_a_restart_of_the_agent_changes_nothing(site: Site) -> None:
    lab = site.lab
    before = site.traces("h1")
    with (
        Pinging(lab, f"{RED}-peer", site.address(RED)) as red,
        Pinging(lab, f"{PARENT}-peer", site.address(PARENT)) as parent,
    ):
        lab.stop_agent("h1")
        lab.start_agent("h1")
        lab.wait_for_agent("h1")
    assert (red.lost, parent.lost) == (0, 0)
    assert site.traces("h1") == before
    assert site.status() == "ACTIVE"


def test_changes_while_the_agent_is_down_and_a_restart_of_the_switch(site: Site) -> None:
    lab = site.lab
    lab.stop_agent("h1")
    site.remove(RED)
    lab.start_agent("h1")
    site.wait_until_cut(RED)
    site.wait_until_reached(GREEN, PARENT)
    site.add(RED, 10)
    site.wait_until_reached(RED)
    lab.stop_ovs("h1")
    lab.start_ovs("h1")
    site.wait_until_reached(PARENT, RED, GREEN)
    site.wait_for("ACTIVE")


def test_deletion_leaves_nothing(site: Site) -> None:
    lab = site.lab
    assert len(site.traces("h1")) == 4
    lab.delete_vm(VM)
    wait_until(lambda: site.traces("h1") == [], SOON, "the trunk's bridge or patch ports are left")
    assert site.status() == "DOWN"
    for port in site.ports.values():
        assert lab.api.show("port", port["id"])["binding:host_id"] == ""
    lab.api.delete("trunk", site.trunk["id"])
    flows = lab.run("h1", ["ovs-ofctl", "dump-flows", "br-int"]).stdout
    for port in site.ports.values():
        assert port["mac_address"] not in flows
        lab.api.delete("port", port["id"])


def test_a_live_migration(site: Site) -> None:
    lab, parent = site.lab, site.ports[PARENT]["id"]
    lab.api.request("POST", f"/v2.0/ports/{parent}/bindings", {"binding": {"host": "h3"}})
    lab.plug(VM, "h3")
    wait_until(lambda: len(site.traces("h3")) == 4, SOON, "the target has not prepared the trunk with its subports")
    assert {lab.api.show("port", each["id"])["binding:host_id"] for each in site.ports.values()} == {"h1"}
    lab.api.request("PUT", f"/v2.0/ports/{parent}/bindings/h3/activate", {})
    lab.unplug(VM, "h1")
    lab.settle_vm(VM, "h3")
    lab.address(VM)
    for name, tag in TAGS.items():
        site.remove_device(tag)
        site.add_subport_device(name, tag)
    site.wait_until_reached(PARENT, RED, GREEN)
    site.wait_for("ACTIVE")
    lab.api.request("DELETE", f"/v2.0/ports/{parent}/bindings/h1")
    wait_until(lambda: site.traces("h1") == [], SOON, "the source has parts of the trunk left")
    assert len(site.traces("h3")) == 4


def test_a_parent_behind_a_linux_bridge(session_lab: Lab) -> None:
    """Hybrid plugging: iptables filters the parent's packets, the switch those of the subports."""
    with cleaned(session_lab) as lab, made_site(lab, hybrid=True) as site:
        lab.api.update("port", site.ports[RED]["id"], security_groups=[site.closed])
        site.wait_until_cut(RED)
        assert site.is_reached(PARENT)
        assert site.is_reached(GREEN)
