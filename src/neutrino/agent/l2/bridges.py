"""Plans of the switch's configuration: bridges, patch ports, tunnels, tags, and the OVSDB part of contributions.

The agent creates its own bridges; a physical network's bridge is the operator's and must exist. Tunnels lead to the hosts
that share a tunnel network with this one, and carry our mark, so that stale ones are recognised as ours. Tags are corrected
wherever they differ. Everything else on the bridges is left alone.
"""

import base64
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, ip_address

from neutrino.agent.l2.desired import VXLAN_PORT, Desired, L2Options, Plugged, TunnelPort, Uplink
from neutrino.agent.l2.local_vlans import SegmentKey
from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.agent.l2.plan import Rendered
from neutrino.dataplane.ovsdb.api import (
    EXTENSION,
    MARK,
    Bridge,
    Change,
    ConfigurePort,
    DeleteBridge,
    DeletePort,
    DeleteUnused,
    Interface,
    Port,
    PortSettings,
    SetBridge,
    SetManager,
    SetPort,
    Snapshot,
)
from neutrino.model import state

_NAME_LENGTH = 15  # of a device


@dataclasses.dataclass(frozen=True)
class ConfigurationPlan:
    """Changes in order, and problems by the name of the network, host or port."""

    changes: tuple[Change, ...] = ()
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def text(self) -> str:
        return "\n".join(change.text() for change in self.changes)


def plan_bridges(options: L2Options, snapshot: Snapshot) -> ConfigurationPlan:
    """Our bridges, the patch ports between them and to physical networks' bridges, and the managers."""
    wanted: list[Change] = [_own_bridge(options.integration_bridge, options)]
    problems: dict[str, str] = {}
    if options.tunnel_types:
        wanted.append(_own_bridge(options.tunnel_bridge, options))
        ends = (options.integration_bridge, options.int_peer_patch_port)
        wanted += _patch(ends, (options.tunnel_bridge, options.tun_peer_patch_port))
    for physical_network, bridge in options.bridge_mappings:
        if bridge not in snapshot.bridges:  # the operator's to create: it holds the uplink, which we do not know
            problems[physical_network] = f"bridge {bridge} does not exist"
            continue
        inner, outer = patch_names(bridge)
        wanted += _patch((options.integration_bridge, inner), (bridge, outer))
    served = (SetManager(target) for target in options.managers if target not in snapshot.managers)
    return ConfigurationPlan((*served, *_unmet(wanted, snapshot)), problems)


def plan_tunnels(options: L2Options, hosts: Iterable[state.Host], snapshot: Snapshot) -> ConfigurationPlan:
    """A tunnel to each host for each type that both have; stale tunnels of ours are removed."""
    if not options.tunnel_types or options.tunnel_bridge not in snapshot.bridges:
        return ConfigurationPlan()
    wanted: dict[str, Change] = {}
    problems: dict[str, str] = {}
    for host in sorted(hosts, key=lambda entry: entry.id):
        reason = _unreachable(options, host)
        if reason is not None:
            problems[host.id] = reason
            continue
        for kind in options.tunnel_types:
            if kind in host.tunnel_types:
                port = _tunnel(options, kind, host)
                wanted[port.name] = port
    stale = [
        DeletePort(options.tunnel_bridge, port.name)
        for port in snapshot.bridges[options.tunnel_bridge].ports.values()
        if port.name not in wanted
        and any(interface.external_ids.get(MARK) == "tunnel" for interface in port.interfaces)
    ]
    return ConfigurationPlan((*stale, *_unmet(wanted.values(), snapshot)), problems)


def plan_tags(desired: Desired, snapshot: Snapshot) -> ConfigurationPlan:
    """Tags: a plugged port gets its network's local VLAN, or the dead one if it must not talk.

    `make=False`: a port that is unplugged meanwhile must not be created again by its tag.
    """
    options = desired.options
    keys: dict[int, SegmentKey] = {network.vlan: network.key for network in desired.networks}
    vlans = {port.ofport: port.vlan for port in desired.ports}
    wanted: list[Change] = []
    for port, interface in _plugged(options, snapshot).values():
        vlan = vlans.get(interface.ofport or 0)
        if vlan is not None:
            config = keys[vlan].to_config(vlan)
            wanted.append(SetPort(options.integration_bridge, port.name, tag=vlan, other_config=config, make=False))
        elif interface.ofport in desired.dead:
            wanted.append(SetPort(options.integration_bridge, port.name, tag=DEAD_VLAN, make=False))
    return ConfigurationPlan(_unmet(wanted, snapshot))


