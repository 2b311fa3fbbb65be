"""The subnets of a routed network that a port on a host may have addresses from (`ipam/routed.py`).

A host is connected to a segment if one of its agents has reported a mapping of the segment's physical network. A dead agent
counts too: what a host is connected to does not depend on whether it is up.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.hosts.registry import Registry
from neutrino.server.ipam import routed
from neutrino.server.ml2.driver_api import Segment
from neutrino.server.ml2.segments import read_segments

# What agents report of the physical networks of their hosts.
MAPPINGS = ("bridge_mappings", "interface_mappings", "device_mappings")
SWITCHES = (words.OVS, words.NIC_SWITCH)
WITH_MAPPINGS = (*SWITCHES, words.BARE_METAL)


def reached_segments(segments: Sequence[Segment], configurations: Sequence[Values]) -> frozenset[str]:
    """The ids of the segments that a host is connected to, by its agents' configurations. Pure."""
    mappings = (one.get(name) for one in configurations for name in MAPPINGS)
    reached = {name for mapping in mappings if isinstance(mapping, Mapping) for name in mapping}
    return frozenset(s.id for s in segments if s.physical_network is not None and s.physical_network in reached)


def reached_by_host(connection: Connection, registry: Registry, network_id: str, host: str) -> frozenset[str]:
    """The segments of the network that the host is connected to."""
    segments = read_segments(connection, [network_id])[network_id]
    agents = registry.agents_on(connection, host)
    return reached_segments(segments, [a["configurations"] for a in agents if a["agent_type"] in WITH_MAPPINGS])


def usable_subnets(
    connection: Connection,
    registry: Registry,
    subnets: Sequence[Values],
    host: str,
    requested: Sequence[Values] | None,
    *,
    lenient: bool = False,
) -> Sequence[Values] | None:
    """The subnets for the addresses of a port, of all those of its network; None if its addresses are deferred.

    `lenient`: a port of a service, whose host is chosen by the server. Requested addresses are given wherever the host is,
    and others deferred if it is not on one segment of the network.
    """
    if not routed.is_routed(subnets) or requested == []:
        return subnets
    if host and not (lenient and requested):
        try:
            reached = reached_by_host(connection, registry, subnets[0]["network_id"], host)
            return routed.subnets_of_host(subnets, host, reached)
        except (errors.HostNotConnectedToAnySegment, errors.HostConnectedToMultipleSegments):
            if not lenient:
                raise
    return routed.subnets_of_request(subnets, requested) if requested else None


def check_host(connection: Connection, registry: Registry, port: Values, subnets: Sequence[Values], host: str) -> None:
    """Refuse another host for a port with addresses of a segment that the host is not on."""
    if not routed.is_routed(subnets):
        return
    usable = usable_subnets(connection, registry, subnets, host, None) or ()
    ids = {subnet["id"] for subnet in usable}
    if any(fixed["subnet_id"] not in ids for fixed in port["fixed_ips"]):
        raise errors.HostNotCompatibleWithFixedIps(host=host, port_id=port["id"])
