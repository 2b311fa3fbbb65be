"""Plugging stand-in instances into br-int of their host, as Nova's os-vif plugs VMs.

An instance is a network namespace `vm-NAME` on its host with one device, eth0. Where a VM has a tap, it has a veth pair
whose other end has the tap's name and is plugged into br-int, with the external_ids that the agent looks for. A hybrid port
has a Linux bridge in between, where iptables filters:

    plain      eth0 ── tapX [br-int]
    hybrid     eth0 ── tapX [qbrX] qvbX ── qvoX [br-int]

The parent of a trunk is plugged into the trunk's bridge instead of br-int, which is created if it is missing.

Several instances are plugged with one `ip -batch` and one `ovs-vsctl`.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from neutrino.lab.errors import LabError
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.fabric import checksum_in_software
from neutrino.lab.hosts.namespaces import host_command, in_host, in_network, ip_batch, vm_network, write_sysctls
from neutrino.lab.settings import vm_namespace

BRIDGE = "br-int"
DEVICE = "eth0"


@dataclass(frozen=True)
class Vm:
    """A stand-in instance with one device, and the names that Nova gives the devices of its port."""

    name: str
    host: str
    port_id: str
    device_id: str
    mac: str
    mtu: int
    owns_port: bool = True  # the port was created for the instance, and is deleted with it
    hybrid: bool = False
    dhcp: bool = True
    switch_bridge: str = BRIDGE
    datapath_type: str = ""  # of a bridge that has to be created

    @property
    def namespace(self) -> str:
        return vm_namespace(self.name)

    @property
    def tap(self) -> str:
        return f"tap{self.port_id[:11]}"

    @property
    def bridge(self) -> str:
        return f"qbr{self.port_id[:11]}"

    @property
    def bridge_device(self) -> str:
        return f"qvb{self.port_id[:11]}"

    @property
    def switch_device(self) -> str:
        """The device in br-int, or in the trunk's bridge."""
        return f"qvo{self.port_id[:11]}" if self.hybrid else self.tap


class Host(Protocol):
    """A host of instances: a lab host, or the machine of `neutrino up`."""

    @property
    def holder(self) -> int:
        """The pid of a process in the host's network and mount namespaces."""

    def vsctl(self, *arguments: str) -> str: ...


def render_devices(vm: Vm) -> list[str]:
    """`ip` commands that create the instance's namespace and devices on the host."""
    mtu = vm.mtu
    lines = [
        f"netns add {vm.namespace}",
        f"link add {vm.tap} mtu {mtu} type veth peer name {DEVICE} address {vm.mac} mtu {mtu} netns {vm.namespace}",
    ]
    if vm.hybrid:
        lines += [
            f"link add {vm.bridge} mtu {mtu} type bridge mcast_snooping 0 ageing_time 0",  # as os-vif creates it
            f"link add {vm.bridge_device} mtu {mtu} type veth peer name {vm.switch_device} mtu {mtu}",
            *(f"link set {device} master {vm.bridge}" for device in (vm.tap, vm.bridge_device)),
            *(f"link set {device} up" for device in (vm.bridge, vm.bridge_device, vm.switch_device)),
        ]
    return [*lines, f"link set {vm.tap} up"]


def render_ports(vms: Sequence[Vm]) -> list[str]:
    """ovs-vsctl arguments that add the devices to br-int."""
    arguments: list[str] = []
    for vm in vms:
        device, bridge = vm.switch_device, vm.switch_bridge
        if bridge != BRIDGE:
            arguments += ["--", "--may-exist", "add-br", bridge]
            arguments += (
                ["--", "set", "Bridge", bridge, f"datapath_type={vm.datapath_type}"] if vm.datapath_type else []
            )
        arguments += [
            *("--", "--may-exist", "add-port", bridge, device, "--", "set", "Interface", device),
            *(f"external_ids:iface-id={vm.port_id}", "external_ids:iface-status=active"),
            *(f'external_ids:attached-mac="{vm.mac}"', f"external_ids:vm-uuid={vm.device_id}"),
        ]
    return arguments


def render_removal(vm: Vm, present: frozenset[str]) -> list[str]:
    """`ip` commands that delete the instance's devices; the other end of a veth pair is deleted with it."""
    return [f"link delete {device}" for device in (vm.tap, vm.bridge_device, vm.bridge) if device in present]


def plug(host: Host, vms: Sequence[Vm], *, silent: bool = False) -> None:
    """Create and plug instances. Devices first: Open vSwitch reports an error for a port whose device does not exist.

    `silent`: they send nothing by themselves, as an instance that has not arrived yet by live migration.
    """
    ip_batch([line for vm in vms for line in render_devices(vm)], host_command(host.holder, []))
    for vm in vms:
        in_network(vm_network(host.holder, vm.namespace), lambda: _bring_up_device(silent))
    host.vsctl("--no-wait", *render_ports(vms))


def unplug(host: Host, vms: Sequence[Vm]) -> None:
    """Remove what exists of the instances, processes included: these would keep the namespace alive. Idempotent."""
    # A trunk's bridge may be gone already: its device is not looked for there.
    places = [(*((BRIDGE,) if vm.switch_bridge == BRIDGE else ()), vm.switch_device) for vm in vms]
    removals = [argument for place in places for argument in ("--", "--if-exists", "del-port", *place)]
    host.vsctl("--no-wait", *removals)
    for vm in vms:
        _end_processes(host.holder, vm)
    # By interface index: a host's /sys shows the devices of the namespace in which it was mounted.
    present = in_host(host.holder, lambda: frozenset(name for _, name in socket.if_nameindex()))
    lines = [line for vm in vms for line in render_removal(vm, present)]
    lines += [f"netns delete {vm.namespace}" for vm in vms if vm_network(host.holder, vm.namespace).exists()]
    ip_batch(lines, host_command(host.holder, []))


def _bring_up_device(silent: bool) -> None:
    write_sysctls({f"ipv6/conf/{DEVICE}/accept_dad": 0})  # else link-local addresses are unusable for a second
    if silent:  # without addresses only IPv6 sends something
        write_sysctls({f"ipv6/conf/{DEVICE}/disable_ipv6": 1})
    checksum_in_software(DEVICE)
    ip_batch(["link set lo up", f"link set {DEVICE} up"])


def _end_processes(holder: int, vm: Vm) -> None:
    try:
        inode = vm_network(holder, vm.namespace).stat().st_ino
    except OSError:
        return
    for pid in processes.read_pids():
        if processes.read_namespace(pid, "net") != f"net:[{inode}]":
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not processes.wait_for_end(pid, processes.STOP_SECONDS):
            raise LabError(f"process {pid} in {vm.name} does not end")
