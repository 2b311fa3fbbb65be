"""Trunk bridges: the patch ports between an instance's trunk bridge and the integration bridge. Pure.

    instance ── tap ── tbr-… ┬─ tpt-…  untagged   ──patch── tpi-… ┐
                             ├─ spt-…  VLAN 10    ──patch── spi-… ├ br-int
                             └─ spt-…  VLAN 11    ──patch── spi-… ┘

Whoever plugs the parent's device (os-vif) creates the bridge, by the name in the parent's binding. The end of a patch in
the integration bridge has the id of the parent or subport, so it is wired there like any plugged port. The trunk bridge
needs no flows: it forwards by VLAN and MAC on its own, also while the agent is down.

Our patch ports and the bridges that have them carry a mark. Those of Neutron's agent have the same names, by which they are
used as they are, or removed. A bridge that the instance has left is deleted.
"""

from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l2.configuration_plan import ConfigurationPlan
from neutrino.agent.l2.desired import L2Options
from neutrino.agent.runtime.delta import unmet
from neutrino.dataplane.ovsdb.api import (
    MARK,
    Bridge,
    Change,
    DeleteBridge,
    DeletePort,
    Interface,
    SetBridge,
    SetPort,
    Snapshot,
)
from neutrino.model import state
from neutrino.model.trunks import BRIDGE_PREFIX, PATCH_PREFIXES, parent_patch, subport_patch, trunk_bridge

TRUNK = "trunk"
PATCH = "patch"
UNTAGGED = 0
FAILED = -1  # the ofport of an interface whose device is gone


def plan_trunks(
    options: L2Options, ports: Mapping[str, state.Port], snapshot: Snapshot, *, complete: bool
) -> ConfigurationPlan:
    """The patches of all trunks whose parent is plugged here; if `complete`, stale ones of ours are removed."""
    wanted = list(_wanted(options.integration_bridge, ports.values(), snapshot))
    stale = list(_stale(wanted, snapshot)) if complete else []
    return ConfigurationPlan((*stale, *unmet(wanted, snapshot)))


def parents(ports: Iterable[state.Port]) -> frozenset[str]:
    """The ids of the parents among these ports."""
    return frozenset(port.id for port in ports if port.trunk_id and not port.trunk_vlan)


def _wanted(inner: str, ports: Iterable[state.Port], snapshot: Snapshot) -> Iterator[SetBridge | SetPort]:
    plugged: dict[str, str] = {}  # bridges by trunk
    members = sorted((port for port in ports if port.trunk_id), key=lambda port: (port.trunk_vlan, port.id))
    for port in members:  # parents first
        name = trunk_bridge(port.trunk_id)
        if port.trunk_vlan:
            if port.trunk_id in plugged:
                yield from _patch(inner, name, port, subport_patch(port.id), tag=port.trunk_vlan)
        elif (bridge := snapshot.bridges.get(name)) is not None and _is_plugged(bridge, port):
            plugged[port.trunk_id] = name
            yield SetBridge(name, bridge.datapath_type, bridge.fail_mode, external_ids={MARK: TRUNK})
            yield from _patch(inner, name, port, parent_patch(port.id), trunks=(UNTAGGED,))


def _is_plugged(bridge: Bridge, parent: state.Port) -> bool:
    """Whether the bridge has the parent's device. In a live migration also one that the instance creates later.

    Patches do not count: Neutron's agent gives the parent's id to both ends of its own.
    """
    devices = [
        interface
        for interface in _interfaces(bridge)
        if interface.external_ids.get("iface-id") == parent.id and interface.type != PATCH
    ]
    return any(device.ofport != FAILED or not parent.active for device in devices)


def _patch(
    inner: str,
    outer: str,
    port: state.Port,
    names: tuple[str, str],
    tag: int | None = None,
    trunks: tuple[int, ...] = (),
) -> Iterator[SetPort]:
    here, there = names
    identity = {"iface-id": port.id, "attached-mac": port.mac_address, "iface-status": "active"}
    yield SetPort(inner, here, PATCH, options={"peer": there}, external_ids={MARK: TRUNK, **identity})
    yield SetPort(*(outer, there, PATCH), tag=tag, trunks=trunks, options={"peer": here}, external_ids={MARK: TRUNK})


def _stale(wanted: Iterable[SetBridge | SetPort], snapshot: Snapshot) -> Iterator[Change]:
    bridges = {each.name for each in wanted if isinstance(each, SetBridge)}
    ports = {(each.bridge, each.name) for each in wanted if isinstance(each, SetPort)}
    for bridge in snapshot.bridges.values():
        ours = [interface.name for interface in _interfaces(bridge) if _is_ours(interface)]
        left = [name for name in ours if (bridge.name, name) not in ports]
        is_neutrons = bool(ours) and bridge.name.startswith(BRIDGE_PREFIX)
        is_trunk = bridge.external_ids.get(MARK) == TRUNK or is_neutrons
        is_left = is_trunk and bridge.name not in bridges
        # With another device in it the bridge stays: the instance, or whatever it is, is not ours.
        if is_left and bridge.ports.keys() <= {bridge.name, *ours}:
            yield DeleteBridge(bridge.name)
        else:
            yield from (DeletePort(bridge.name, name) for name in left)


def _is_ours(interface: Interface) -> bool:
    """Whether it has our mark, or is a patch of Neutron's agent, which gives the port's id to both ends."""
    ids = interface.external_ids
    is_neutrons = interface.type == PATCH and interface.name.startswith(PATCH_PREFIXES) and "iface-id" in ids
    return is_neutrons or ids.get(MARK) == TRUNK


def _interfaces(bridge: Bridge) -> Iterator[Interface]:
    return (interface for port in bridge.ports.values() for interface in port.interfaces)
