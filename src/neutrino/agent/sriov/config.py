"""Options of the SR-IOV role, under the names of sriov_agent.ini."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from oslo_config import cfg

from neutrino.agent import resource_providers
from neutrino.errors import RefusedToStart
from neutrino.model.sriov import is_pci_slot

GROUP: Final = "sriov_nic"
FDB_GROUP: Final = "fdb"
OPTIONS: list[cfg.Opt] = [
    cfg.ListOpt(
        "physical_device_mappings",
        default=[],
        help="SR-IOV cards of physical networks, as physical_network:device. A network may have several cards, and a card "
        "several networks.",
    ),
    cfg.ListOpt(
        "exclude_devices",
        default=[],
        help="Virtual functions that the agent leaves alone, as device:slot;slot, such as ens1:0000:3b:02.0;0000:3b:02.1.",
    ),
    *resource_providers.bandwidth_options(
        "device",
        "What cards can send and receive, as device:egress:ingress in kbit/s, as instances see it, for Placement.",
    ),
]
FDB_OPTIONS: list[cfg.Opt] = [
    cfg.ListOpt(
        "shared_physical_device_mappings",
        default=[],
        help="Cards that a bridge of their physical network uses as well, as physical_network:device. The role sriov adds "
        "forwarding entries for this host's ports on these networks: instances with functions of the card reach them.",
    ),
]


@dataclasses.dataclass(frozen=True)
class SriovOptions:
    mappings: Mapping[str, tuple[str, ...]]  # devices of cards, by physical network
    excluded: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)  # PCI slots, by device
    # Cards of physical networks that a bridge uses as well, and that need forwarding entries for ports behind it.
    shared: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(device for devices in self.mappings.values() for device in devices))

    def networks_of(self, device: str) -> tuple[str, ...]:
        return tuple(network for network, devices in self.mappings.items() if device in devices)

    def is_excluded(self, device: str, pci_slot: str) -> bool:
        return pci_slot in self.excluded.get(device, ())


def sriov_options(conf: cfg.ConfigOpts) -> SriovOptions:
    """The options; RefusedToStart for what cannot work."""
    mappings = _mappings(conf, GROUP, "physical_device_mappings")
    devices = {device for several in mappings.values() for device in several}
    shared = _mappings(conf, FDB_GROUP, "shared_physical_device_mappings")
    return SriovOptions(mappings, _excluded(conf, devices), shared)


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse a start with options that cannot work, and the role without cards."""
    options = sriov_options(conf)
    if not options.devices:
        raise RefusedToStart(f"[{GROUP}] physical_device_mappings is not set: the role sriov needs a card")
    resource_providers.of_devices(conf, GROUP, options.devices, lambda: conf.host)


def _mappings(conf: cfg.ConfigOpts, group: str, option: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in conf[group][option]:
        network, colon, device = (part.strip() for part in text.partition(":"))
        if not colon or not network or not _is_device(device):
            raise RefusedToStart(f"[{group}] {option}: {text!r} is not physical_network:device")
        if device not in found.get(network, ()):
            found[network] = (*found.get(network, ()), device)
    return found


def _is_device(name: str) -> bool:
    """Whether the kernel allows it as a device's name: it becomes part of a path."""
    return 0 < len(name) < 16 and name not in (".", "..") and not any(c in "/:" or c.isspace() for c in name)


def _excluded(conf: cfg.ConfigOpts, devices: set[str]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for text in conf[GROUP].exclude_devices:
        device, colon, slots = (part.strip() for part in text.partition(":"))
        if not colon or not device:
            raise RefusedToStart(f"[{GROUP}] exclude_devices: {text!r} is not device:slot;slot")
        if device not in devices:
            raise RefusedToStart(f"[{GROUP}] exclude_devices: {device} is no device of physical_device_mappings")
        if device in found:
            raise RefusedToStart(f"[{GROUP}] exclude_devices: {text!r} names a device a second time")
        found[device] = frozenset(slot for each in slots.split(";") if (slot := each.strip()))
        if wrong := sorted(slot for slot in found[device] if not is_pci_slot(slot)):
            raise RefusedToStart(f"[{GROUP}] exclude_devices: {wrong[0]!r} is no PCI slot such as 0000:3b:02.1")
    return found
