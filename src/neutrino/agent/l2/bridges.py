"""Plans of the switch's configuration: bridges, patch ports, tags, and the OVSDB part of contributions.

The agent creates its own bridges. The bridge of a physical network is the operator's: it must exist, and the agent sets its
datapath type, fail mode and the size of its MAC table. Tags are corrected wherever they differ. Everything else on the
bridges is left alone.
"""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

from neutrino.agent.l2.configuration_plan import ConfigurationPlan
from neutrino.agent.l2.desired import Desired, L2Options, Plugged, Uplink, UplinkPort
from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.agent.l2.plan import Rendered
from neutrino.agent.l2.tunnels import read_tunnels
from neutrino.agent.runtime.delta import unmet
from neutrino.dataplane.ovsdb.api import (
    EXTENSION,
    MARK,
    Change,
    ConfigurePort,
    DeleteBridge,
    DeletePort,
    DeleteUnused,
    Port,
    PortSettings,
    SetBridge,
    SetManager,
    SetPort,
    SetVlanLimit,
    Snapshot,
)
from neutrino.dataplane.tc.api import Item
from neutrino.model import state

KERNEL_TYPES = ("", "system")  # of interfaces that are devices of the kernel
SECURE = "secure"
_TAGS = 2  # of a packet of an instance: the network's and its own
_NAME_LENGTH = 15  # of a device, in the kernel
_MAC_TABLE_SIZE = "mac-table-size"


def plan_bridges(options: L2Options, snapshot: Snapshot) -> ConfigurationPlan:
    """Our bridges, the patch ports between them and to physical networks' bridges, and the managers."""
    own = (options.integration_bridge, options.tunnel_bridge) if options.tunnel_types else (options.integration_bridge,)
    # fail_mode secure: a bridge without flows, as after a restart of the switch, must drop packets and not act as NORMAL,
    # which would pass all firewalls.
    wanted: list[SetBridge | SetPort] = [
        SetBridge(name, datapath_type=options.datapath_type, fail_mode=SECURE, external_ids={MARK: "bridge"})
        for name in own
    ]
    wanted += _physical(options, snapshot)
    for one, other in _patches(options, snapshot):
        for (bridge, name), (_, peer) in ((one, other), (other, one)):
            wanted.append(SetPort(bridge, name, "patch", options={"peer": peer}, external_ids={MARK: "patch"}))
    # The bridge of a physical network is the operator's to create: it holds the uplink, which we do not know.
    problems = {
        physical_network: f"bridge {bridge} does not exist"
        for physical_network, bridge in options.bridge_mappings
        if bridge not in snapshot.bridges
    }
    served = (SetManager(target) for target in options.managers if target not in snapshot.managers)
    return ConfigurationPlan((*served, *unmet(wanted, snapshot)), problems)


def _physical(options: L2Options, snapshot: Snapshot) -> Iterator[SetBridge]:
    """The datapath type of physical networks' bridges, as Neutron's agent sets it: a patch joins two of one datapath.

    And the size of their MAC tables: of our bridges only these learn, and they flood what does not fit.
    """
    size = {_MAC_TABLE_SIZE: str(options.mac_table_size)} if options.mac_table_size else {}
    for _, name in options.bridge_mappings:
        bridge = snapshot.bridges.get(name)
        if bridge is not None:
            fits = (bridge.datapath_type or "system") == options.datapath_type
            datapath_type = bridge.datapath_type if fits else options.datapath_type
            yield SetBridge(name, datapath_type=datapath_type, fail_mode=bridge.fail_mode, other_config=size)


def plan_fail_modes(options: L2Options, snapshot: Snapshot, idle: Collection[str]) -> ConfigurationPlan:
    """Fail mode `secure` of physical networks' bridges, as Neutron's agent sets it.

    With another one, a bridge that has lost its flows acts as a learning switch: packets with local VLANs leave to the
    physical network. When it changes, the switch deletes all flows of the bridge, ours and others': so it is set only on
    bridges that are `idle`, which means without flows, and right before ours are added.
    """
    return ConfigurationPlan(
        tuple(
            SetBridge(name, datapath_type=snapshot.bridges[name].datapath_type, fail_mode=SECURE)
            for name in insecure(options, snapshot)
            if name in idle
        )
    )


def insecure(options: L2Options, snapshot: Snapshot) -> list[str]:
    """Bridges of physical networks that would act as learning switches without flows."""
    there = (snapshot.bridges.get(name) for _, name in options.bridge_mappings)
    return [bridge.name for bridge in there if bridge is not None and bridge.fail_mode != SECURE]


