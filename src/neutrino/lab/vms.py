"""Which VMs a lab has: one small file each, so that commands at the same time do not overwrite each other's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from neutrino.lab.errors import LabError
from neutrino.lab.plug import Nic
from neutrino.lab.settings import VM_NAME


@dataclass(frozen=True)
class Vm:
    name: str
    host: str
    port_id: str
    device_id: str
    mac: str
    mtu: int
    owns_port: bool  # whether the port goes with the VM
    hybrid: bool = False
    dhcp: bool = True

    @property
    def nic(self) -> Nic:
        return Nic(self.name, self.device_id, self.port_id, self.mac, self.mtu, self.hybrid)


class Vms:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def all(self) -> list[Vm]:
        return [self._read(path) for path in sorted(self._directory.glob("*.json"))]

    def find(self, name: str) -> Vm | None:
        if not VM_NAME.fullmatch(name):  # else it might lead to another file
            return None
        path = self._path(name)
        return self._read(path) if path.exists() else None

    def get(self, name: str) -> Vm:
        found = self.find(name)
        if found is None:
            raise LabError(f"there is no VM {name}")
        return found

    def add(self, vm: Vm) -> None:
        """Only one can have the name."""
        draft = self._draft(vm)
        try:
            os.link(draft, self._path(vm.name))
        except FileExistsError:
            raise LabError(f"there is a VM {vm.name} already") from None
        finally:
            draft.unlink()

    def replace(self, vm: Vm) -> None:
        self._draft(vm).replace(self._path(vm.name))

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _draft(self, vm: Vm) -> Path:
        """Complete before it has its name."""
        draft = self._directory / f".{vm.name}.{vm.device_id}"
        draft.write_bytes(msgspec.json.encode(vm))
        return draft

    def _read(self, path: Path) -> Vm:
        return msgspec.json.decode(path.read_bytes(), type=Vm)
