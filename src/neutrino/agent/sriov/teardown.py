"""Gives back what the agent has set on this host's cards, by its record. Blocking, idempotent."""

import dataclasses
import logging

from neutrino.agent.sriov import fdb
from neutrino.agent.sriov.config import SriovOptions
from neutrino.agent.sriov.plan import cut, plan, released
from neutrino.agent.sriov.record import RecordFile
from neutrino.dataplane.sriov.api import SetFunction, Sriov, SriovError

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RemoveForwarding:
    """A forwarding entry that the agent has added to a card."""

    device: str
    mac: str

    def text(self) -> str:
        return fdb.text(self.device, self.mac, is_new=False)


CardChange = SetFunction | RemoveForwarding


@dataclasses.dataclass(frozen=True)
class CardTeardown:
    sriov: Sriov
    file: RecordFile
    options: SriovOptions

    def plan(self) -> list[CardChange]:
        """Resets of the agent's functions; those that instances still have are cut."""
        record, changes = self.file.read(), list[CardChange]()
        cards = self.sriov.read(self.options.devices) if record.functions else {}
        for device, card in cards.items():
            unsupported = record.unsupported.get(device, ())
            for function in card.functions:
                entry = record.functions.get(function.pci_slot)
                if entry is not None and not self.options.is_excluded(device, function.pci_slot):
                    target = cut if function.instance_mac == entry.mac else released
                    actual = function.settings
                    changes += plan(device, function.index, target(actual), actual, unsupported)
        for device, macs in sorted(record.forwarded.items()):
            changes += [RemoveForwarding(device, mac) for mac in sorted(macs)]
        return changes

    def functions(self) -> tuple[list[str], list[str]]:
        """The PCI slots of the agent's functions that instances have, and of those that no card has."""
        record = self.file.read()
        cards = self.sriov.read(self.options.devices) if record.functions else {}
        there = {each.pci_slot: each for card in cards.values() for each in card.functions}
        used = [
            slot for slot, entry in record.functions.items() if slot in there and there[slot].instance_mac == entry.mac
        ]
        return sorted(used), sorted(record.functions.keys() - there)

    def apply(self, change: CardChange) -> None:
        """SriovError if it is refused."""
        if isinstance(change, SetFunction):
            self.sriov.set(change)
        else:
            self.sriov.unforward(change.device, change.mac)


def tear_down(cards: CardTeardown) -> None:
    """Apply all of it; what is refused is logged, and the record is forgotten."""
    for change in cards.plan():
        try:
            cards.apply(change)
        except SriovError as error:
            LOG.warning("%s", error)
    cards.file.forget()
