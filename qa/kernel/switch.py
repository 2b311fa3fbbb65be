"""Open vSwitch with the kernel datapath in several network namespaces, and stand-in instances plugged into them."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.reconciler import Outcome, Reconciler
from neutrino.dataplane.conntrack.real import OvsConntrack
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.dataplane.ovsdb.real import RealOvsdb
from neutrino.lab.hosts.fabric import checksum_in_software
from neutrino.lab.hosts.namespaces import in_network
from neutrino.lab.settings import NETDEV
from neutrino.model import state
from tests.support.l2 import Cloud
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until

SECONDS = 300.0  # an emulated guest is slow
TUNNELS = ("vxlan", "gre", "geneve")
MTU = 1400  # what every kind of tunnel leaves of 1500
T = TypeVar("T")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def ip_batch(lines: Iterable[str], *options: str) -> None:
    """Runs many `ip` commands in one process: starting processes is slow in an emulated guest."""
    done = subprocess.run(
        ["ip", *options, "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def device_of(port: state.Port) -> str:
    return f"tap{port.id}"[:15]


def inside(name: str, work: Callable[[], T]) -> T:
    return in_network(Path("/run/netns") / name, work)


def underlay(host: str) -> str:
    return f"192.0.2.{host.removeprefix('h')}"


class KernelSwitch(OpenVSwitch):
    """A switch in the named network namespace, which has a datapath of its own."""

    options = ("-vconsole:off",)
    seconds = 300

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.before = ("nsenter", f"--net=/run/netns/{namespace}")

    def start_database(self) -> None:
        super().start_database()
        threads = ("n-handler-threads=1", "n-revalidator-threads=1")
        self.vsctl("--no-wait", "--", "init", "--", "set", "Open_vSwitch", ".", *(f"other_config:{e}" for e in threads))


class KernelHost:
    """A host wired by the agent's reconciler, without agent and server: `wire` sets its desired state."""

    def __init__(self, name: str, switch: KernelSwitch, datapath: str = "system") -> None:
        self.name, self.switch, self.datapath = name, switch, datapath
        options = L2Options(datapath_type=datapath, tunnel_types=TUNNELS, local_ip=underlay(name), host=name)
        self._ovsdb = RealOvsdb(switch.database, timeout=SECONDS)
        self.openflow = OvsOfctl(switch.run_directory)
        conntrack = OvsConntrack(switch.run_directory, datapath=f"{datapath}@ovs-{datapath}")
        self.reconciler = Reconciler(lambda: self._ovsdb, self.openflow, conntrack, options)

    def close(self) -> None:
        self._ovsdb.close()

    def plug(self, ports: Collection[state.Port], internal: Collection[state.Port] = ()) -> None:
        """Plugs a device for each port: a veth pair as for an instance, or an internal port, as for DHCP."""
        ip_batch(f"netns add {port.id}" for port in ports)  # not with -n, which has mounts of its own
        lines, added = [], []
        for port in ports:
            device = device_of(port)
            added += ["--", "add-port", "br-int", device]
            added += ["--", "set", "interface", device, f"external_ids:iface-id={port.id}"]
            if port in internal:
                added.append("type=internal")
            else:
                pair = f"type veth peer name eth0 address {port.mac_address} netns {port.id}"
                lines += [f"link add {device} {pair}", f"link set {device} up"]
        ip_batch(lines, "-n", self.name)
        self.switch.vsctl(*added)  # and waits until the switch has done it
        for port in internal:
            ip("-n", self.name, "link", "set", device_of(port), "netns", port.id)
            ip("-n", port.id, "link", "set", device_of(port), "address", port.mac_address)
        for port in ports:
            own = device_of(port) if port in internal else "eth0"
            lines = ["link set lo up", f"link set {own} mtu {MTU} up"]
            for fixed in port.fixed_ips:
                six = ":" in fixed.ip_address
                lines.append(f"address add {fixed.ip_address}/{64 if six else 24} dev {own}{' nodad' if six else ''}")
            ip_batch(lines, "-n", port.id)
            if self.datapath == NETDEV:
                inside(port.id, partial(checksum_in_software, own))

    def reconcile(self, cloud: Cloud, *objects: state.Object) -> Outcome:
        """Reconcile until the plan is empty."""
        host_state = cloud.state_for(self.name, objects)
        peers = {name: structs.replace(peer, tunneling_ip=underlay(name)) for name, peer in host_state.hosts.items()}
        host_state = dataclasses.replace(host_state, hosts=peers)
        found: list[Outcome] = []

        def settled() -> bool:
            found[:] = [self.reconciler.reconcile(host_state, complete=True)]
            return found[0].ready and not found[0].changed

        wait_until(settled, timeout=SECONDS, what=f"{self.name}: a round that changes nothing", failed=lambda: None)
        return found[0]


@contextlib.contextmanager
def kernel_hosts(*names: str, datapath: str = "system") -> Iterator[dict[str, KernelHost]]:
    """Hosts h1, h2 and so on, on one underlay network; tunnels need the kernel's datapath."""
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
            hosts[name] = KernelHost(name, switch, datapath)
            stack.callback(hosts[name].close)
        yield hosts
