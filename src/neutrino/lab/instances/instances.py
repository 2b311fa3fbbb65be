"""Create, plug, address and delete stand-in instances, with the port handled as Nova does.

Used by the lab for its hosts and by `neutrino vm` for the machine of `neutrino up`.
"""

import contextlib
import os
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TypedDict, Unpack

import msgspec

from neutrino.lab.api_client import ApiClient, ApiError
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import run, vm_command, vm_network
from neutrino.lab.instances import plug
from neutrino.lab.instances.addressing import DhcpClient, NoLease, apply_static, dhcp_subnets
from neutrino.lab.instances.leases import why_no_lease
from neutrino.lab.instances.plug import Vm
from neutrino.lab.settings import VM_NAME, check_vm_name
from neutrino.model.objects import Object, Values
from neutrino.model.trunks import BRIDGE_PREFIX

DEVICE_OWNER = "compute:lab"
PORT_SECONDS = 15.0


class VmOptions(TypedDict, total=False):
    """Options of a new instance; `network` or `port` is required."""

    project: str | None  # id or, with Keystone, name, of the new port; default: the network's
    network: str | None  # name or id, as for port and security groups
    port: str | None  # an existing port
    host: str | None  # default: the host with the fewest instances
    security_groups: Sequence[str] | None
    address: str | None
    dhcp: bool  # false: static addresses from the port
    hybrid: bool  # plug through a Linux bridge, for a hybrid firewall


@dataclass(frozen=True)
class VmRecords:
    """Records of instances: one file each, so that concurrent commands do not overwrite each other's."""

    directory: Path

    def all(self) -> list[Vm]:
        return [msgspec.json.decode(path.read_bytes(), type=Vm) for path in sorted(self.directory.glob("*.json"))]

    def find(self, name: str) -> Vm | None:
        if not VM_NAME.fullmatch(name):  # a name with slashes would be a path to another file
            return None
        path = self._path(name)
        return msgspec.json.decode(path.read_bytes(), type=Vm) if path.exists() else None

    def get(self, name: str) -> Vm:
        found = self.find(name)
        if found is None:
            raise LabError(f"there is no VM {name}")
        return found

    def add(self, vm: Vm) -> None:
        """Add a record; link() fails if a concurrent command has added the name."""
        # Complete under a temporary name first, so that readers never see a partial record.
        draft = self.directory / f".{vm.name}.{vm.device_id}"
        draft.write_bytes(msgspec.json.encode(vm))
        try:
            os.link(draft, self._path(vm.name))  # rename would replace the other's record
        except FileExistsError:
            raise LabError(f"VM {vm.name} exists already") from None
        finally:
            draft.unlink()

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.json"


