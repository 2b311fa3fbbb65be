"""Stand-in instances: network namespaces that are created, plugged, addressed and deleted as Nova does with VMs.

The lab has them on its hosts, and `neutrino up` on this machine. What both need to know of a host is a process in its
namespaces and its ovs-vsctl (`Host`).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypedDict, Unpack

from neutrino.lab import dhcp_client, plug, vm_port
from neutrino.lab.addressing import apply_static
from neutrino.lab.api import Api
from neutrino.lab.dhcp_client import DhcpClient
from neutrino.lab.enter import run, vm_command, vm_network
from neutrino.lab.errors import LabError
from neutrino.lab.settings import check_vm_name, vm_namespace
from neutrino.lab.vms import Vm, Vms
from neutrino.lab.waiting import wait_until

PORT_SECONDS = 15.0


class Host(Protocol):
    """A host as instances see it."""

    @property
    def holder(self) -> int:
        """A process in the host's network and mount namespaces."""

    def vsctl(self, *arguments: str) -> str: ...


class Wanted(TypedDict, total=False):
    """An instance as it is asked for: `network` or `port` is required, the rest has defaults."""

    network: str | None  # by name or id, as all of these
    port: str | None  # an existing one, in place of a network
    host: str | None  # by default the one with the fewest instances
    security_groups: Sequence[str] | None
    address: str | None
    dhcp: bool  # false: the addresses are taken from the port
    hybrid: bool  # through a Linux bridge of its own, for a hybrid firewall


@dataclass(frozen=True)
class Instances:
    """All instances behind one API. `host` finds one of `hosts` by its name, or raises LabError."""

    api: Api
    vms: Vms
    hosts: Sequence[str]
    host: Callable[[str], Host]
    dhcp_clients: Path  # a directory for each instance that has one
    serves_dhcp: bool = True
    log: Callable[[str], str] = lambda host: "the agent's log"
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def create(self, name: str, *, wait: bool = True, **options: Unpack[Wanted]) -> Vm:
        """An instance on a network, or with an existing port: bound, plugged, ACTIVE and addressed.

        With `wait` false it is only bound and plugged. What fails half-way is undone.
        """
        vm = self.define(name, **options)
        try:
            self.plug([name], vm.host)
            if wait:
                self.wait_for_port(vm)
                self.address(name)
        except BaseException:
            _quietly(lambda: self.unplug([name], vm.host))
            _quietly(lambda: self._forget(vm))
            raise
        return vm

    def define(self, name: str, **options: Unpack[Wanted]) -> Vm:
        """Its port, bound, and its record; not plugged yet."""
        check_vm_name(name)
        if self.vms.find(name) is not None:
            raise LabError(f"there is a VM {name} already")
        host = options.get("host") or self._emptiest_host()
        self.host(host)
        port = options.get("port")
        device_id = str(uuid.uuid4())
        if port is not None:
            bound = vm_port.take(self.api, port, host, device_id)
        else:
            network, groups = options.get("network"), options.get("security_groups")
            bound = vm_port.make(self.api, name, network, host, device_id, groups, options.get("address"))
        try:
            vm = Vm(
                name=name,
                host=host,
                port_id=bound["id"],
                device_id=device_id,
                mac=bound["mac_address"],
                mtu=vm_port.check_bound(self.api, bound, host),
                owns_port=port is None,
                hybrid=options.get("hybrid", False) or vm_port.is_hybrid(bound),
                dhcp=options.get("dhcp", True),
            )
            self.vms.add(vm)
        except BaseException:
            _quietly(lambda: vm_port.release(self.api, bound["id"], port is None))
            raise
        return vm

    def delete(self, name: str) -> None:
        """With the port, if it was made for the instance; another one is left unbound."""
        vm = self.vms.get(name)
        self.unplug([name], vm.host)
        self._forget(vm)

    def _forget(self, vm: Vm) -> None:
        vm_port.release(self.api, vm.port_id, vm.owns_port)
        self.dhcp(vm.name).forget()
        self.vms.remove(vm.name)

    def move(self, name: str, host: str) -> Vm:
        """Cold migration: unplugged, bound to the other host, plugged there."""
        self.host(host)
        vm = self.vms.get(name)
        self.unplug([name], vm.host)
        bound = self.api.update("port", vm.port_id, **{"binding:host_id": host})
        vm_port.check_bound(self.api, bound, host)
        moved = self.settle(name, host)
        self.plug([name], host)
        self.wait_for_port(moved)
        self.address(name)
        return moved

    def settle(self, name: str, host: str) -> Vm:
        """Record the host that the instance is on from now on, as at the end of a live migration."""
        moved = replace(self.vms.get(name), host=host)
        self.vms.replace(moved)
        return moved

    def plug(self, names: Sequence[str], host: str) -> None:
        """Namespaces and devices of instances on a host, plugged: their own host, or one that they are to migrate to."""
        where = self.host(host)
        plug.plug(where, where.holder, [self.vms.get(name).nic for name in names])

    def unplug(self, names: Sequence[str], host: str) -> None:
        where = self.host(host)
        plug.unplug(where, where.holder, [self.vms.get(name).nic for name in names])

    def wait_for_port(self, vm: Vm, status: str = "ACTIVE", timeout: float = PORT_SECONDS) -> float:
        """Until the instance's port has the status; the seconds that it took."""
        if status == "ACTIVE" and not self.api.show("port", vm.port_id)["admin_state_up"]:
            return 0.0  # it never will
        return wait_until(
            lambda: bool(self.api.show("port", vm.port_id)["status"] == status),
            timeout,
            f"port {vm.port_id} of {vm.name} on {vm.host} is not {status} (see {self.log(vm.host)})",
        )

    def address(self, name: str) -> None:
        """Give the instance the addresses and routes of its port: by DHCP where it is served, from the port where not."""
        vm = self.vms.get(name)
        port = self.api.show("port", vm.port_id)
        subnets = self.api.list("subnet", network_id=port["network_id"])
        given, ipv6_prefix = frozenset[str](), None
        if vm.dhcp and self.serves_dhcp and port["admin_state_up"]:
            given, ipv6_prefix = dhcp_client.asks(port, subnets)
        apply_static(vm_network(self.host(vm.host).holder, vm_namespace(name)), port, subnets, given)
        if given:
            ipv4 = any(s["id"] in given and s["ip_version"] == 4 for s in subnets)
            self.dhcp(name).lease(ipv4=ipv4, ipv6_prefix=ipv6_prefix)

    def dhcp(self, name: str) -> DhcpClient:
        """The instance's DHCP clients."""
        return DhcpClient(self.dhcp_clients / name, lambda argv: self.run(name, argv).stdout)

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """The command, to be run inside an instance."""
        vm = self.vms.get(name)
        return vm_command(self.host(vm.host).holder, vm_namespace(name), argv)

    def run(self, name: str, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return run(name, argv, self.command(name, argv), self.environment)

    def _emptiest_host(self) -> str:
        counts = Counter(vm.host for vm in self.vms.all())
        return min(self.hosts, key=lambda host: counts[host])


def _quietly(undo: Callable[[], None]) -> None:
    """The first error is the one to report."""
    with contextlib.suppress(LabError):
        undo()
