"""Tunnels to the hosts that share a tunnel network with this one. Pure.

A tunnel is known by its type and remote address, not by its name: the switch gives no ofport to a second one of the same
endpoints, and those that Neutron's agent has made to IPv6 addresses have other names than ours. So an existing one is
used as it is, and flows output to its ofport.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from neutrino.agent.l2.configuration_plan import ConfigurationPlan
from neutrino.agent.l2.desired import VXLAN_PORT, L2Options, TunnelPort
from neutrino.agent.runtime.delta import unmet
from neutrino.caches import cached
from neutrino.dataplane.ovsdb.api import MARK, Bridge, DeletePort, Interface, SetPort, Snapshot
from neutrino.model import state

TUNNEL = "tunnel"  # our mark
_TOS, _PORT = "tos", "dst_port"  # options
_NAME_LENGTH = 15  # of a device, in the kernel
_KINDS = {"vxlan": "vxlan", "gre": "gre", "geneve": "geneve", "ip6gre": "gre"}  # types of interfaces

Endpoint = tuple[str, str]
"""The type of a tunnel, and its remote address in canonical form."""


def plan_tunnels(options: L2Options, hosts: Iterable[state.Host], snapshot: Snapshot) -> ConfigurationPlan:
    """A tunnel to each host for each type that both have."""
    if not options.tunnel_types or options.tunnel_bridge not in snapshot.bridges:
        return ConfigurationPlan()
    existing = _existing(options, snapshot)
    wanted: list[SetPort] = []
    problems: dict[str, str] = {}
    for host in sorted(hosts, key=lambda entry: entry.id):
        reason = _unreachable(options, host)
        if reason is not None:
            problems[host.id] = reason
            continue
        for kind in options.tunnel_types:
            if kind in host.tunnel_types:
                name = tunnel_name(kind, host.tunneling_ip)
                there = existing.get(_endpoint(kind, host.tunneling_ip), Interface(name, kind))
                wanted.append(_tunnel(options, kind, host, there))
    return ConfigurationPlan(unmet(wanted, snapshot), problems)


def plan_stale_tunnels(options: L2Options, hosts: Iterable[state.Host], snapshot: Snapshot) -> ConfigurationPlan:
    """The tunnels, ours and Neutron's, that lead to none of these hosts, or to one by a second name."""
    existing = _existing(options, snapshot)
    wanted = {
        existing[endpoint].name
        for host in hosts
        if _unreachable(options, host) is None
        for kind in options.tunnel_types
        if kind in host.tunnel_types and (endpoint := _endpoint(kind, host.tunneling_ip)) in existing
    }
    stale = (interface.name for interface in _tunnels(options, snapshot) if interface.name not in wanted)
    return ConfigurationPlan(tuple(DeletePort(options.tunnel_bridge, name) for name in stale))


def read_tunnels(options: L2Options, hosts: Iterable[state.Host], snapshot: Snapshot) -> tuple[TunnelPort, ...]:
    """The ofports of the tunnels to these hosts; of those that have one."""
    existing = _existing(options, snapshot)
    return tuple(
        TunnelPort(interface.ofport or 0, kind, host.id)
        for host in sorted(hosts, key=lambda entry: entry.id)
        for kind in options.tunnel_types
        if _is_address(host.tunneling_ip)
        and (interface := existing.get(_endpoint(kind, host.tunneling_ip))) is not None
        and _is_live(interface)
    )


def tunnel_name(kind: str, address: str) -> str:
    """The name of a new tunnel port, from its type and remote address."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv4Address):
        return f"{kind}-{int(parsed):08x}"
    digest = base64.b32encode(hashlib.sha1(parsed.packed, usedforsecurity=False).digest()).decode().lower()
    return f"{kind}-{digest}"[:_NAME_LENGTH]


def _existing(options: L2Options, snapshot: Snapshot) -> dict[Endpoint, Interface]:
    """The tunnels by their endpoints; of two to the same, the one that has an ofport."""
    found: dict[Endpoint, Interface] = {}
    for interface in sorted(_tunnels(options, snapshot), key=lambda entry: (not _is_live(entry), entry.name)):
        address = interface.options["remote_ip"]
        found.setdefault(_endpoint(_KINDS[interface.type], address), interface)
    return found


def _tunnels(options: L2Options, snapshot: Snapshot) -> list[Interface]:
    """The tunnels on the tunnel bridge that carry all networks; not those of extensions, whose key is a number."""
    ports = snapshot.bridges.get(options.tunnel_bridge, Bridge("")).ports.values()
    interfaces = [port.interfaces[0] for port in ports if len(port.interfaces) == 1]
    return [
        interface
        for interface in interfaces
        if interface.type in _KINDS
        and interface.external_ids.get(MARK, TUNNEL) == TUNNEL
        and interface.options.get("in_key") == interface.options.get("out_key") == "flow"
        and _is_address(interface.options.get("remote_ip", ""))
    ]


def _endpoint(kind: str, address: str) -> Endpoint:
    return kind, str(_parsed(address))


def _is_live(interface: Interface) -> bool:
    return (interface.ofport or 0) > 0


def _unreachable(options: L2Options, host: state.Host) -> str | None:
    if not host.tunneling_ip:
        return "it has no address for tunnels"
    remote, local = _parsed(host.tunneling_ip), ip_address(options.local_ip)
    if remote is None:
        return f"its address for tunnels, {host.tunneling_ip!r}, is not an IP address"
    if remote == local:
        return f"its address for tunnels, {host.tunneling_ip}, is this host's own"
    if remote.version != local.version:
        return f"its address for tunnels, {host.tunneling_ip}, is of another IP version than {options.local_ip}"
    return None


def _is_address(text: str) -> bool:
    return _parsed(text) is not None


@cached(maxsize=16384)  # every reconciliation looks at the addresses of all hosts
def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _tunnel(options: L2Options, kind: str, host: state.Host, there: Interface) -> SetPort:
    """`there`: what it is now. A setting that a change does not name stays, so it is set to its default.

    The address stays as it is written: other text would be another configuration to the switch.
    """
    known: Collection[str] = there.options
    settings = {
        "remote_ip": there.options.get("remote_ip", host.tunneling_ip),
        "local_ip": options.local_ip,
        "in_key": "flow",  # the flows set and match the tunnel id: one port serves all networks
        "out_key": "flow",
        "df_default": str(options.dont_fragment).lower(),
        "csum": str(options.tunnel_csum).lower(),
    }
    if kind == "vxlan" and (options.vxlan_udp_port != VXLAN_PORT or _PORT in known):
        settings[_PORT] = str(options.vxlan_udp_port)
    if options.tunnel_tos or _TOS in known:
        settings[_TOS] = options.tunnel_tos or "0"
    return SetPort(options.tunnel_bridge, there.name, there.type, options=settings, external_ids={MARK: TUNNEL})