@dataclass(frozen=True)
class Instances:
    """All instances of one API. `host` returns the host with a name, or raises LabError."""

    api: ApiClient
    vms: VmRecords
    hosts: Sequence[str]
    host: Callable[[str], plug.Host]
    dhcp_clients: Path  # has a directory for each instance
    serves_dhcp: bool = True
    log: Callable[[str], str] = lambda host: "the agent's log"
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    project_id: Callable[[str], str] = lambda project: project  # of a project by name, where names are known

    def create(self, name: str, **options: Unpack[VmOptions]) -> Vm:
        """Create an instance: bind its port, plug it, wait until the port is ACTIVE, address it. Undone on failure."""
        vm = self.define(name, **options)
        try:
            self.plug([name], vm.host)
            self.wait_for_port(vm)
            self.address(name)
        except BaseException:
            with contextlib.suppress(LabError):  # the first error is the one to report
                self.unplug([name], vm.host)
            with contextlib.suppress(LabError):
                self._remove(vm)
            raise
        return vm

    def define(self, name: str, **options: Unpack[VmOptions]) -> Vm:
        """Create or claim the port, bind it, and write the record; the instance is not plugged yet."""
        check_vm_name(name)
        if self.vms.find(name) is not None:
            raise LabError(f"VM {name} exists already")
        host = options.get("host") or self._emptiest_host()
        self.host(host)
        device_id = str(uuid.uuid4())
        binding = {"device_owner": DEVICE_OWNER, "device_id": device_id, "binding:host_id": host}
        owns_port = options.get("port") is None
        port = self._create_port(name, binding, options) if owns_port else self._claim_port(binding, options)
        try:
            vm = Vm(
                name=name,
                host=host,
                port_id=port["id"],
                device_id=device_id,
                mac=port["mac_address"],
                mtu=self.check_bound(port, host),
                owns_port=owns_port,
                hybrid=options.get("hybrid", False) or bool(port["binding:vif_details"].get("ovs_hybrid_plug")),
                dhcp=options.get("dhcp", True),
                **_place(port["binding:vif_details"]),
            )
            self.vms.add(vm)
        except BaseException:
            with contextlib.suppress(LabError):
                self._release_port(port["id"], owns_port)
            raise
        return vm

    def delete(self, name: str) -> None:
        """Delete an instance, and its port if it was created for it; another port is unbound."""
        vm = self.vms.get(name)
        self.unplug([name], vm.host)
        self._remove(vm)

    def _remove(self, vm: Vm) -> None:
        self._release_port(vm.port_id, vm.owns_port)
        self.dhcp(vm.name).remove()
        self.vms.remove(vm.name)

    def plug(self, names: Sequence[str], host: str, *, silent: bool = False) -> None:
        """Plug instances on a host, which is another than their own during live migration; `silent`: not running yet."""
        plug.plug(self.host(host), [self.vms.get(name) for name in names], silent=silent)

    def unplug(self, names: Sequence[str], host: str) -> None:
        plug.unplug(self.host(host), [self.vms.get(name) for name in names])

    def wait_for_port(self, vm: Vm, status: str = "ACTIVE", timeout: float = PORT_SECONDS) -> float:
        """Wait until the instance's port has the status; returns the seconds that it took."""
        if status == "ACTIVE" and not self.api.show("port", vm.port_id)["admin_state_up"]:
            return 0.0  # a disabled port stays DOWN
        return wait_until(
            lambda: bool(self.api.show("port", vm.port_id)["status"] == status),
            timeout,
            f"port {vm.port_id} of {vm.name} on {vm.host} is not {status} (see {self.log(vm.host)})",
        )

    def address(self, name: str) -> None:
        """Configure the addresses and routes of the instance's port: by DHCP where it is served, static elsewhere."""
        vm = self.vms.get(name)
        port = self.api.show("port", vm.port_id)
        subnets = self.api.list("subnet", network_id=port["network_id"])
        leased = dhcp_subnets(port, subnets) if vm.dhcp and self.serves_dhcp and port["admin_state_up"] else []
        network = vm_network(self.host(vm.host).holder, vm.namespace)
        apply_static(network, port, subnets, {subnet["id"] for subnet in leased})
        if leased:
            try:
                self.dhcp(name).lease(leased)
            except NoLease as error:
                raise LabError(f"{name}: {error}: {why_no_lease(self.api, port, self.log)}") from None

    def dhcp(self, name: str) -> DhcpClient:
        def run_inside(argv: Sequence[str]) -> object:
            return run(self.command(name, argv), env=self.environment, shown=f"{name}: {' '.join(argv)}")

        return DhcpClient(self.dhcp_clients / name, run_inside)

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` inside an instance."""
        vm = self.vms.get(name)
        return vm_command(self.host(vm.host).holder, vm.namespace, argv)

    def describe(self, vm: Vm) -> str:
        """The instance's addresses and port status, for the command line."""
        port = self.api.show("port", vm.port_id)
        addresses = ", ".join(fixed["ip_address"] for fixed in port["fixed_ips"]) or "no address"
        return f"{addresses}, port {vm.port_id} {port['status']}"

    def _emptiest_host(self) -> str:
        counts = Counter(vm.host for vm in self.vms.all())
        return min(self.hosts, key=lambda host: counts[host])

    # --- the port, as Nova handles it -----------------------------------------------------------------------------

    def _create_port(self, name: str, binding: Mapping[str, str], options: VmOptions) -> Object:
        if (network := options.get("network")) is None:
            raise LabError(f"VM {name} needs a network or a port")
        project = options.get("project")
        wanted = {"project_id": self.project_id(project)} if project else {}
        found = self.api.find("network", network, **wanted)
        owner = wanted or {"project_id": found["project_id"]}
        values: Object = {"network_id": found["id"], **owner, "name": name}
        if (groups := options.get("security_groups")) is not None:
            values["security_groups"] = [self.api.find("security_group", group, **owner)["id"] for group in groups]
        if (address := options.get("address")) is not None:
            values["fixed_ips"] = [{"ip_address": address}]
        return self.api.create("port", **values, **binding)

    def _claim_port(self, binding: Mapping[str, str], options: VmOptions) -> Object:
        found = self.api.find("port", options["port"] or "")
        if found["device_id"]:
            owner = found["device_owner"] or "device"
            raise LabError(f"port {options['port']} is in use by {owner} {found['device_id']}")
        return self.api.update("port", found["id"], **binding)

    def _release_port(self, port_id: str, owned: bool) -> None:
        """Delete the port, or unbind one that existed before. It may have been deleted meanwhile."""
        try:
            if owned:
                self.api.delete("port", port_id)
            else:
                self.api.update("port", port_id, **{"device_owner": "", "device_id": "", "binding:host_id": ""})
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def check_bound(self, port: Object, host: str) -> int:
        """The MTU for the port's device, or LabError if the port is not bound to the host."""
        network = self.api.show("network", port["network_id"])
        if port["binding:vif_type"] in ("unbound", "binding_failed"):
            raise LabError(
                f"port {port['id']} cannot be bound to {host}: its agent is not alive or does not support network "
                f"{network['name'] or network['id']} (type {network.get('provider:network_type', 'of several segments')})"
            )
        return int(network["mtu"])


def _place(vif_details: Values) -> dict[str, str]:
    """The bridge that the device is plugged into, if the binding names a trunk's."""
    name = vif_details.get("bridge_name", "")
    if not name.startswith(BRIDGE_PREFIX):
        return {}
    return {"switch_bridge": name, "datapath_type": vif_details.get("datapath_type", "")}