def plan_contributions(rendered: Rendered, snapshot: Snapshot, *, complete: bool) -> ConfigurationPlan:
    """The rows and port settings that extensions contribute; unless `complete`, only what is missing is added."""
    wanted = [_marked(row) for row in rendered.rows.values()]
    changes: list[Change] = [*_unmet(wanted, snapshot)]
    problems: dict[str, str] = {}
    for bridge in snapshot.bridges.values():
        if complete and bridge.external_ids.get(MARK) == EXTENSION and bridge.name not in rendered.rows:
            changes.append(DeleteBridge(bridge.name))
            continue
        for port in bridge.ports.values():
            ours = any(interface.external_ids.get(MARK) == EXTENSION for interface in port.interfaces)
            if complete and ours and port.name not in rendered.rows:
                changes.append(DeletePort(bridge.name, port.name))
                continue
            # All ports, not only those with contributions: settings that nobody contributes any more are stale.
            settings = rendered.ports.get(port.name, PortSettings())
            if settings.qos is not None and port.foreign_qos:
                problems[f"port {port.name}"] = "it has a QoS row that is not ours, which is not replaced"
                settings = dataclasses.replace(settings, qos=None)
            if settings != port.settings and (complete or port.settings == PortSettings()):
                changes.append(ConfigurePort(port.name, settings))
    # The switch collects a deleted port's interface, but QoS and Queue are root tables: their rows would stay for ever.
    if complete and snapshot.unused:
        changes.append(DeleteUnused(snapshot.unused))
    return ConfigurationPlan(tuple(changes), problems)


def _marked(row: SetBridge | SetPort) -> SetBridge | SetPort:
    """A contributed row with our mark, by which it is recognised as stale later."""
    return dataclasses.replace(row, external_ids={**row.external_ids, MARK: EXTENSION})


def read_plugged(options: L2Options, hosts: Iterable[state.Host], snapshot: Snapshot) -> Plugged:
    """The ofports of what is plugged. A missing bridge or patch port is as if it were not configured."""
    integration = snapshot.bridges.get(options.integration_bridge, Bridge(""))
    tunnel = snapshot.bridges.get(options.tunnel_bridge, Bridge(""))
    uplinks = []
    for physical_network, name in options.bridge_mappings:
        inner, outer = patch_names(name)
        ends = _number(integration, inner), _number(snapshot.bridges.get(name, Bridge("")), outer)
        if all(ends):
            uplinks.append(Uplink(physical_network, name, *ends))
    tunnels = [
        TunnelPort(number, kind, host.id)
        for host in sorted(hosts, key=lambda entry: entry.id)
        for kind in options.tunnel_types
        if _is_address(host.tunneling_ip) and (number := _number(tunnel, tunnel_name(kind, host.tunneling_ip)))
    ]
    ports = _plugged(options, snapshot)
    return Plugged(
        ports={port_id: interface.ofport or 0 for port_id, (_, interface) in ports.items()},
        devices={port_id: port.name for port_id, (port, _) in ports.items()},
        extension_ports={
            name: interface.ofport
            for name, (_, _, interface) in snapshot.interfaces().items()
            if interface.external_ids.get(MARK) == EXTENSION and (interface.ofport or 0) > 0 and interface.ofport
        },
        uplinks=tuple(uplinks),
        patch_tun=_number(integration, options.int_peer_patch_port),
        patch_int=_number(tunnel, options.tun_peer_patch_port),
        tunnels=tuple(tunnels),
    )


def unnumbered(options: L2Options, snapshot: Snapshot) -> tuple[str, ...]:
    """Bridges and patch ports of ours that have no ofport yet: they are new, or the switch is down."""
    pairs = [(options.integration_bridge, options.integration_bridge)]
    if options.tunnel_types:
        pairs.append((options.integration_bridge, options.int_peer_patch_port))
        pairs.append((options.tunnel_bridge, options.tun_peer_patch_port))
    for _, bridge in options.bridge_mappings:
        if bridge in snapshot.bridges:
            inner, outer = patch_names(bridge)
            pairs += [(options.integration_bridge, inner), (bridge, outer)]
    return tuple(name for bridge, name in pairs if not _number(snapshot.bridges.get(bridge, Bridge("")), name))


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