def _patches(options: L2Options, snapshot: Snapshot) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """The patches from the integration bridge to the other bridges: both ends, as bridge and port."""
    inner = options.integration_bridge
    if options.tunnel_types:
        yield (inner, options.int_peer_patch_port), (options.tunnel_bridge, options.tun_peer_patch_port)
    for _, bridge in options.bridge_mappings:
        if bridge in snapshot.bridges:
            names = patch_names(bridge)
            yield (inner, names[0]), (bridge, names[1])


def plan_tags(desired: Desired, snapshot: Snapshot) -> ConfigurationPlan:
    """Tags: a plugged port gets its network's local VLAN, or the dead one if it must not talk.

    `make=False`: a port that is unplugged meanwhile must not be created again by its tag.
    """
    bridge, plugged = desired.options.integration_bridge, desired.plugged
    keys = {network.vlan: network.key for network in desired.networks}
    vlans = {port.ofport: port.vlan for port in desired.ports}
    wanted: list[SetPort] = []
    for port_id, device in plugged.devices.items():
        vlan = vlans.get(plugged.ports[port_id])
        if vlan is not None:
            wanted.append(SetPort(bridge, device, tag=vlan, other_config=keys[vlan].to_config(vlan), make=False))
        elif plugged.ports[port_id] in desired.dead:
            wanted.append(SetPort(bridge, device, tag=DEAD_VLAN, make=False))
    return ConfigurationPlan(unmet(wanted, snapshot))


def plan_vlan_limit(desired: Desired, snapshot: Snapshot) -> ConfigurationPlan:
    """Two VLAN tags, where a network here carries tags of instances in front of which its own is pushed.

    By default the switch looks at one tag and cannot push a second one. The limit is not lowered again: it may be the
    operator's, and without such networks it has no effect, because ports of other networks may not send tags.
    """
    enough = snapshot.vlan_limit == 0 or snapshot.vlan_limit >= _TAGS
    if enough or not any(network.carries_tags for network in desired.networks):
        return ConfigurationPlan()
    return ConfigurationPlan((SetVlanLimit(0),))


def plan_contributions(rendered: Rendered, snapshot: Snapshot, *, complete: bool) -> ConfigurationPlan:
    """The rows and port settings that extensions contribute; unless `complete`, only what is missing is added."""
    # With our mark, by which a row is recognised as stale when no extension contributes it any more.
    wanted = [
        dataclasses.replace(row, external_ids={**row.external_ids, MARK: EXTENSION}) for row in rendered.rows.values()
    ]
    changes: list[Change] = [*unmet(wanted, snapshot)]
    problems: dict[str, str] = {}
    for bridge in snapshot.bridges.values():
        if complete and bridge.external_ids.get(MARK) == EXTENSION and bridge.name not in rendered.rows:
            changes.append(DeleteBridge(bridge.name))
            continue
        for port in bridge.ports.values():
            if complete and _has_mark(port, EXTENSION) and port.name not in rendered.rows:
                changes.append(DeletePort(bridge.name, port.name))
                continue
            # All ports, not only those with contributions: settings that no extension contributes any more are stale.
            settings = rendered.ports.get(port.name, PortSettings())
            if settings.qos is not None and port.foreign_qos:
                problems[f"port {port.name}"] = "it has a QoS row that is not ours, which is not replaced"
                settings = dataclasses.replace(settings, qos=None)  # the port's other settings are applied
            if settings != port.settings and (complete or port.settings == PortSettings()):
                changes.append(ConfigurePort(port.name, settings))
    # The switch collects a deleted port's interface, but QoS and Queue are root tables: their rows would stay for ever.
    if complete and snapshot.unused:
        changes.append(DeleteUnused(snapshot.unused))
    return ConfigurationPlan(tuple(changes), problems)


def own_filters(rendered: Rendered, snapshot: Snapshot) -> dict[str, frozenset[Item]]:
    """Contributed filters by device, without devices whose queues are another's: they would sort packets into these."""
    ports = (port for bridge in snapshot.bridges.values() for port in bridge.ports.values() if port.foreign_qos)
    foreign = {interface.name for port in ports for interface in port.interfaces}
    return {device: items for device, items in rendered.filters.items() if device not in foreign}


