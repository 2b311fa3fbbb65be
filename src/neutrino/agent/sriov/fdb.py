"""Forwarding entries on cards that a bridge shares with instances' functions, as Neutron's extension `fdb` has them. Pure.

A card delivers frames between its functions itself. A frame from a function to a port behind the bridge of its physical
network would leave by the wire and never return: the card has to know that this MAC is behind its physical function.
"""

from collections.abc import Iterator, Mapping

from neutrino.agent.sriov.desired import HostState
from neutrino.model.sriov import VIF_TYPES
from neutrino.model.state import Port

_OWNERS = ("compute", "network:router_interface")  # DHCP is asked by broadcast, which needs no entry


def wanted(state: HostState, shared: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """MACs behind the physical functions, by device."""
    found: dict[str, set[str]] = {device: set() for devices in shared.values() for device in devices}
    for port in state.ports.values():
        if port.active and port.vif_type not in VIF_TYPES and port.device_owner.startswith(_OWNERS):
            for device in shared.get(_physical_network(port, state), ()):
                found[device].add(port.mac_address.lower())
    return found


def changes(wanted: set[str], there: frozenset[str], added: set[str], *, complete: bool) -> Iterator[tuple[str, bool]]:
    """MACs to add (True) and to remove, of one device. `added`: entries of this agent; others stay."""
    for mac in sorted(wanted - there):
        yield mac, True
    for mac in sorted((added & there) - wanted) if complete else ():
        yield mac, False


def text(device: str, mac: str, *, is_new: bool) -> str:
    return f"{'add' if is_new else 'remove'} forwarding entry {mac} {'to' if is_new else 'from'} {device}"


def _physical_network(port: Port, state: HostState) -> str:
    network = state.networks.get(port.network_id)
    segments = network.segments if network is not None else ()
    return next((each.physical_network or "" for each in segments if each.id == port.segment_id), "")
