"""Resource providers that Placement should have of an agent, by what it has reported. Pure.

    compute node              Nova's, the root
      agent                   inventories of packet rates
        device                inventories of bandwidth; traits of its physical network and of VNIC types

Ids and names are Neutron's, so those that it has made are kept, with what is allocated on them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated

import msgspec

from neutrino.model.objects import Object, Values
from neutrino.server.ml2.driver_api import ResourceProviders
from neutrino.server.placement import TUNNEL_TRAIT, networks, physical_network_trait, vnic_type_trait

MAX_DEVICES = 100  # of a host: what a report costs is bounded
LARGEST = 2**31 - 1
Rate = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)] | None
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
BANDWIDTH_CLASSES = {"egress": "NET_BW_EGR_KILOBIT_PER_SEC", "ingress": "NET_BW_IGR_KILOBIT_PER_SEC"}
PACKET_CLASSES = {
    "egress": "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "ingress": "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    "any": "NET_PACKET_RATE_KILOPACKET_PER_SEC",
}
OUR_CLASSES = frozenset({*BANDWIDTH_CLASSES.values(), *PACKET_CLASSES.values()})
_Unit = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]


class BadReport(ValueError):
    """What an agent has reported cannot be in Placement."""


@dataclass(frozen=True)
class InventoryValues:
    allocation_ratio: Annotated[float, msgspec.Meta(gt=0, le=LARGEST)] = 1.0
    max_unit: _Unit = LARGEST
    min_unit: _Unit = 1
    reserved: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)] = 0
    step_size: _Unit = 1


@dataclass(frozen=True)
class Reported:
    """The part of an agent's configurations that is for Placement."""

    resource_provider_bandwidths: dict[Name, dict[str, Rate]] = field(default_factory=dict)
    resource_provider_inventory_defaults: InventoryValues = InventoryValues()
    resource_provider_packet_processing_without_direction: dict[Name, dict[str, Rate]] = field(default_factory=dict)
    resource_provider_packet_processing_with_direction: dict[Name, dict[str, Rate]] = field(default_factory=dict)
    resource_provider_packet_processing_inventory_defaults: InventoryValues = InventoryValues()
    resource_provider_hypervisors: dict[Name, Name] = field(default_factory=dict)
    tunnelled_network_rp_name: str = "rp_tunnelled"


@dataclass(frozen=True)
class Provider:
    id: str
    name: str
    parent: str | None  # None: the compute node
    traits: frozenset[str]
    inventories: Mapping[str, Values]  # by resource class


@dataclass(frozen=True)
class Tree:
    """The providers of an agent below one compute node, parents first."""

    hypervisor: str
    support: ResourceProviders
    providers: tuple[Provider, ...] = ()

    def is_ours(self, provider_id: str, name: str) -> bool:
        """Whether a provider is one of this agent's, of now or before, by its id, which follows from its name."""
        first = f"{self.hypervisor}:{self.support.agent_type}"
        if name == first:
            return provider_id == self.support.of_agent(self.hypervisor)
        device = name.removeprefix(f"{first}:")
        return device != name and provider_id == self.support.of_device(self.hypervisor, device)


def parse(configurations: Object) -> Reported:
    """Raises BadReport: a host may report anything."""
    try:
        found = msgspec.convert(configurations, Reported)
    except msgspec.ValidationError as why:
        raise BadReport(str(why)) from None
    if len(found.resource_provider_bandwidths) + len(_packets(found)) > MAX_DEVICES:
        raise BadReport(f"more than {MAX_DEVICES} devices")
    return found


def trees(support: ResourceProviders, host: str, configurations: Object) -> list[Tree]:
    """One for each compute node of the agent; without any, that of the host's name, where there may be old providers."""
    reported = parse(configurations)
    hypervisors = reported.resource_provider_hypervisors
    names = {hypervisors.get(device, host) for device in reported.resource_provider_bandwidths} | _packets(
        reported
    ).keys()
    return [
        _tree(support, name, host, reported, configurations) for name in sorted(names or {*hypervisors.values(), host})
    ]


def _tree(support: ResourceProviders, hypervisor: str, host: str, reported: Reported, configurations: Object) -> Tree:
    vnic_types = frozenset(map(vnic_type_trait, support.vnic_types))
    agent = support.of_agent(hypervisor)
    first = f"{hypervisor}:{support.agent_type}"
    packets = _packets(reported).get(hypervisor, {})
    values = reported.resource_provider_packet_processing_inventory_defaults
    devices = [
        Provider(
            support.of_device(hypervisor, device),
            f"{first}:{device}",
            agent,
            vnic_types | _network_traits(device, reported, configurations.get(support.mappings)),
            _inventories(rates, BANDWIDTH_CLASSES, reported.resource_provider_inventory_defaults),
        )
        for device, rates in sorted(reported.resource_provider_bandwidths.items())
        if reported.resource_provider_hypervisors.get(device, host) == hypervisor
    ]
    inventories = _inventories(packets, PACKET_CLASSES, values)
    if not devices and not inventories:
        return Tree(hypervisor, support)
    return Tree(hypervisor, support, (Provider(agent, first, None, vnic_types, inventories), *devices))


def _packets(reported: Reported) -> Mapping[str, Mapping[str, int | None]]:
    return (
        reported.resource_provider_packet_processing_without_direction
        or reported.resource_provider_packet_processing_with_direction
    )


def _inventories(
    rates: Mapping[str, int | None], classes: Mapping[str, str], values: InventoryValues
) -> dict[str, Values]:
    """Without a rate, or with 0, there is no inventory: Placement knows no empty ones."""
    return {
        classes[name]: {**asdict(values), "total": total} for name, total in rates.items() if total and name in classes
    }


def _network_traits(device: str, reported: Reported, mappings: object) -> frozenset[str]:
    found = {physical_network_trait(network) for network, one in networks(mappings) if one == device}
    return frozenset(found | ({TUNNEL_TRAIT} if device == reported.tunnelled_network_rp_name else set()))


def claims_other_host(hypervisor: str, host: str) -> bool:
    """Whether a compute node has not the name of the host: then it must not be that of another host."""
    return hypervisor.partition(".")[0] != host.partition(".")[0]
