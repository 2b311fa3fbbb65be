"""Which function of which card each port has now, and which functions have lost their ports. Pure."""

import dataclasses
from collections.abc import Iterator, Mapping

from neutrino.agent.sriov.config import SriovOptions
from neutrino.agent.sriov.desired import HostState, NotWired, Wanted, render
from neutrino.agent.sriov.record import Entry
from neutrino.dataplane.sriov.api import Card, Function
from neutrino.model.sriov import PHYSICAL_FUNCTION


@dataclasses.dataclass(frozen=True)
class Place:
    """A function, and the device of its card."""

    device: str
    function: Function

    def text(self) -> str:
        return f"VF {self.function.pci_slot} of {self.device}"


@dataclasses.dataclass(frozen=True)
class Assignment:
    wanted: Mapping[str, tuple[Wanted, Place]]  # ports whose instances have their functions, by id
    waiting: Mapping[str, Place]  # ports whose functions are no instance's, or another MAC's
    problems: Mapping[str, str]  # why a port cannot have its function, by id
    missing: Mapping[str, str]  # cards that are not there, by device, with the reason
    places: Mapping[str, Place]  # all functions of this role, by PCI slot


@dataclasses.dataclass(frozen=True)
class Left:
    """A function that was set for a port which is not here any more, or which does not have it any more."""

    place: Place
    is_in_use: bool  # the port's instance still has it


def assign(state: HostState, cards: Mapping[str, Card], options: SriovOptions) -> Assignment:
    places = {
        function.pci_slot: Place(device, function)
        for device in options.devices
        for function in (cards[device].functions if device in cards else ())
        if not options.is_excluded(device, function.pci_slot)
    }
    wanted: dict[str, tuple[Wanted, Place]] = {}
    waiting: dict[str, Place] = {}
    problems: dict[str, str] = {}
    taken: dict[str, str] = {}
    for port in state.function_ports:
        try:
            one = render(port, state)
            place = _place(one, places, options)
            if place.function.instance_mac != one.mac:
                waiting[port.id] = place
                continue
            if one.pci_slot in taken:
                raise NotWired(f"{place.text()} is port {taken[one.pci_slot]}'s, which has the same MAC")
        except NotWired as error:
            problems[port.id] = str(error)
            continue
        taken[one.pci_slot] = port.id
        wanted[port.id] = one, place
    return Assignment(wanted, waiting, problems, _missing(state, cards, options), places)


def left(functions: Mapping[str, Entry], state: HostState, assignment: Assignment) -> Iterator[Left]:
    """Recorded functions without a port. That of a port which is bound here is not touched because of a problem."""
    assigned = {place.function.pci_slot for _, place in assignment.wanted.values()}
    bound = {port.id for port in state.function_ports}
    for slot, entry in sorted(functions.items()):
        place = assignment.places.get(slot)
        if place is not None and slot not in assigned:
            is_in_use = place.function.instance_mac == entry.mac
            if not is_in_use or entry.port_id not in bound:
                yield Left(place, is_in_use)


def _place(one: Wanted, places: Mapping[str, Place], options: SriovOptions) -> Place:
    place = places.get(one.pci_slot)
    if place is None:
        raise NotWired(f"there is no VF {one.pci_slot} of a device of physical_device_mappings, or it is excluded")
    networks = options.networks_of(place.device)
    if one.physical_network not in networks:
        found = ", ".join(networks)
        raise NotWired(f"{place.text()} is on physical network {found}, and its segment on {one.physical_network}")
    return place


def _missing(state: HostState, cards: Mapping[str, Card], options: SriovOptions) -> dict[str, str]:
    """Cards that are not there, and that no instance has: one with a whole card takes its device from the host."""
    absent = [device for device in options.devices if device not in cards]
    whole = sum(port.active and port.vif_type == PHYSICAL_FUNCTION for port in state.ports.values())
    return {} if len(absent) <= whole else dict.fromkeys(absent, "there is no such device on this host")
