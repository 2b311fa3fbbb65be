"""Records of stand-in instances: one file each, so that concurrent commands do not overwrite each other's."""

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from neutrino.lab.errors import LabError
from neutrino.lab.settings import VM_NAME, vm_namespace


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
        """The device in br-int."""
        return f"qvo{self.port_id[:11]}" if self.hybrid else self.tap


class VmRecords:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def all(self) -> list[Vm]:
        return [self._read(path) for path in sorted(self._directory.glob("*.json"))]

    def find(self, name: str) -> Vm | None:
        if not VM_NAME.fullmatch(name):  # a name with slashes would be a path to another file
            return None
        path = self._path(name)
        return self._read(path) if path.exists() else None

    def get(self, name: str) -> Vm:
        found = self.find(name)
        if found is None:
            raise LabError(f"there is no VM {name}")
        return found

    def add(self, vm: Vm) -> None:
        """Add a record; link() fails if a concurrent command has added the name."""
        # Complete under a temporary name first, so that readers never see a partial record.
        draft = self._directory / f".{vm.name}.{vm.device_id}"
        draft.write_bytes(msgspec.json.encode(vm))
        try:
            os.link(draft, self._path(vm.name))
        except FileExistsError:
            raise LabError(f"VM {vm.name} exists already") from None
        finally:
            draft.unlink()

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _read(self, path: Path) -> Vm:
        return msgspec.json.decode(path.read_bytes(), type=Vm)
