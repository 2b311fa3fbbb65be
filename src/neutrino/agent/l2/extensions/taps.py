"""Taps: copies of a port's packets, to a port that monitors them or through a tunnel to a collector.

A packet from a tapped port is copied in the first of the extensions' egress tables: after the spoofing checks, before
limits and the security groups. A packet to a tapped port is copied in the last ingress table: after the security groups
and limits, as the instance gets it. The copy is output at once, past every table:

    port ── spoofing checks ── [copy] ── limits ── security groups ── network
    port ◄── [copy] ── limits ── security groups ── network

    copy → the monitoring port, if it is on this host
         → a GRE tunnel for this tap flow → on the other host straight to the monitoring port
         → the GRE or ERSPAN tunnel of a tap mirror

So a copy is never copied again, even if the monitoring port is tapped too, reaches the monitoring port alone, and
passes no firewall of that port; the original packet goes on unchanged. Mirrors of Open vSwitch would copy copies, without
end between two hosts, and there are 32 of them at most on a bridge.

The switch does not output a packet to the port that it came from: a monitor does not get copies of what it sends itself.

A filter for VLANs selects frames by the tag that the instance sends or gets. A trunk's parent carries the frames of its
subports, tagged: where the filter of a tap of the parent names the VLAN of a subport, frames of the subport are copied with
that tag.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from neutrino.agent.l2.desired import Desired, HostState, L2Options, LocalPort
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit
from neutrino.agent.l2.extensions.integration import UNTAGGED, push_tag
from neutrino.agent.l2.extensions.tap_tunnels import flow_tunnel_name, mirror_tunnel_name, owner_of, taps_of
from neutrino.agent.l2.pipeline import REG_PORT, Table
from neutrino.dataplane.openflow.api import Flow
from neutrino.model import taps as model
from neutrino.model.taps import BOTH, IN, OUT, Tap

VLAN_IDS = 4096
_EVERY, _OF_VLAN = 10, 20  # priorities


class Copy(NamedTuple):
    """Where copies go, and of which frames."""

    action: str
    vlans: tuple[model.VlanRange, ...] = ()


class TapsFromPorts(L2Extension):
    name = "taps from ports"
    neutron_name = "taas"
    has_table = True

    def egress_ports(self, desired: Desired) -> Collection[str]:
        return _copies(desired, OUT).keys()

    def units(self, desired: Desired) -> Iterator[Unit]:
        for port, copies in _with_ports(desired, OUT):
            yield Unit(owner_of(port.id), (desired.options, port.ofport, copies), _from_port)


class TapsToPorts(L2Extension):
    name = "taps to ports"
    has_ingress_table = True

    def ingress_ports(self, desired: Desired) -> Collection[str]:
        return _copies(desired, IN).keys()

    def units(self, desired: Desired) -> Iterator[Unit]:
        for port, copies in _with_ports(desired, IN):
            yield Unit(owner_of(port.id), (desired.options, port.ofport, copies), _to_port)


# --- copies -----------------------------------------------------------------------------------------------------------


def _with_ports(desired: Desired, direction: str) -> Iterator[tuple[LocalPort, tuple[Copy, ...]]]:
    copies = _copies(desired, direction)
    return ((port, tuple(copies[port.id])) for port in desired.ports if port.id in copies)


def _copies(desired: Desired, direction: str) -> dict[str, list[Copy]]:
    """The copies of packets from (OUT) or to (IN) the ports here, by port; of ports that have any."""
    here = {port.id: port.ofport for port in desired.ports}
    tunnels, state = desired.plugged.extension_ports, desired.host_state
    found: defaultdict[str, list[Copy]] = defaultdict(list)
    for port in desired.ports:
        taps = taps_of(state, port.id)
        for flow in taps.flows:
            number = here.get(flow.port_id) or tunnels.get(flow_tunnel_name(flow.id), 0)
            if number and flow.direction in (direction, BOTH):
                found[port.id].append(Copy(f"output:{number}", flow.vlans))
                for subport, vlan in _subports(state, port.id, flow):
                    if subport in here:
                        tagged = ",".join((push_tag(vlan), f"output:{number}"))
                        found[subport].append(Copy(f"clone({tagged})"))
        for mirror in taps.mirrors:
            number = tunnels.get(mirror_tunnel_name(mirror), 0)
            if number and mirror.direction in (direction, BOTH):
                found[port.id].append(Copy(f"output:{number}"))
    return found


def _subports(state: HostState, parent_id: str, flow: Tap) -> Iterable[tuple[str, int]]:
    """The subports that a tap of their parent selects by a filter, with their VLANs."""
    parent = state.ports[parent_id]
    if not flow.vlans or not parent.trunk_id or parent.trunk_vlan:
        return ()
    others = (port for port in state.ports.values() if port.trunk_id == parent.trunk_id and port.trunk_vlan)
    return sorted((port.id, port.trunk_vlan) for port in others if flow.selects(port.trunk_vlan))


def _from_port(options: L2Options, ofport: int, copies: tuple[Copy, ...]) -> Contribution:
    table = options.extension_table(TapsFromPorts.name)
    flows = _flows(table, f"in_port={ofport}", copies, options.after_extension(table))
    return Contribution({options.integration_bridge: flows})


def _to_port(options: L2Options, ofport: int, copies: tuple[Copy, ...]) -> Contribution:
    table = options.ingress_table(TapsToPorts.name)
    flows = _flows(table, f"{REG_PORT}={ofport}", copies, options.after_ingress(table))
    return Contribution({options.integration_bridge: flows})


def _flows(table: Table, here: str, copies: tuple[Copy, ...], then: Table) -> list[Flow]:
    """A flow for frames of all VLANs, and flows for the VLANs that some filter names."""
    every = [copy.action for copy in copies if not copy.vlans]
    flows = [table.flow(_EVERY, here, *every, then=then)]
    if len(every) == len(copies):
        return flows
    by_actions: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for vlan in range(VLAN_IDS):
        chosen = [copy for copy in copies if not copy.vlans or any(low <= vlan <= high for low, high in copy.vlans)]
        if len(chosen) > len(every):
            by_actions[tuple(copy.action for copy in chosen)].append(vlan)
    for actions, vlans in by_actions.items():
        flows += [table.flow(_OF_VLAN, f"{here},{match}", *actions, then=then) for match in vlan_matches(vlans)]
    return flows


def vlan_matches(vlans: list[int]) -> Iterator[str]:
    """Matches of frames with one of these VLAN ids, of which 0 is also that of frames without a tag."""
    if vlans[0] == model.UNTAGGED:
        yield UNTAGGED
    for first, last in _ranges(vlans):
        start = first
        while start <= last:  # the greatest block that begins here: a power of two that divides the start
            size = start & -start or VLAN_IDS
            while start + size - 1 > last:
                size >>= 1
            mask = 0x1000 | (VLAN_IDS - size)
            yield f"dl_vlan={start}" if size == 1 else f"vlan_tci={0x1000 | start:#06x}/{mask:#06x}"
            start += size


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive numbers, which are given in order."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