def read_plugged(options: L2Options, hosts: Iterable[state.Host], snapshot: Snapshot) -> Plugged:
    """The ofports of what is plugged. A missing bridge or patch port is as if it were not configured."""
    integration, tunnel = options.integration_bridge, options.tunnel_bridge
    uplinks = []
    for physical_network, bridge in options.bridge_mappings:
        inner, outer = patch_names(bridge)
        ends = _number(snapshot, integration, inner), _number(snapshot, bridge, outer)
        if all(ends):
            uplinks.append(Uplink(physical_network, bridge, *ends))
    ports: dict[str, tuple[int, str, bool]] = {}
    for _, port in sorted(_ports(snapshot, integration).items()):
        for interface in port.interfaces:
            port_id = interface.external_ids.get("iface-id")
            if port_id and (interface.ofport or 0) > 0:  # else not numbered yet, or its device cannot be opened
                # During a live migration two devices may have one id: the first by name counts, until the other is gone.
                # Only of a device that the kernel sends packets through: an internal port receives them, and a vhost-user
                # socket or a DPDK device is none of the kernel's. Not in userspace: all devices share one socket there,
                # so the packets that wait for one device keep those for all others out of the socket's buffer.
                shaped = interface.type in KERNEL_TYPES and not options.userspace
                ports.setdefault(port_id, (interface.ofport or 0, port.name, shaped))
    return Plugged(
        ports={port_id: ofport for port_id, (ofport, _, _) in ports.items()},
        devices={port_id: name for port_id, (_, name, _) in ports.items()},
        shaped=frozenset(port_id for port_id, (_, _, shaped) in ports.items() if shaped),
        extension_ports={
            name: interface.ofport
            for name, (_, _, interface) in snapshot.interfaces().items()
            if interface.external_ids.get(MARK) == EXTENSION and interface.ofport and interface.ofport > 0
        },
        uplinks=tuple(uplinks),
        uplink_ports=_uplink_ports(options, snapshot),
        patch_tun=_number(snapshot, integration, options.int_peer_patch_port),
        patch_int=_number(snapshot, tunnel, options.tun_peer_patch_port),
        tunnels=read_tunnels(options, hosts, snapshot),
    )


def _uplink_ports(options: L2Options, snapshot: Snapshot) -> dict[str, tuple[UplinkPort, ...]]:
    """The ports through which packets leave the host, by bridge: those with devices of the kernel, which have queues."""
    bridges = {bridge for _, bridge in options.bridge_mappings} | {options.underlay_bridge}
    return {
        bridge: tuple(
            UplinkPort(port.name, tuple(interface.name for interface in port.interfaces))
            for _, port in sorted(_ports(snapshot, bridge).items())
            if all(interface.type in KERNEL_TYPES for interface in port.interfaces)
        )
        for bridge in sorted(bridges & snapshot.bridges.keys())
    }


def unnumbered(options: L2Options, snapshot: Snapshot) -> tuple[str, ...]:
    """Bridges and patch ports of ours that have no ofport yet: they are new, or the switch is down."""
    ends = [(options.integration_bridge, options.integration_bridge)]
    ends += [end for patch in _patches(options, snapshot) for end in patch]
    return tuple(name for bridge, name in ends if not _number(snapshot, bridge, name))


def read_bound_interfaces(options: L2Options, snapshot: Snapshot) -> frozenset[str]:
    """The ids of all ports with an interface on the integration bridge, also of those whose device does not exist yet."""
    ports = _ports(snapshot, options.integration_bridge).values()
    ids = (interface.external_ids.get("iface-id", "") for port in ports for interface in port.interfaces)
    return frozenset(filter(None, ids))


def read_ancillary(options: L2Options, snapshot: Snapshot) -> frozenset[str]:
    """The ports on bridges that are not ours: others wire them, we report that they are up."""
    ours = {options.integration_bridge, options.tunnel_bridge, *(bridge for _, bridge in options.bridge_mappings)}
    return frozenset(
        interface.external_ids["iface-id"]
        for bridge, _, interface in snapshot.interfaces().values()
        if bridge not in ours and "iface-id" in interface.external_ids and (interface.ofport or 0) > 0
    )


def patch_names(bridge: str) -> tuple[str, str]:
    """The patch ports between the integration bridge and a physical network's bridge: on the first, on the second."""
    return _device_name("int-", bridge), _device_name("phy-", bridge)


def _device_name(prefix: str, name: str) -> str:
    if len(prefix + name) <= _NAME_LENGTH:
        return prefix + name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:6]  # names that begin alike differ
    return prefix + name[: _NAME_LENGTH - len(prefix) - len(digest)] + digest


def _ports(snapshot: Snapshot, bridge: str) -> Mapping[str, Port]:
    return snapshot.bridges[bridge].ports if bridge in snapshot.bridges else {}


def _number(snapshot: Snapshot, bridge: str, name: str) -> int:
    """The ofport of a port; 0 while it has none."""
    port = _ports(snapshot, bridge).get(name)
    number = port.interfaces[0].ofport if port is not None and port.interfaces else None
    return max(number or 0, 0)


def _has_mark(port: Port, value: str) -> bool:
    return any(interface.external_ids.get(MARK) == value for interface in port.interfaces)
