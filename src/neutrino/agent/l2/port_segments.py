"""The segment of a network that a port is on, on this host. Pure.

The binding names it, of ports that are bound to one host. A port of a distributed router is on several hosts and bound to
none, and one of an HA router is bound to the active host alone. So on a network with several segments each host finds its
own: of those that it is connected to, the one that other ports of the network are bound to here, else the first, as the
server would bind a port. On a routed network it is the segment of the port's addresses, which work on no other.
"""

from collections.abc import Callable, Iterable, Mapping

from neutrino.agent.l2.local_vlans import SegmentKey
from neutrino.model import state

Reaches = Callable[[state.Segment], bool]


def segment_of(
    port: state.Port, networks: Mapping[str, state.Network], ports: Iterable[state.Port], reaches: Reaches
) -> SegmentKey | None:
    """None: it is not known, or this host is not connected to it."""
    network = networks.get(port.network_id)
    if network is None:
        return None
    if len(network.segments) > 1 and (port.distributed or port.replicated):
        found = _own_segment(port, network, ports, reaches)
    else:
        found = next((each for each in network.segments if _is_bound(port, each, network)), None)
    if found is None:
        return None
    return SegmentKey(network.id, found.network_type, found.physical_network or "", found.segmentation_id or 0)


def _is_bound(port: state.Port, segment: state.Segment, network: state.Network) -> bool:
    """Where the binding names no segment, the network's only one."""
    return segment.id == port.segment_id or (not port.segment_id and len(network.segments) == 1)


def _own_segment(
    port: state.Port, network: state.Network, ports: Iterable[state.Port], reaches: Reaches
) -> state.Segment | None:
    by_subnet = {subnet.id: subnet.segment_id for subnet in network.subnets}
    own = {by_subnet.get(fixed.subnet_id, "") for fixed in port.fixed_ips} - {""}
    reached = [each for each in network.segments if reaches(each) and (not own or each.id in own)]
    if len(reached) < 2:
        return next(iter(reached), None)
    bound = {
        each.segment_id
        for each in ports
        if each.network_id == network.id and each.active and not (each.distributed or each.replicated)
    }
    return next((each for each in reached if each.id in bound), reached[0])
