"""Binding of ports by what Placement has allocated for them. Pure.

Nova writes the resource providers of a port's minimums into `binding:profile` as `allocation`. The port is then bound by
the driver whose agent has these providers, to a segment of their devices: another uplink would not keep its minimum.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from neutrino.model import agents as words
from neutrino.model.objects import Object, Values
from neutrino.server.ml2.driver_api import HasProviders, PortToBind, ResourceProviders, Segment
from neutrino.server.placement import ALLOCATION, networks


@dataclass(frozen=True)
class _Provided:
    """The providers of one agent."""

    agent: Collection[str]  # its own, by compute node
    devices: Mapping[str, str]  # devices by provider


def allocated(profile: Values) -> frozenset[str]:
    """The providers on which something is allocated for a port; none for a form that Nova does not write."""
    allocation = profile.get(ALLOCATION)
    return frozenset(map(str, allocation.values())) if isinstance(allocation, Mapping) else frozenset()


def restricted(port: PortToBind, driver: object) -> PortToBind | None:
    """The port as a driver may bind it; None: not at all. Drivers without providers get the profile, and decide."""
    wanted = allocated(port.profile)
    if not wanted or not isinstance(driver, HasProviders):
        return port
    support = driver.providers
    for agent in port.agents:
        if agent["agent_type"] != support.agent_type:
            continue
        provided = _provided(support, agent["host"], agent["configurations"])
        if wanted <= {*provided.agent, *provided.devices}:
            devices = frozenset(provided.devices[one] for one in wanted if one in provided.devices)
            return replace(port, agents=[agent], segments=_segments(port, support, agent["configurations"], devices))
    return None


def _provided(support: ResourceProviders, host: str, configurations: Object) -> _Provided:
    hypervisors = _mapping(configurations, words.PROVIDER_HYPERVISORS)
    devices = [str(device) for device in _mapping(configurations, words.PROVIDED_BANDWIDTHS)]
    of_devices = {device: str(hypervisors.get(device, host)) for device in devices}
    packets = {**_mapping(configurations, words.PROVIDED_PACKETS)}
    packets |= _mapping(configurations, words.PROVIDED_PACKETS_BY_DIRECTION)
    compute_nodes = {*of_devices.values(), *map(str, packets)}
    return _Provided(
        [support.of_agent(name) for name in compute_nodes],
        {support.of_device(hypervisor, device): device for device, hypervisor in of_devices.items()},
    )


def _segments(
    port: PortToBind, support: ResourceProviders, configurations: Object, devices: Collection[str]
) -> list[Segment]:
    """Those that the devices carry; all, if only packets are allocated: the switch counts them on all networks."""
    if not devices:
        return list(port.segments)
    carried = {network for network, device in networks(configurations.get(support.mappings)) if device in devices}
    tunnels = configurations.get(words.TUNNELLED_PROVIDER, "rp_tunnelled") in devices
    return [
        one for one in port.segments if (tunnels if one.physical_network is None else one.physical_network in carried)
    ]


def _mapping(configurations: Object, key: str) -> Mapping[str, object]:
    value = configurations.get(key)
    return value if isinstance(value, Mapping) else {}
