"""Routed networks: their subnets belong to segments, and a port gets addresses on the segment of its host. Pure.

    the port has        and                        it gets
    no host             no requested addresses     none yet: they are deferred until it has a host
    no host             requested addresses        these, all of one segment
    a host              on one segment             addresses of that segment's subnets

On subnets of different segments a port reaches the others through the gateway of its subnet, by a host route for each.
"""

import ipaddress
from collections.abc import Collection, Sequence

from neutrino.model.objects import Values
from neutrino.server import errors

Route = dict[str, str]  # destination and nexthop
IMMEDIATE, DEFERRED, NONE = "immediate", "deferred", "none"  # values of a port's ip_allocation


def is_routed(subnets: Sequence[Values]) -> bool:
    return any(subnet["segment_id"] is not None for subnet in subnets)


# --- subnets of ports -------------------------------------------------------------------------------------------------


def subnets_of_host(subnets: Sequence[Values], host: str, reached: Collection[str]) -> list[Values]:
    """The subnets of the segment that the host is on; `reached`: the ids of all segments that it is connected to."""
    network_id = subnets[0]["network_id"]
    segments = {subnet["segment_id"] for subnet in subnets}.intersection(reached)
    if not segments:
        raise errors.HostNotConnectedToAnySegment(host=host, network_id=network_id)
    if len(segments) > 1:
        raise errors.HostConnectedToMultipleSegments(host=host, network_id=network_id)
    return [subnet for subnet in subnets if subnet["segment_id"] in segments]


def subnets_of_request(subnets: Sequence[Values], requested: Sequence[Values]) -> list[Values]:
    """The subnets of the segment on which addresses are requested; all if none of them is a subnet of the network."""
    found = [subnet for fixed in requested if (subnet := _requested(subnets, fixed)) is not None]
    segments = {subnet["segment_id"] for subnet in found}
    if len(segments) > 1:
        raise errors.FixedIpsSubnetsNotOnSameSegment()
    return [subnet for subnet in subnets if not segments or subnet["segment_id"] in segments]


def _requested(subnets: Sequence[Values], fixed: Values) -> Values | None:
    if fixed.get("subnet_id") is not None:
        return next((subnet for subnet in subnets if subnet["id"] == fixed["subnet_id"]), None)
    if fixed.get("ip_address") is None:
        return None
    address = ipaddress.ip_address(fixed["ip_address"])
    return next((subnet for subnet in subnets if address in ipaddress.ip_network(subnet["cidr"])), None)


# --- segments of subnets ----------------------------------------------------------------------------------------------


def check_new_subnet(network_id: str, segment_id: str | None, siblings: Sequence[Values]) -> None:
    if any((sibling["segment_id"] is None) != (segment_id is None) for sibling in siblings):
        raise errors.SubnetsNotAllAssociatedWithSegments(network_id=network_id)


def check_segment_change(before: Values, segment_id: str | None, siblings: Sequence[Values], segments: int) -> None:
    """Only a network with one subnet and one segment becomes a routed one; `segments`: how many the network has."""
    if segment_id == before["segment_id"]:
        return
    if siblings:
        raise errors.SubnetsNotAllAssociatedWithSegments(network_id=before["network_id"])
    if before["segment_id"] is not None:
        raise errors.SubnetSegmentAssociationChangeNotAllowed()
    if segments > 1:
        raise errors.NoUpdateSubnetWhenMultipleSegmentsOnNetwork(network_id=before["network_id"])


# --- routes to the subnets of other segments --------------------------------------------------------------------------


def with_peer_routes(
    subnet: Values, siblings: Sequence[Values], *, old_gateway: str | None = None, gone: Values | None = None
) -> list[Route]:
    """The host routes of a subnet, with one to each subnet of another segment that none of its routes covers.

    `old_gateway`: routes by it are replaced. `gone`: a subnet that is deleted, and the route to it with it.
    """
    gateway = subnet["gateway_ip"]
    routes = [dict(route) for route in subnet["host_routes"]]
    if subnet["segment_id"] is None:
        return routes
    if gone is not None:
        routes = [route for route in routes if route != {"destination": gone["cidr"], "nexthop": gateway}]
    peers = [
        str(peer["cidr"])
        for peer in siblings
        if peer["segment_id"] != subnet["segment_id"] and peer["ip_version"] == subnet["ip_version"]
    ]
    if old_gateway is not None and old_gateway != gateway:
        old = [{"destination": cidr, "nexthop": old_gateway} for cidr in peers]
        routes = [route for route in routes if route not in old]
    if gateway is None:
        return routes
    for cidr in peers:
        if not any(_covers(route["destination"], cidr) for route in routes):
            routes.append({"destination": cidr, "nexthop": gateway})
    return routes


def _covers(destination: str, cidr: str) -> bool:
    """Whether a route, which may be to a larger prefix, leads to all of the subnet."""
    wide, narrow = ipaddress.ip_network(destination), ipaddress.ip_network(cidr)
    return wide.version == narrow.version and narrow.subnet_of(wide)  # type: ignore[arg-type]
