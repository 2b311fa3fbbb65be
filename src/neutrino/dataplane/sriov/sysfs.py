"""What sysfs shows of the virtual functions of a card: PCI slots, and whether the host or an instance has one."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_FUNCTION = re.compile(r"virtfn(\d+)\Z")
_MACVTAP = "upper_macvtap"


class Slot(NamedTuple):
    """A virtual function as sysfs shows it."""

    pci_slot: str
    devices: tuple[str, ...]  # of this host, of the function
    macvtap: str  # the device above it by which an instance has it; empty: there is none


def read_slots(device: str, root: Path = Path("/sys")) -> Mapping[int, Slot]:
    """The virtual functions of a card by their numbers; none if it is no such card."""
    card = root / "class/net" / device / "device"
    try:
        links = [(int(found[1]), path) for path in card.iterdir() if (found := _FUNCTION.match(path.name))]
    except OSError:
        return {}
    return {index: _slot(path) for index, path in links}


def _slot(path: Path) -> Slot:
    devices = _names(path / "net")
    uppers = (name for device in devices for name in _names(path / "net" / device) if name.startswith(_MACVTAP))
    macvtap = next(uppers, "").removeprefix("upper_")
    return Slot(path.resolve().name, devices, macvtap)


def _names(directory: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in directory.iterdir()))
    except OSError:  # none, or the function is being removed
        return ()
