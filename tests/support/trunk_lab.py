"""A trunk in a lab: an instance with VLAN devices, each of them a port of its own on another network."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from neutrino.model.trunks import trunk_bridge
from tests.support import vlan_device
from tests.support.lab import network, open_group, pings
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON

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


@contextlib.contextmanager
def made_site(lab: Lab, *, hybrid: bool = False) -> Iterator[Site]:
    group = open_group(lab)
    closed = str(lab.api.create("security_group", name="closed")["id"])
    ports = {}
    for name, cidr in CIDRS.items():
        net = network(lab, name, [cidr], **TYPES[name])
        ports[name] = lab.api.create("port", network_id=net["id"], security_groups=[group])
        lab.vm(f"{name}-peer", network=net["id"], host="h2", security_groups=[group], dhcp=False)
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
