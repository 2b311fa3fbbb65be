"""Ports of SR-IOV cards: their VIF types, and what Nova and operators write into binding profiles. Pure."""

import re
from typing import Final

VIRTUAL_FUNCTION, PHYSICAL_FUNCTION = "hw_veb", "hostdev_physical"
VIF_TYPES: Final = frozenset({VIRTUAL_FUNCTION, PHYSICAL_FUNCTION})
"""VIF types of ports that no switch of the host wires: instances have functions of a card."""

_PCI_SLOT: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_TRUE: Final = frozenset({"1", "t", "true", "on", "y", "yes"})  # as Nova reads it


def is_pci_slot(text: str) -> bool:
    """Whether this is a PCI address as sysfs and Nova write it, such as 0000:3b:02.1."""
    return _PCI_SLOT.match(text) is not None


def is_true(value: object) -> bool:
    """A boolean of a binding profile, which operators write as text as well."""
    return value is True or (isinstance(value, str) and value.strip().lower() in _TRUE)
