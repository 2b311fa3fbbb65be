"""Gives back what the agent has set on this host's cards, by its record. Blocking, idempotent."""

import logging

from neutrino.agent.sriov.config import SriovOptions
from neutrino.agent.sriov.plan import cut, plan, released
from neutrino.agent.sriov.record import RecordFile
from neutrino.dataplane.sriov.api import Function, SetFunction, Sriov, SriovError

LOG = logging.getLogger(__name__)


def plan_teardown(sriov: Sriov, file: RecordFile, options: SriovOptions) -> list[SetFunction]:
    """The changes that reset the agent's functions; those that instances still have are cut."""
    record, changes = file.read(), list[SetFunction]()
    for device, card in sriov.read(options.devices).items():
        unsupported = record.unsupported.get(device, ())
        for function in card.functions:
            entry = record.functions.get(function.pci_slot)
            if entry is not None and not options.is_excluded(device, function.pci_slot):
                target = cut if _is_in_use(function, entry.mac) else released
                changes += plan(device, function.index, target(function.settings), function.settings, unsupported)
    return changes


def tear_down(sriov: Sriov, file: RecordFile, options: SriovOptions) -> None:
    """Reset functions and remove forwarding entries; what is refused is logged, and the record is forgotten."""
    for change in plan_teardown(sriov, file, options):
        try:
            sriov.set(change)
        except SriovError as error:
            LOG.warning("%s", error)
    for device, macs in file.read().forwarded.items():
        for mac in sorted(macs):
            try:
                sriov.unforward(device, mac)
            except SriovError as error:
                LOG.warning("%s", error)
    file.forget()


def _is_in_use(function: Function, mac: str) -> bool:
    return function.instance_mac == mac