def tunnel_name(kind: str, address: str) -> str:
    """The name of a tunnel port, from its type and remote address."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv4Address):
        return f"{kind}-{int(parsed):08x}"
    digest = base64.b32encode(hashlib.sha1(parsed.packed, usedforsecurity=False).digest()).decode().lower()
    return f"{kind}-{digest}"[:_NAME_LENGTH]


def _device_name(prefix: str, name: str) -> str:
    if len(prefix + name) <= _NAME_LENGTH:
        return prefix + name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:6]
    return prefix + name[: _NAME_LENGTH - len(prefix) - len(digest)] + digest


def _own_bridge(name: str, options: L2Options) -> SetBridge:
    # fail_mode secure: a bridge without flows, as after a restart of the switch, must drop packets and not act as NORMAL,
    # which would pass all firewalls.
    return SetBridge(name, datapath_type=options.datapath_type, fail_mode="secure", external_ids={MARK: "bridge"})


def _patch(one: tuple[str, str], other: tuple[str, str]) -> list[Change]:
    return [
        SetPort(bridge, name, "patch", options={"peer": peer}, external_ids={MARK: "patch"})
        for (bridge, name), (_, peer) in ((one, other), (other, one))
    ]


def _unreachable(options: L2Options, host: state.Host) -> str | None:
    if not host.tunneling_ip:
        return "it has no address for tunnels"
    if not _is_address(host.tunneling_ip):
        return f"its address for tunnels, {host.tunneling_ip!r}, is not an IP address"
    if ip_address(host.tunneling_ip) == ip_address(options.local_ip):
        return f"its address for tunnels, {host.tunneling_ip}, is this host's own"
    if ip_address(host.tunneling_ip).version != ip_address(options.local_ip).version:
        return f"its address for tunnels, {host.tunneling_ip}, is of another IP version than {options.local_ip}"
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _tunnel(options: L2Options, kind: str, host: state.Host) -> SetPort:
    settings = {
        "remote_ip": host.tunneling_ip,
        "local_ip": options.local_ip,
        "in_key": "flow",  # the flows set and match the tunnel id: one port serves all networks
        "out_key": "flow",
        "df_default": str(options.dont_fragment).lower(),
        "csum": str(options.tunnel_csum).lower(),
    }
    if kind == "vxlan" and options.vxlan_udp_port != VXLAN_PORT:
        settings["dst_port"] = str(options.vxlan_udp_port)
    name = tunnel_name(kind, host.tunneling_ip)
    return SetPort(options.tunnel_bridge, name, kind, options=settings, external_ids={MARK: "tunnel"})


def _plugged(options: L2Options, snapshot: Snapshot) -> dict[str, tuple[Port, Interface]]:
    """The numbered ports of the integration bridge by the port id in `iface-id`.

    During a live migration two devices may have one id: the first by name counts, until the other is gone.
    """
    bridge = snapshot.bridges.get(options.integration_bridge, Bridge(""))
    found: dict[str, tuple[Port, Interface]] = {}
    for _, port in sorted(bridge.ports.items()):
        for interface in port.interfaces:
            port_id = interface.external_ids.get("iface-id")
            if port_id and interface.ofport is not None and interface.ofport > 0:
                found.setdefault(port_id, (port, interface))
    return found


def _number(bridge: Bridge, name: str) -> int:
    port = bridge.ports.get(name)
    numbers = [interface.ofport or 0 for interface in port.interfaces] if port is not None else []
    return max(numbers[0], 0) if numbers else 0


# --- changes that are met already ---


def _unmet(changes: Iterable[Change], snapshot: Snapshot) -> tuple[Change, ...]:
    return tuple(change for change in changes if not _is_met(change, snapshot))


def _is_met(change: Change, snapshot: Snapshot) -> bool:
    if isinstance(change, SetBridge):
        bridge = snapshot.bridges.get(change.name)
        return bridge is not None and (
            bridge.datapath_type == change.datapath_type
            and bridge.fail_mode == change.fail_mode
            and change.external_ids.items() <= bridge.external_ids.items()
        )
    if isinstance(change, SetPort):
        place = snapshot.bridges.get(change.bridge, Bridge(""))
        port = place.ports.get(change.name)
        return port is not None and _port_is_met(change, port)
    return False


def _port_is_met(change: SetPort, port: Port) -> bool:
    interface = port.interfaces[0]
    return (
        change.type in ("", interface.type)
        and change.tag in (None, port.tag)
        and change.options.items() <= interface.options.items()
        and change.external_ids.items() <= interface.external_ids.items()
        and change.other_config.items() <= port.other_config.items()
    )
