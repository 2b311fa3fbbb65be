"""An instance on a vhost-user port, with the port handled as by Nova and os-vif: bound, plugged by the details of its
binding, and then started. Nova starts an instance when the port is ACTIVE: the agent must not wait for the guest.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import host_command
from neutrino.model.objects import Object, Values
from qa.kernel.guest import KernelFiles, boots_with_kvm
from qa.vhost_user.guest import Guest, Interface, initramfs, qemu_arguments
from tests.support.lab_control import Lab

SOON = 60.0
OWNER = "compute:nova"
# The end of the switch, by that of QEMU.
TYPES = {"server": "dpdkvhostuserclient", "client": "dpdkvhostuser"}


@dataclass(frozen=True)
class GuestFiles:
    """What all guests boot."""

    kernel: Path
    ramdisk: Path
    emulated: bool
    consoles: Path  # a directory with a short path, for sockets

    @classmethod
    def made(cls, files: KernelFiles, directory: Path) -> GuestFiles:
        ramdisk = directory / "initramfs.gz"
        ramdisk.write_bytes(initramfs(files))
        return cls(files.image, ramdisk, not boots_with_kvm(files), directory)


def render_plug(port: Values, mtu: int, mode: str) -> list[str]:
    """ovs-vsctl arguments, as os-vif plugs a vhost-user port."""
    details, path = port["binding:vif_details"], PurePosixPath(port["binding:vif_details"]["vhostuser_socket"])
    bridge, name = details["bridge_name"], path.name
    listens = [f"options:vhost-server-path={path}"] if mode == "server" else []
    return [
        *("--may-exist", "add-br", bridge, "--", "set", "Bridge", bridge, f"datapath_type={details['datapath_type']}"),
        *("--", "--may-exist", "add-port", bridge, name, "--", "set", "Interface", name),
        *(f"external_ids:iface-id={port['id']}", "external_ids:iface-status=active"),
        *(f'external_ids:attached-mac="{port["mac_address"]}"', f"external_ids:vm-uuid={port['device_id']}"),
        *(f"type={TYPES[mode]}", *listens, f"mtu_request={mtu}"),
    ]


@dataclass
class Instance:
    lab: Lab
    files: GuestFiles
    name: str
    host: str
    port_id: str
    mode: str = ""  # of QEMU; empty: as the binding says
    _guests: list[Guest] = field(default_factory=list)

    # --- port -----------------------------------------------------------------------------------------------------

    @property
    def port(self) -> Object:
        return self.lab.api.show("port", self.port_id)

    @property
    def device(self) -> str:
        return PurePosixPath(self.port["binding:vif_details"]["vhostuser_socket"]).name

    def address(self, version: int = 4) -> str:
        found = (fixed["ip_address"] for fixed in self.port["fixed_ips"])
        return str(next(text for text in found if (":" in text) == (version == 6)))

    def bind(self) -> None:
        values = {"device_id": str(uuid.uuid4()), "device_owner": OWNER, "binding:host_id": self.host}
        port = self.lab.api.update("port", self.port_id, **values)
        if port["binding:vif_type"] != "vhostuser":
            raise LabError(f"port {self.port_id} is bound as {port['binding:vif_type']} on {self.host}")
        self.mode = self.mode or port["binding:vif_details"]["vhostuser_mode"]

    def plug(self) -> None:
        port = self.port
        mtu = self.lab.api.show("network", port["network_id"])["mtu"]
        self.lab.ovs(self.host).vsctl(*render_plug(port, mtu, self.mode))

    def unplug(self) -> None:
        details = self.port["binding:vif_details"]
        name = PurePosixPath(details["vhostuser_socket"]).name
        self.lab.ovs(self.host).vsctl("--if-exists", "del-port", name)

    def wait_for_status(self, status: str) -> None:
        wait_until(lambda: bool(self.port["status"] == status), SOON, f"the port of {self.name} is not {status}")

    # --- guest ----------------------------------------------------------------------------------------------------

    @property
    def guest(self) -> Guest:
        if not self._guests:
            raise LabError(f"{self.name} does not run")
        return self._guests[-1]

    def start(self) -> None:
        """Start QEMU; `guest.wait_until_booted` waits for the guest."""
        console = self.files.consoles / f"{self.name}.console"
        console.unlink(missing_ok=True)
        port = self.port
        path = port["binding:vif_details"]["vhostuser_socket"]
        interface = Interface(path, self.mode, port["mac_address"])
        files = self.files
        argv = qemu_arguments(files.kernel, files.ramdisk, console, interface, emulated=files.emulated)
        pid = self.lab.processes.start(f"{self.name}-qemu", host_command(self.lab.holder(self.host), argv))
        self._guests.append(Guest(self.name, pid, console, lambda: self.lab.log_tail(f"{self.name}-qemu")))

    def stop(self) -> None:
        if self._guests:
            self._guests.pop().stop()

    def destroy(self) -> None:
        """As Nova deletes an instance: the guest ends, the port is unplugged and released."""
        self.stop()
        self.unplug()
        self.lab.api.update("port", self.port_id, **{"device_id": "", "device_owner": "", "binding:host_id": ""})

    # --- packets --------------------------------------------------------------------------------------------------

    def pings(self, target: str, seconds: int = 15) -> bool:
        """Whether a ping is answered; it returns with the first answer."""
        program = "ping6" if ":" in target else "ping"
        return self.guest.succeeds(f"{program} -c 1 -w {seconds} {target}", seconds=seconds + 30)

    def wait_for_addresses(self) -> None:
        """Until the guest has the addresses of its port: by DHCP, and by the router's advertisements."""
        wanted = [fixed["ip_address"] for fixed in self.port["fixed_ips"]]

        def has_them() -> bool:
            shown = self.guest.run("ip addr show dev eth0 scope global")
            return all(f" {address}/" in shown for address in wanted)

        wait_until(has_them, SOON, f"{self.name} has not {wanted}")


def boot(*instances: Instance) -> Sequence[Instance]:
    """Bind, plug, wait until ACTIVE, start: at once, as guests take their time to boot."""
    for instance in instances:
        instance.bind()
        instance.plug()
    for instance in instances:
        instance.wait_for_status("ACTIVE")
        instance.start()
    for instance in instances:
        instance.guest.wait_until_booted()
    return instances
