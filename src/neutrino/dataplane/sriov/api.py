"""The driver of SR-IOV cards: their virtual functions and forwarding entries as values, changes, and the protocol.

A card is the device of a physical function. The kernel sets one setting of a function at a time, by the device of its
card; a card's driver may refuse each of them, for good or for now.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Protocol

DEAD_VLAN = 4095  # reserved by 802.1Q: no switch port forwards it
NO_MAC = "00:00:00:00:00:00"


class SriovError(Exception):
    """The kernel or a driver has refused a request; `is_unsupported`: the driver does not have the setting."""

    def __init__(self, text: str, *, is_unsupported: bool = False) -> None:
        super().__init__(text)
        self.is_unsupported = is_unsupported


class LinkState(IntEnum):
    """The link as an instance sees it, by the kernel's numbers."""

    AUTO = 0  # as that of the card
    ENABLE = 1
    DISABLE = 2  # no packet passes


class Setting(StrEnum):
    """What is set at a time; the names are for messages."""

    LINK_STATE = "link state"
    VLAN = "VLAN"
    SPOOF_CHECK = "spoof check"
    TRUST = "trust"
    MAX_RATE = "maximum rate"
    MIN_RATE = "minimum rate"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a function; None: the card's driver does not tell. The defaults are those of an unused function."""

    vlan: int = 0  # 0: frames are not tagged
    spoof_check: bool | None = True
    trust: bool | None = False
    link_state: LinkState = LinkState.AUTO
    max_rate: int = 0  # Mbit/s that it may send; 0: as much as it can
    min_rate: int = 0


@dataclasses.dataclass(frozen=True)
class Function:
    """A virtual function."""

    index: int  # as the card counts them
    pci_slot: str
    # Of the instance that has it: the card's for the function where the host has no device of it, or that of a macvtap
    # device above it. Empty: it is a device of this host.
    instance_mac: str = ""
    settings: Settings = dataclasses.field(default_factory=Settings)


@dataclasses.dataclass(frozen=True)
class Card:
    device: str
    functions: tuple[Function, ...] = ()


@dataclasses.dataclass(frozen=True)
class SetFunction:
    """Gives a function one setting. Of the rates the kernel sets both: `other` is the one that stays."""

    device: str
    index: int
    setting: Setting
    value: int
    other: int = 0

    def text(self) -> str:
        value: object = self.value
        if self.setting is Setting.LINK_STATE:
            value = LinkState(self.value).name.lower()
        elif self.setting in (Setting.SPOOF_CHECK, Setting.TRUST):
            value = "on" if self.value else "off"
        elif self.setting is not Setting.VLAN:
            value = f"{self.value} Mbit/s" if self.value else "none"
        return f"set {self.setting} of VF {self.index} of {self.device} to {value}"


class LinkEvents(Protocol):
    """Notifications of the kernel that some device has changed; readable when there are any."""

    def fileno(self) -> int: ...

    def drain(self) -> None:
        """Forget those that have arrived."""
        ...

    def close(self) -> None: ...


class Sriov(Protocol):
    """All calls may block for some milliseconds, and may be made from any thread."""

    def read(self, devices: Iterable[str]) -> Mapping[str, Card]:
        """The cards that are there, with their functions."""
        ...

    def set(self, change: SetFunction) -> None:
        """SriovError with the reason if it is refused."""
        ...

    def forwarded(self, device: str) -> frozenset[str]:
        """Unicast MACs whose frames the card delivers to its physical function, beside its own."""
        ...

    def forward(self, device: str, mac: str) -> None:
        """No error if it is so."""
        ...

    def unforward(self, device: str, mac: str) -> None:
        """No error if it is so."""
        ...

    def watch(self) -> LinkEvents: ...
