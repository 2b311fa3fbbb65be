"""Chooses the probes of a conversion: from plugged instances to their gateways and neighbours. Pure."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Final

from neutrino.agent.takeover.instance_ports import plugged
from neutrino.dataplane.ovsdb.api import Snapshot
from neutrino.dataplane.probes.api import Probe
from neutrino.feed.state import State
from neutrino.model.state import Forwarding, Network, Port

MOST: Final = 100  # probes of a host
_SERVICES: Final = "network:"  # ports of routers and DHCP: their devices are in namespaces


def choose(state: State, snapshot: Snapshot, bridge: str) -> list[Probe]:
    """For each plugged instance and IP version one to its gateway, and one to a neighbour on another host, if there is one.

    The source is the port's own address: any other one would be dropped, as if the instance had made it up.
    """
    networks: Mapping[str, Network] = state.objects["network"]
    ports: Mapping[str, Port] = state.objects["port"]
    remote: dict[tuple[str, int], str] = {}  # network and IP version → an address on another host
    entries: Mapping[str, Forwarding] = state.objects["forwarding"]
    for entry in entries.values():
        for address in entry.ip_addresses:
            remote.setdefault((entry.network_id, _version(address)), address)
    found = []
    for device, ofport, port_id in plugged(snapshot, bridge):
        port = ports.get(port_id)
        if port is None or port.device_owner.startswith(_SERVICES) or not port.admin_state_up or port.trunk_vlan:
            continue
        for version, address in _addresses(port).items():
            peers = [*_gateways(networks.get(port.network_id), address), remote.get((port.network_id, version), "")]
            found += [
                Probe(device, ofport, port.mac_address, address, peer) for peer in peers if peer and peer != address
            ]
    return sorted(set(found))[:MOST]


def _addresses(port: Port) -> dict[int, str]:
    """The first address of each IP version."""
    return {_version(one.ip_address): one.ip_address for one in reversed(port.fixed_ips)}


def _gateways(network: Network | None, address: str) -> Iterator[str]:
    """Those of the address's subnets; of IPv6 they may be link-local."""
    for subnet in network.subnets if network is not None else ():
        if subnet.gateway_ip and ip_address(address) in ip_network(subnet.cidr):
            yield str(ip_address(subnet.gateway_ip))  # as answers are read, however the server has written it


def _version(address: str) -> int:
    return 6 if ":" in address else 4
