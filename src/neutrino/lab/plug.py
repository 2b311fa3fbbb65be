"""Plugging a VM's device into a host's integration bridge, as Nova's os-vif does it for a real one.

A VM here is a network namespace `vm-NAME` on its host with one device, eth0. Where a real VM has a tap, it has a veth pair
whose other end carries the tap's name and goes into br-int, with what the agent looks for in external_ids. A hybrid port
has a Linux bridge in between, where iptables can filter:

    plain      eth0 ── tapX [br-int]
    hybrid     eth0 ── tapX [qbrX] qvbX ── qvoX [br-int]

Several devices are plugged at the cost of one: a call of `ip`, and one of `ovs-vsctl`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from neutrino.lab import processes
from neutrino.lab.enter import host_command, host_network, in_network, ip_batch, vm_network, write_sysctls
from neutrino.lab.errors import LabError
from neutrino.lab.settings import vm_namespace
from neutrino.lab.wires import checksum_in_software

BRIDGE = "br-int"
DEVICE = "eth0"


class Switch(Protocol):
    def vsctl(self, *arguments: str) -> str: ...


@dataclass(frozen=True)
class Nic:
    """One device of one VM, as its port says."""

    vm: str
    vm_id: str
    port_id: str
    mac: str
    mtu: int
    hybrid: bool = False

    @property
    def namespace(self) -> str:
        return vm_namespace(self.vm)

    @property
    def tap(self) -> str:
        return self._named("tap")

    @property
    def switch_device(self) -> str:
        """What is in br-int."""
        return self._named("qvo") if self.hybrid else self.tap

    @property
    def bridge(self) -> str:
        return self._named("qbr")

    @property
    def bridge_device(self) -> str:
        return self._named("qvb")

    def _named(self, prefix: str) -> str:
        return prefix + self.port_id[:11]


def render_devices(nic: Nic) -> list[str]:
    """Commands of `ip` on the host."""
    mtu = nic.mtu
    lines = [
        f"netns add {nic.namespace}",
        f"link add {nic.tap} mtu {mtu} type veth peer name {DEVICE} address {nic.mac} mtu {mtu} netns {nic.namespace}",
    ]
    if nic.hybrid:
        lines += [
            f"link add {nic.bridge} mtu {mtu} type bridge mcast_snooping 0 ageing_time 0",
            f"link add {nic.bridge_device} mtu {mtu} type veth peer name {nic.switch_device} mtu {mtu}",
            *(f"link set {device} master {nic.bridge}" for device in (nic.tap, nic.bridge_device)),
            *(f"link set {device} up" for device in (nic.bridge, nic.bridge_device, nic.switch_device)),
        ]
    return [*lines, f"link set {nic.tap} up"]


def render_ports(nics: Sequence[Nic]) -> list[str]:
    """Arguments of ovs-vsctl that put the devices into the integration bridge."""
    arguments: list[str] = []
    for nic in nics:
        device = nic.switch_device
        arguments += [
            *("--", "--may-exist", "add-port", BRIDGE, device, "--", "set", "Interface", device),
            *(f"external_ids:iface-id={nic.port_id}", "external_ids:iface-status=active"),
            *(f'external_ids:attached-mac="{nic.mac}"', f"external_ids:vm-uuid={nic.vm_id}"),
        ]
    return arguments


def render_removal(nic: Nic, present: frozenset[str]) -> list[str]:
    """Commands of `ip` for what is there of it; a pair goes with one of its ends."""
    devices = [device for device in (nic.tap, nic.bridge_device, nic.bridge) if device in present]
    return [f"link delete {device}" for device in devices]


def plug(switch: Switch, holder: int, nics: Sequence[Nic]) -> None:
    """Make the VMs and plug them. The devices come first: the agent hears of a port when it is complete."""
    ip_batch([line for nic in nics for line in render_devices(nic)], host_command(holder, []))
    for nic in nics:
        in_network(vm_network(holder, nic.namespace), _ready_device)
    switch.vsctl("--no-wait", *render_ports(nics))


def unplug(switch: Switch, holder: int, nics: Sequence[Nic]) -> None:
    """What of them is there is removed, processes inside too: they would keep a namespace alive. Doing it twice is fine."""
    removals = [argument for nic in nics for argument in ("--", "--if-exists", "del-port", BRIDGE, nic.switch_device)]
    switch.vsctl("--no-wait", *removals)
    for nic in nics:
        _end_inside(holder, nic)
    lines = [line for nic in nics for line in render_removal(nic, _devices(holder))]
    lines += [f"netns delete {nic.namespace}" for nic in nics if vm_network(holder, nic.namespace).exists()]
    ip_batch(lines, host_command(holder, []))


def _ready_device() -> None:
    write_sysctls({f"ipv6/conf/{DEVICE}/accept_dad": 0})  # an address that waits for nobody's objection
    checksum_in_software(DEVICE)
    ip_batch(["link set lo up", f"link set {DEVICE} up"])


def _end_inside(holder: int, nic: Nic) -> None:
    try:
        inode = vm_network(holder, nic.namespace).stat().st_ino
    except OSError:
        return
    for pid in processes.read_in_network(inode):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not processes.wait_for_end(pid, processes.STOP_SECONDS):
            raise LabError(f"process {pid} in {nic.vm} does not end")


def _devices(holder: int) -> frozenset[str]:
    """The host's network devices. Not by its /sys, which shows those of the namespace that it was mounted in."""
    return in_network(host_network(holder), lambda: frozenset(name for _, name in socket.if_nameindex()))
