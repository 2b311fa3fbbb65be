"""Open vSwitch on the kernel's datapath, one in each of some network namespaces, and machines plugged into them."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from neutrino.agent.l2.desired import Options
from neutrino.agent.l2.wire import Outcome, Wirer
from neutrino.agent.l2.wiring import WiringOptions
from neutrino.dataplane.conntrack.real import OvsConntrack
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.dataplane.ovsdb.real import RealOvsdb
from neutrino.lab.enter import in_network
from neutrino.model import state
from tests.support.l2 import Cloud
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until

SECONDS = 120.0  # an emulated guest takes its time
TUNNELS = ("vxlan", "gre", "geneve")
MTU = 1400  # what every kind of tunnel leaves of 1500
T = TypeVar("T")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def inside(name: str, work: Callable[[], T]) -> T:
    return in_network(Path("/run/netns") / name, work)


def underlay(host: str) -> str:
    return f"192.0.2.{host.removeprefix('h')}"


class KernelSwitch(OpenVSwitch):
    """In the named network namespace, which then has a datapath of its own."""

    options = ("-vconsole:off",)

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.before = ("nsenter", f"--net=/run/netns/{namespace}")


class KernelHost:
    """A host as the agent wires it, without agent and server: `wire` gives it the state of a cloud."""

    def __init__(self, name: str, switch: KernelSwitch) -> None:
        self.name, self.switch = name, switch
        wiring = WiringOptions(datapath_type="system", tunnel_types=TUNNELS, local_ip=underlay(name))
        self._ovsdb = RealOvsdb(switch.database, timeout=SECONDS)
        self.openflow = OvsOfctl(switch.run_directory)
        conntrack = OvsConntrack(switch.run_directory, datapath="system@ovs-system", timeout=SECONDS)
        self.wirer = Wirer(self._ovsdb, self.openflow, conntrack, wiring, Options(host=name))

    def close(self) -> None:
        self._ovsdb.close()

    def plug(self, port: state.Port, *, internal: bool = False) -> None:
        """A machine of the port's name: a veth pair as for an instance, or a device that the switch makes, as for DHCP."""
        device = own = f"tap{port.id}"[:15]
        ip("netns", "add", port.id)
        if not internal:
            own = "eth0"
            pair = ("type", "veth", "peer", "name", own, "address", port.mac_address, "netns", port.id)
            ip("-n", self.name, "link", "add", device, *pair)
            ip("-n", self.name, "link", "set", device, "up")
        kind = ["type=internal"] if internal else []
        interface = ("--", "set", "interface", device, f"external_ids:iface-id={port.id}", *kind)
        self.switch.vsctl("add-port", "br-int", device, *interface)
        if internal:
            wait_until(lambda: self._has(device), timeout=SECONDS, what=device, failed=lambda: None)
            ip("-n", self.name, "link", "set", device, "netns", port.id, "address", port.mac_address)
        ip("-n", port.id, "link", "set", "lo", "up")
        for fixed in port.fixed_ips:
            lengthy = (f"{fixed.ip_address}/64", "nodad") if ":" in fixed.ip_address else (f"{fixed.ip_address}/24",)
            ip("-n", port.id, "address", "add", lengthy[0], "dev", own, *lengthy[1:])
        ip("-n", port.id, "link", "set", own, "mtu", str(MTU), "up")

    def _has(self, device: str) -> bool:
        return inside(self.name, lambda: device in {name for _, name in socket.if_nameindex()})

    def wire(self, cloud: Cloud, *objects: state.Object) -> Outcome:
        """Rounds until there is nothing to change."""
        host_state = cloud.state_for(self.name, objects)
        peers = {name: structs.replace(peer, tunneling_ip=underlay(name)) for name, peer in host_state.hosts.items()}
        host_state = dataclasses.replace(host_state, hosts=peers)
        found: list[Outcome] = []

        def settled() -> bool:
            found[:] = [self.wirer.wire(host_state, complete=True)]
            return found[0].ready and not found[0].changed

        wait_until(settled, timeout=SECONDS, what=f"{self.name}: a round that changes nothing", failed=lambda: None)
        return found[0]


@contextlib.contextmanager
def kernel_hosts(*names: str) -> Iterator[dict[str, KernelHost]]:
    """Hosts h1, h2 and so on, on one wire."""
    with contextlib.ExitStack() as stack:
        ip("link", "add", "wire", "type", "bridge")
        stack.callback(ip, "link", "delete", "wire")
        ip("link", "set", "wire", "up")
        hosts = {}
        for name in names:
            ip("netns", "add", name)
            ip("link", "add", f"wire-{name}", "type", "veth", "peer", "name", "underlay", "netns", name)
            ip("link", "set", f"wire-{name}", "master", "wire", "up")
            ip("-n", name, "address", "add", f"{underlay(name)}/24", "dev", "underlay")
            for device in ("lo", "underlay"):
                ip("-n", name, "link", "set", device, "up")
            switch = stack.enter_context(KernelSwitch(name))
            hosts[name] = KernelHost(name, switch)
            stack.callback(hosts[name].close)
        yield hosts
